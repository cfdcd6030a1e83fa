// expect: attensor: all tensors of one call have the same scalar type; convert with to<float>\(x\) or to<double>\(x\)

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<float, 4> query(attensor::Shape{1, 2, 3, 4});
  const attensor::Tensor<double, 4> value(attensor::Shape{1, 2, 3, 4});
  return static_cast<int>(attensor::scaled_dot_product_attention(query, query, value).output.size());
}
