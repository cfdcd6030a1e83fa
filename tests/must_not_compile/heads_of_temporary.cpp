// expect: no matching function for call to .*split_heads

#include "attensor/attensor.hpp"

int main() {
  const auto heads = attensor::split_heads(attensor::ones<float>({1, 3, 4}), 2);  // would outlive its elements
  return static_cast<int>(heads.size());
}
