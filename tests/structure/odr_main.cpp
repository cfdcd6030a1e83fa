// With odr_other.cpp: two translation units that include every header link into one program.

#include "every_header.hpp"

int odr_other();

int main() {
  const auto zeros = attensor::zeros<float>({2, 3});
  return zeros.size() == odr_other() ? 0 : 1;
}
