#include "every_header.hpp"

int odr_other() { return static_cast<int>(attensor::zeros<float>({3, 2}).size()); }
