#pragma once
/// \file
/// Reads tests/cases/data/ID.json: a fault that users of other libraries met, its inputs and the right values.
///
///     const CaseFile file("A01");
///     const auto query = file.input<double, 4>("q");
///     CHECK_NEAR(output, (file.expected<double, 4>("out")), file.tolerance<double>());

#include <map>
#include <string>
#include <vector>

#include "attensor/core/creation.hpp"

namespace attensor::inline ATTENSOR_ISA {

class CaseFile {
 public:
  /// \throws IoError if there is no such case
  explicit CaseFile(const std::string& id);

  /// The tensor of that name, rounded to T. One of a lower rank gets leading extents of 1, as broadcasting has it.
  /// \throws IoError if there is none, or one of a higher rank
  template <Element T, std::size_t Rank>
  Tensor<T, Rank> input(const std::string& name) const {
    return convert<T, Rank>("inputs", name);
  }
  template <Element T, std::size_t Rank>
  Tensor<T, Rank> expected(const std::string& name) const {
    return convert<T, Rank>("expected", name);
  }
  /// What an implementation with the fault gives: the tests show that they would notice.
  template <Element T, std::size_t Rank>
  Tensor<T, Rank> faulty(const std::string& name) const {
    return convert<T, Rank>("faulty", name);
  }
  double expected_number(const std::string& name) const { return array("expected", name).values.at(0); }

  template <Scalar T>
  double tolerance() const {
    return std::is_same_v<T, float> ? float_tolerance_ : double_tolerance_;
  }

 private:
  struct Array {
    std::vector<Index> shape;
    std::vector<double> values;
  };

  const Array& array(const std::string& section, const std::string& name) const;

  template <Element T, std::size_t Rank>
  Tensor<T, Rank> convert(const std::string& section, const std::string& name) const {
    const Array& found = array(section, name);
    if (found.shape.size() > Rank) {
      throw_error<IoError>({"CaseFile: ", id_, ".json: ", name, " has shape ", shape_text(found.shape),
                            "; expected rank ", std::to_string(Rank), " or less"});
    }
    Shape<Rank> shape{};
    shape.fill(1);
    std::copy_backward(found.shape.begin(), found.shape.end(), shape.end());
    Tensor<T, Rank> x(shape);
    std::transform(found.values.begin(), found.values.end(), x.data(),
                   [](double value) { return static_cast<T>(value); });
    return x;
  }

  std::string id_;
  std::map<std::string, Array> arrays_;  // "inputs/q", ...
  double float_tolerance_ = 0, double_tolerance_ = 0;
};

}  // namespace attensor::inline ATTENSOR_ISA
