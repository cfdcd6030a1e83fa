// expect: no matching function for call to .*matrix

#include "attensor/attensor.hpp"

int main() {
  const auto map = attensor::matrix(attensor::ones<float>({3, 4}));  // would outlive its elements
  return static_cast<int>(map.size());
}
