#pragma once
/// \file
/// One golden case: a file of inputs, options and the values that PyTorch gives for them. FORMAT.md says what each
/// operation takes and gives.
///
/// A case keeps book: every tensor and every option of the file has to be asked for or compared, so that nothing in it
/// is passed over in silence.

#include <set>
#include <string>
#include <vector>

#include "attensor/io/safetensors.hpp"

namespace attensor::inline ATTENSOR_ISA {

class GoldenCase {
 public:
  /// \throws IoError if the file cannot be read or has no metadata for its tolerances
  explicit GoldenCase(const std::string& path);

  const std::string& operation() const { return operation_; }
  const std::vector<std::string>& failures() const { return failures_; }

  /// Everything from here on is done in this scalar type and, where there are several, by this kernel.
  template <Scalar T>
  void begin_run(const std::string& kernel = "") {
    run_ = std::string(std::is_same_v<T, float> ? "float" : "double") + (kernel.empty() ? "" : ", " + kernel);
    absolute_ = tolerance(std::is_same_v<T, float> ? "atol32" : "atol64");
    relative_ = tolerance(std::is_same_v<T, float> ? "rtol32" : "rtol64");
    checks_ = 0;
    used_.clear();
  }
  /// Reports what the run has not asked for or compared.
  void end_run();

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::size_t rank(const std::string& name) const;
  /// Every tensor in the file whose name begins so.
  std::vector<std::string> names(const std::string& prefix) const;

  /// An input, rounded to T.
  template <Element T, std::size_t Rank>
  Tensor<T, Rank> input(const std::string& name) {
    used_.insert(name);
    return file_.read<T, Rank>(name);
  }

  /// Compares an output if the file has it.
  template <Scalar T, std::size_t Rank>
  void check(const std::string& name, const Tensor<T, Rank>& got) {
    if (!has(name)) return;
    used_.insert(name);
    ++checks_;
    const auto want = file_.read<double, Rank>(name);
    if (got.shape() != want.shape()) {
      return fail(name + ": got shape " + shape_text(got.shape()) + ", want " + shape_text(want.shape()));
    }
    compare(name, want, to<double>(got));
  }
  template <Scalar T>
  void check_number(const std::string& name, T got) {
    check(name, Tensor<T, 1>{got});
  }

  std::string text(const std::string& option, const std::string& otherwise);
  double number(const std::string& option, double otherwise);
  std::optional<double> optional_number(const std::string& option);
  Index integer(const std::string& option, Index otherwise);
  bool flag(const std::string& option) { return integer(option, 0) != 0; }

  void fail(const std::string& reason);

 private:
  double tolerance(const std::string& name);
  template <std::size_t Rank>
  void compare(const std::string& name, const Tensor<double, Rank>& want, const Tensor<double, Rank>& got) {
    compare_elements(name, want.shape(), want.data(), got.data());
  }
  void compare_elements(const std::string& name, std::span<const Index> shape, const double* want, const double* got);

  SafetensorsFile file_;
  std::string name_, operation_, run_;
  double absolute_ = 0, relative_ = 0;
  Index checks_ = 0;
  std::set<std::string> used_;  // tensors and options of this run
  std::vector<std::string> failures_;
};

/// Runs the case in double and in float. False if no such operation is known.
bool run_op_case(GoldenCase& c);
bool run_attention_case(GoldenCase& c);
bool run_layer_case(GoldenCase& c);
bool run_training_case(GoldenCase& c);

/// body(T{}) for double and float.
template <class Body>
void run_in_both(GoldenCase& c, Body&& body) {
  const auto run = [&](auto zero) {
    c.begin_run<decltype(zero)>();
    body(zero);
    c.end_run();
  };
  run(double{});
  run(float{});
}

}  // namespace attensor::inline ATTENSOR_ISA
