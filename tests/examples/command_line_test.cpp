// Mirrors examples/support/command_line.hpp.

#include "../../examples/support/command_line.hpp"

#include <doctest/doctest.h>

using namespace example;

namespace {

struct Options {
  long count = 30;
  double rate = 0.5;
  std::string name;

  explicit Options(std::vector<std::string> words) {
    CommandLine line("program", "A program.");
    line.option("--count", count, "how many");
    line.option("--rate", rate, "how fast");
    line.option("--name", name, "whose");
    std::vector<char*> arguments;
    words.insert(words.begin(), "program");
    for (std::string& word : words) arguments.push_back(word.data());
    line.parse(static_cast<int>(arguments.size()), arguments.data());
  }
};

}  // namespace

TEST_CASE("command line: options with a space or a sign, the last one counts, others keep their default") {
  const Options options({"--rate", "-1e-3", "--name=a=b", "--rate=2"});
  CHECK(options.count == 30);
  CHECK(options.rate == 2);
  CHECK(options.name == "a=b");
}

TEST_CASE("command line: what cannot be understood is an error that names the option") {
  CHECK_THROWS_WITH_AS(Options({"--cuont", "3"}),
                       "program: unknown option --cuont; expected one of --count, --rate, --name, --help",
                       attensor::ValueError);
  CHECK_THROWS_WITH_AS(Options({"3"}), "program: unknown option 3; expected one of --count, --rate, --name, --help",
                       attensor::ValueError);
  CHECK_THROWS_WITH_AS(Options({"--count"}), "program: --count has no value; expected --count VALUE",
                       attensor::ValueError);
  CHECK_THROWS_WITH_AS(Options({"--count", "3.5"}), "program: --count is 3.5; expected a number without a point",
                       attensor::ValueError);
  CHECK_THROWS_WITH_AS(Options({"--rate="}), "program: --rate is ; expected a number", attensor::ValueError);
  CHECK_THROWS_WITH_AS(Options({"--count", "99999999999999999999"}),
                       "program: --count is 99999999999999999999; expected a number without a point",
                       attensor::ValueError);
}

TEST_CASE("command line: an error ends a program with a line and the exit code 1") {
  CHECK(run([] {}) == 0);
  CHECK(run([] { throw attensor::ValueError("what is wrong"); }) == 1);
}
