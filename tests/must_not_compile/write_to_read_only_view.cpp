// expect: read-only|const-qualified|cannot assign

#include "attensor/attensor.hpp"

int main() {
  const attensor::Tensor<float, 1> x = {1, 2, 3};
  x.view()(0) = 5;
}
