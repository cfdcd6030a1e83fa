// Compiles: what the other files here do wrong, done right.

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<float, 2> x = {{1, 2, 3}, {4, 5, 6}};
  const attensor::Tensor<float, 2> weight(attensor::Shape{2, 3});
  return static_cast<int>(attensor::linear(x, weight).size());
}
