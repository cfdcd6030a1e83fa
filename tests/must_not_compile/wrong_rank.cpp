// expect: no matching function for call to .*scaled_dot_product_attention

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<float, 3> query(attensor::Shape{2, 3, 4});
  return static_cast<int>(attensor::scaled_dot_product_attention(query, query, query).output.size());
}
