// Mirrors include/attensor/core/build_info.hpp.

#include "attensor/core/build_info.hpp"

#include <doctest/doctest.h>

using namespace attensor;

TEST_CASE("build_info: says what this binary was built from") {
  const BuildInfo info = build_info();
#if defined(__AVX512F__)
  CHECK(info.isa.find("avx512") == 0);
#elif defined(__AVX2__)
  CHECK(info.isa.find("avx2") == 0);
#else
  CHECK(!info.isa.empty());
#endif
  CHECK((info.eigen_version.starts_with("3.4.") || info.eigen_version.starts_with("5.")));
  CHECK(info.num_threads == get_num_threads());
#ifdef NDEBUG
  CHECK(!info.assertions);
#else
  CHECK(info.assertions);
#endif
  CHECK(info.same_bits == detail::has_packed_gemm<float>);
}

TEST_CASE("build_info: as one line, for benchmarks and logs") {
  CHECK(to_string(BuildInfo{"avx2+fma", "5.0.1", 1, true, false}) ==
        "attensor: avx2+fma, Eigen 5.0.1, 1 thread, debug, same bits: no");
  CHECK(to_string(BuildInfo{"avx512", "3.4.0", 8, false, true}) ==
        "attensor: avx512, Eigen 3.4.0, 8 threads, release, same bits: yes");
}
