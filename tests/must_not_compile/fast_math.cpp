// expect: attensor: -ffast-math and -ffinite-math-only remove the handling of infinities that masks rely on

#define __FAST_MATH__ 1  // what -ffast-math defines
#include "attensor/attensor.hpp"

int main() {}
