#include "support/gradient_check.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>

namespace attensor::inline ATTENSOR_ISA {
namespace {

std::atomic<Index> configurations{0};

constexpr double step = 1e-6;
constexpr double absolute_tolerance = 1e-6;
constexpr double relative_tolerance = 1e-5;
constexpr Index most_places = 64;

/// All places, or some of them.
std::vector<Index> places(Index count, Rng& rng) {
  std::vector<Index> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), Index{0});
  if (count <= most_places) return all;
  for (Index i = 0; i < most_places; ++i) {
    std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(random_between(rng, i, count - 1))]);
  }
  all.resize(static_cast<std::size_t>(most_places));
  return all;
}

}  // namespace

Index gradient_configurations() { return configurations; }

namespace {

/// Says at the end how many configurations were checked, and leaves the number in the file that the environment
/// variable ATTENSOR_TEST_GRADIENT_COUNT names: gradients_count.cmake adds up those of all programs.
struct GradientReport : doctest::IReporter {
  explicit GradientReport(const doctest::ContextOptions&) {}

  void test_run_end(const doctest::TestRunStats&) override {
    const Index count = gradient_configurations();
    if (count > 0) std::cout << count << " gradient configurations, ATTENSOR_TEST_SEED=" << test_seed() << '\n';
    if (const char* path = std::getenv("ATTENSOR_TEST_GRADIENT_COUNT")) std::ofstream(path) << count << '\n';
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("gradients", 1, GradientReport);

}  // namespace

namespace detail {

std::uint64_t seed_of(const double* values, Index count) {
  std::uint64_t seed = 1469598103934665603;  // FNV-1a, a word at a time
  for (Index i = 0; i < count; ++i) seed = (seed ^ std::bit_cast<std::uint64_t>(values[i])) * 1099511628211;
  return seed;
}

void check_by_differences(const std::vector<GradientVariable>& variables, const std::vector<double>& dy,
                          const std::function<void(std::vector<double>& elements)>& forward, Rng& rng) {
  ++configurations;
  const auto forward_at = [&](double& variable, double value) {
    const double before = std::exchange(variable, value);
    std::vector<double> elements;
    elements.reserve(dy.size());
    forward(elements);
    variable = before;
    return elements;
  };
  for (const GradientVariable& variable : variables) {
    INFO("the gradient of ", variable.name, " ", shape_text(variable.shape), " has shape ",
         shape_text(variable.grad_shape));
    REQUIRE(variable.shape == variable.grad_shape);
    Index wrong = 0;
    std::string first;
    const auto checked = places(checked_count("check_gradients", variable.shape), rng);
    for (const Index i : checked) {
      double& x = variable.value[i];
      const double up = x + step, down = x - step;
      const auto y_up = forward_at(x, up), y_down = forward_at(x, down);
      REQUIRE(y_up.size() == dy.size());
      double numeric = 0;
      for (std::size_t j = 0; j < dy.size(); ++j) numeric += (y_up[j] - y_down[j]) * dy[j];
      numeric /= up - down;
      const double analytic = variable.grad[i];
      if (std::abs(analytic - numeric) <= absolute_tolerance + relative_tolerance * std::abs(numeric)) continue;
      if (wrong++ == 0) {
        std::ostringstream text;
        text.precision(12);
        text << "element " << i << " is " << analytic << ", by differences " << numeric;
        first = text.str();
      }
    }
    CHECK_MESSAGE(wrong == 0, wrong << " of " << checked.size() << " places of " << variable.name << " "
                                    << shape_text(variable.shape) << " differ: " << first);
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
