// The main function of every test program. Says first what was built, so that a log tells what was tested.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "attensor/core/build_info.hpp"

int main(int argc, char** argv) {
  std::cout << attensor::to_string(attensor::build_info()) << '\n';
  return doctest::Context(argc, argv).run();
}
