// expect: attensor: ids are std::int64_t

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<int, 1> ids = {1, 2};
  return static_cast<int>(attensor::embedding(ids, attensor::ones<float>({3, 4})).size());
}
