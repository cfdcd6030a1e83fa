#include "support/case_file.hpp"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace attensor::inline ATTENSOR_ISA {
namespace {

/// A number, or one of those that JSON has not.
double number(const nlohmann::json& value) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value == "inf") return infinity;
  if (value == "-inf") return -infinity;
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return value.get<double>();
}

}  // namespace

CaseFile::CaseFile(const std::string& id) : id_(id) {
  std::ifstream in(std::string(ATTENSOR_TESTS_DIR) + "/cases/data/" + id + ".json");
  if (!in) throw_error<IoError>({"CaseFile: there is no case ", id});
  const nlohmann::json file = nlohmann::json::parse(in);
  for (const char* section : {"inputs", "expected", "faulty"}) {
    for (const auto& [name, value] : file.at(section).items()) {
      Array array;
      if (value.is_number()) {
        array.values = {number(value)};
      } else if (value.is_object() && value.contains("data")) {
        array.shape = value.at("shape").get<std::vector<Index>>();
        for (const auto& element : value.at("data")) array.values.push_back(number(element));
      } else {
        continue;  // names of rows, verdicts on files
      }
      if (static_cast<Index>(array.values.size()) != checked_count("CaseFile", array.shape)) {
        throw_error<IoError>({"CaseFile: ", id, ".json: ", name, " has another number of elements than its shape"});
      }
      arrays_[std::string(section) + '/' + name] = std::move(array);
    }
  }
  float_tolerance_ = file.at("tol").at("f32").get<double>();
  double_tolerance_ = file.at("tol").at("f64").get<double>();
}

const CaseFile::Array& CaseFile::array(const std::string& section, const std::string& name) const {
  const auto found = arrays_.find(section + '/' + name);
  if (found == arrays_.end()) throw_error<IoError>({"CaseFile: ", id_, ".json has no ", section, " named ", name});
  return found->second;
}

}  // namespace attensor::inline ATTENSOR_ISA
