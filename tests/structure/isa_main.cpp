// One program with the library compiled for three instruction sets: each of them computes, and they agree.

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "isa_forward.hpp"

namespace {

bool agree(const char* name, const std::vector<float>& got, const std::vector<float>& want) {
  bool all = !got.empty() && got.size() == want.size();
  for (std::size_t i = 0; all && i < got.size(); ++i)
    all = std::abs(got[i] - want[i]) <= 1e-5f * (1 + std::abs(want[i]));
  std::printf("%s: %zu values, %s\n", name, got.size(), all ? "agree" : "DIFFER");
  return all;
}

}  // namespace

int main() {
  const std::vector<float> want = forward_sse2();
  bool all = agree("sse2", want, want);
#if defined(__GNUC__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all &= agree("avx2", forward_avx2(), want);
#endif
  all &= agree("native", forward_native(), want);
  return all ? 0 : 1;
}
