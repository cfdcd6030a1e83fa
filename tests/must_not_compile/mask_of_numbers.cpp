// expect: no match for .*operator=|no viable overloaded

#include "attensor/attensor.hpp"

int main() {
  attensor::AttentionOptions<float> options;
  options.mask = attensor::ones<float>({1, 1, 3, 3});  // added or boolean? bias is added, mask is boolean
}
