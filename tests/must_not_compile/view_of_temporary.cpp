// expect: deleted

#include "attensor/attensor.hpp"

int main() {
  const auto view = attensor::ones<float>({3, 4}).view();  // would outlive its elements
  return static_cast<int>(view.size());
}
