#pragma once
/// \file
/// What this binary was built from and which promises it keeps; benchmarks and examples print it.

#include <string>

#include "attensor/core/gemm.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct BuildInfo {
  std::string isa;            ///< instruction set that the compiler was allowed, e.g. "avx512"
  std::string eigen_version;  ///< "5.0.1"
  int num_threads = 0;        ///< that loops may use now
  bool assertions = false;    ///< element access is checked (NDEBUG is not defined)
  bool same_bits = false;     ///< results do not depend on threads, batch, place in the batch or padding
};

inline BuildInfo build_info() {
  BuildInfo info;
#define ATTENSOR_TEXT(x) #x
#define ATTENSOR_TEXT_OF(x) ATTENSOR_TEXT(x)
  info.isa = ATTENSOR_TEXT_OF(ATTENSOR_ISA_BASE);
  if (ATTENSOR_ISA_FMA && info.isa == "avx2") info.isa += "+fma";
#undef ATTENSOR_TEXT_OF
#undef ATTENSOR_TEXT
#if EIGEN_MAJOR_VERSION >= 5
  constexpr std::array<int, 3> version = {EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION, EIGEN_PATCH_VERSION};
#else
  constexpr std::array<int, 3> version = {EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION};
#endif
  info.eigen_version = std::to_string(version[0]) + '.' + std::to_string(version[1]) + '.' + std::to_string(version[2]);
  info.num_threads = get_num_threads();
#ifndef NDEBUG
  info.assertions = true;
#endif
  info.same_bits = detail::has_packed_gemm<float>;
  return info;
}

/// "attensor: avx512, Eigen 5.0.1, 2 threads, release, same bits: yes"
inline std::string to_string(const BuildInfo& info) {
  return "attensor: " + info.isa + ", Eigen " + info.eigen_version + ", " + std::to_string(info.num_threads) +
         (info.num_threads == 1 ? " thread, " : " threads, ") + (info.assertions ? "debug" : "release") +
         ", same bits: " + (info.same_bits ? "yes" : "no");
}

}  // namespace attensor::inline ATTENSOR_ISA
