#include "golden/golden_case.hpp"

#include <charconv>
#include <cmath>
#include <sstream>

namespace attensor::inline ATTENSOR_ISA {
namespace {

template <class Number>
Number parse(const std::string& option, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw_error<ValueError>({"option ", option, " is ", text, "; expected a number"});
  }
  return value;
}

/// A NaN or an infinity passes only where the case has the same.
bool passes(double got, double want, double absolute, double relative) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= absolute + relative * std::abs(want);
}

}  // namespace

GoldenCase::GoldenCase(const std::string& path) : file_(path), name_(std::filesystem::path(path).stem().string()) {
  operation_ = text("op", "");
}

void GoldenCase::end_run() {
  for (const SafetensorsEntry& entry : file_.entries()) {
    if (!used_.contains(entry.name)) fail("tensor " + entry.name + " is not known or was not compared");
  }
  for (const auto& [option, value] : file_.metadata()) {
    const bool about_case = option == "op" || option.starts_with("atol") || option.starts_with("rtol");
    if (!about_case && !used_.contains(option)) fail("option " + option + " = " + value + " is not known");
  }
  if (checks_ == 0) fail("no output was compared");
}

std::size_t GoldenCase::rank(const std::string& name) const {
  const SafetensorsEntry* entry = file_.find(name);
  return entry ? entry->shape.size() : 0;
}

std::vector<std::string> GoldenCase::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const SafetensorsEntry& entry : file_.entries()) {
    if (entry.name.starts_with(prefix)) found.push_back(entry.name);
  }
  return found;
}

std::string GoldenCase::text(const std::string& option, const std::string& otherwise) {
  used_.insert(option);
  const auto found = file_.metadata().find(option);
  return found == file_.metadata().end() ? otherwise : found->second;
}

std::optional<double> GoldenCase::optional_number(const std::string& option) {
  const std::string value = text(option, "");
  return value.empty() ? std::nullopt : std::optional(parse<double>(option, value));
}
double GoldenCase::number(const std::string& option, double otherwise) {
  return optional_number(option).value_or(otherwise);
}

Index GoldenCase::integer(const std::string& option, Index otherwise) {
  const std::string value = text(option, "");
  return value.empty() ? otherwise : parse<Index>(option, value);
}

double GoldenCase::tolerance(const std::string& name) {
  const auto value = optional_number(name);
  if (!value) throw_error<IoError>({"the case has no ", name, "; expected atol64, rtol64, atol32 and rtol32"});
  return *value;
}

void GoldenCase::fail(const std::string& reason) {
  failures_.push_back(name_ + (run_.empty() ? "" : " (" + run_ + ")") + ": " + reason);
}

void GoldenCase::compare_elements(const std::string& name, std::span<const Index> shape, const double* want,
                                  const double* got) {
  const Index count = checked_count("GoldenCase", shape);
  Index wrong = 0, worst = 0;
  double worst_excess = -1;
  for (Index i = 0; i < count; ++i) {
    if (passes(got[i], want[i], absolute_, relative_)) continue;
    ++wrong;
    const double excess = std::isfinite(got[i] - want[i]) ? std::abs(got[i] - want[i]) : HUGE_VAL;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (wrong == 0) return;
  std::ostringstream text;
  text.precision(12);
  text << name << ' ' << shape_text(shape) << ": " << wrong << " of " << count << " elements differ, most element "
       << worst << ": got " << got[worst] << ", want " << want[worst] << " within " << absolute_ << " + " << relative_
       << " |want|";
  fail(text.str());
}

}  // namespace attensor::inline ATTENSOR_ISA
