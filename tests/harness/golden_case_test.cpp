// The golden runner's book-keeping: nothing in a case is passed over in silence.

#include <doctest/doctest.h>

#include "golden/golden_case.cpp"
#include "support/near.hpp"
#include "support/temporary_directory.hpp"

using namespace attensor;

namespace {

/// A case with x and output = want, and these options besides.
std::string write_case(const TemporaryDirectory& directory, const Tensor<double, 1>& want,
                       const std::map<std::string, std::string>& options = {}, const std::string& other_tensor = "") {
  SafetensorsWriter writer;
  std::map<std::string, std::string> metadata = {
      {"op", "twice"}, {"atol64", "1e-10"}, {"rtol64", "1e-10"}, {"atol32", "1e-3"}, {"rtol32", "1e-3"}};
  for (const auto& [name, value] : options) metadata[name] = value;
  for (const auto& [name, value] : metadata) writer.set_metadata(name, value);
  writer.add("x", Tensor<double, 1>{1, 2, 3});
  writer.add("output", want);
  if (!other_tensor.empty()) writer.add(other_tensor, want);
  writer.write(directory.file("case"));
  return directory.file("case");
}

/// What a run that finds `got` reports.
std::vector<std::string> failures_of(const std::string& path, const Tensor<double, 1>& got) {
  GoldenCase c(path);
  c.begin_run<double>("some kernel");
  (void)c.input<double, 1>("x");
  c.check("output", got);
  c.end_run();
  return c.failures();
}

}  // namespace

TEST_CASE("golden: what agrees passes, each scalar type by its own tolerance") {
  const TemporaryDirectory directory;
  const std::string path = write_case(directory, {2, 4, 6});
  CHECK(failures_of(path, {2, 4, 6 + 1e-10}).empty());
  GoldenCase c(path);
  run_in_both(c, [&]<class T>(T) {
    (void)c.input<T, 1>("x");
    c.check("output", Tensor<T, 1>{2, 4, std::is_same_v<T, float> ? T(6.005) : T(6)});
  });
  CHECK(c.failures().empty());
}

TEST_CASE("golden: a difference is reported with its place and size") {
  const TemporaryDirectory directory;
  const auto failures = failures_of(write_case(directory, {2, 4, 6}), {2, 4.5, 6.25});
  REQUIRE(failures.size() == 1);
  CHECK(
      failures[0] ==
      "case (double, some kernel): output [3]: 2 of 3 elements differ, most element 1: got 4.5, want 4 within 1e-10 + "
      "1e-10 |want|");
}

TEST_CASE("golden: a NaN or an infinity passes only where the case has the same") {
  const TemporaryDirectory directory;
  const std::string path = write_case(directory, {not_a_number, -infinity, 0});
  CHECK(failures_of(path, {not_a_number, -infinity, 0}).empty());
  CHECK(failures_of(path, {0, -infinity, 0}).size() == 1);
  CHECK(failures_of(path, {not_a_number, infinity, 0}).size() == 1);
  CHECK(failures_of(path, {not_a_number, -1e308, 0}).size() == 1);
  CHECK(failures_of(path, {not_a_number, -infinity, not_a_number}).size() == 1);
  CHECK(failures_of(path, {not_a_number, -infinity, infinity}).size() == 1);
}

TEST_CASE("golden: another shape is a failure") {
  const TemporaryDirectory directory;
  const auto failures = failures_of(write_case(directory, {2, 4, 6}), {2, 4});
  REQUIRE(failures.size() == 1);
  CHECK(failures[0] == "case (double, some kernel): output: got shape [2], want [3]");
}

TEST_CASE("golden: what was not asked for or compared is a failure") {
  const TemporaryDirectory directory;
  CHECK(failures_of(write_case(directory, {2, 4, 6}, {}, "dx"), {2, 4, 6}) ==
        std::vector<std::string>{"case (double, some kernel): tensor dx is not known or was not compared"});
  CHECK(failures_of(write_case(directory, {2, 4, 6}, {{"momentum", "0.5"}}), {2, 4, 6}) ==
        std::vector<std::string>{"case (double, some kernel): option momentum = 0.5 is not known"});

  GoldenCase c(write_case(directory, {2, 4, 6}));
  c.begin_run<double>();
  (void)c.input<double, 1>("x");
  c.end_run();
  CHECK(c.failures() == std::vector<std::string>{"case (double): tensor output is not known or was not compared",
                                                 "case (double): no output was compared"});
}

TEST_CASE("golden: options that are no numbers, and cases without tolerances, are errors") {
  const TemporaryDirectory directory;
  GoldenCase c(write_case(directory, {2, 4, 6}, {{"eps", "small"}, {"heads", "2.5"}, {"atol64", "1e-5x"}}));
  CHECK_THROWS_AS(c.number("eps", 1), ValueError);
  CHECK_THROWS_AS(c.integer("heads", 1), ValueError);
  CHECK_THROWS_AS(c.begin_run<double>(), ValueError);
  CHECK(c.number("scale", 0.25) == 0.25);
  SafetensorsWriter().write(directory.file("bare"));
  GoldenCase bare(directory.file("bare"));
  CHECK_THROWS_WITH_AS(bare.begin_run<float>(), "the case has no atol32; expected atol64, rtol64, atol32 and rtol32",
                       IoError);
}
