// expect: no matching function for call to .*slice

#include "attensor/attensor.hpp"

int main() {
  const auto rows = attensor::slice(attensor::ones<float>({3, 4}), 0, 1, 2);  // would outlive its elements
  return static_cast<int>(rows.size());
}
