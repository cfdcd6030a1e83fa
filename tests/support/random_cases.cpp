#include "support/random_cases.hpp"

#include <cstdlib>
#include <random>

namespace attensor::inline ATTENSOR_ISA {

std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    if (const char* text = std::getenv("ATTENSOR_TEST_SEED")) return std::uint64_t{std::strtoull(text, nullptr, 10)};
    return std::uint64_t{std::random_device{}()};
  }();
  return seed;
}

}  // namespace attensor::inline ATTENSOR_ISA
