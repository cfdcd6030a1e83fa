// expect: no match for call to|no matching function for call to object of type|no matching function for call

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<float, 2> x = {{1, 2}, {3, 4}};
  return static_cast<int>(x(1));
}
