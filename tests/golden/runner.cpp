// Checks the library against values of PyTorch: attensor_golden FILE...
//
// Prints a line for each failure and finally "N passed, N failed", counting files. FORMAT.md says what is in a file,
// and generate.py makes new ones.

#include <iostream>

#include "golden/golden_case.hpp"

namespace {

using namespace attensor;

/// What went wrong with one file.
std::vector<std::string> run_file(const std::string& path) {
  try {
    GoldenCase c(path);
    try {
      if (!run_op_case(c) && !run_attention_case(c) && !run_layer_case(c) && !run_training_case(c)) {
        c.fail("op " + c.operation() + " is not known");
      }
    } catch (const std::exception& error) {
      c.fail(error.what());
    }
    return c.failures();
  } catch (const std::exception& error) {
    return {error.what()};
  }
}

}  // namespace

int main(int argc, char** argv) {
  int passed = 0, failed = 0;
  for (int i = 1; i < argc; ++i) {
    const auto failures = run_file(argv[i]);
    for (const std::string& failure : failures) std::cout << failure << '\n';
    ++(failures.empty() ? passed : failed);
  }
  if (argc < 2) std::cerr << "usage: attensor_golden FILE...\n";
  std::cout << passed << " passed, " << failed << " failed\n";
  return failed == 0 && passed > 0 ? 0 : 1;
}
