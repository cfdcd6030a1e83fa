// expect: attensor: all tensors of one call have the same scalar type; convert with to<float>\(x\) or to<double>\(x\)

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<float, 2> x = {{1, 2, 3}, {4, 5, 6}};
  const attensor::Tensor<double, 2> weight(attensor::Shape{2, 3});
  return static_cast<int>(attensor::linear(x, weight).size());
}
