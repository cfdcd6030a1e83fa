#pragma once
/// \file
/// A module's parameters to and from a safetensors file, by the names that its visitor gives them: PyTorch's.
///
///     save_safetensors("model.safetensors", model);
///     load_safetensors("model.safetensors", model);

#include "attensor/io/safetensors.hpp"
#include "attensor/layers/parameter.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct LoadOptions {
  std::string prefix = {};  ///< in front of all names in the file: "bert."
  /// A parameter's name to the name in the file, without the prefix; none: they are the same.
  std::function<std::string(const std::string&)> rename = nullptr;
  std::function<bool(const std::string&)> ignore = nullptr;  ///< names in the file that may be there unused
  bool strict = true;                                        ///< throw unless all names and shapes agree
};

/// How a file and a module differ. Names are the file's.
struct LoadReport {
  std::vector<std::string> missing;     ///< parameters that the file has not
  std::vector<std::string> unexpected;  ///< tensors of the file, under the prefix, that no parameter takes
  std::vector<std::string> misshapen;   ///< "linear1.weight is [4,8] in the file and [8,4] in the module"

  bool agrees() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
};

namespace detail {

inline std::string report_text(const LoadReport& report) {
  std::string text;
  const auto append = [&](const char* kind, const std::vector<std::string>& names) {
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + (kind + (' ' + name));
  };
  append("missing", report.missing);
  append("unexpected", report.unexpected);
  append("misshapen", report.misshapen);
  return text;
}

inline std::string name_in_file(const ParameterPath& path, const LoadOptions& options) {
  const std::string name = path.str();
  return options.prefix + (options.rename ? options.rename(name) : name);
}

/// What agrees and what does not, from the header alone.
template <class Module>
LoadReport compare_safetensors(const SafetensorsFile& file, const Module& module, const LoadOptions& options) {
  LoadReport report;
  std::set<std::string> taken;
  visit_parameters(module, [&](const ParameterPath& path, const auto& parameter) {
    const std::string name = name_in_file(path, options);
    const SafetensorsEntry* entry = file.find(name);
    if (!entry) {
      report.missing.push_back(name);
    } else if (const auto& shape = parameter.value.shape();
               !std::equal(entry->shape.begin(), entry->shape.end(), shape.begin(), shape.end())) {
      report.misshapen.push_back(name + " is " + shape_text(entry->shape) + " in the file and " + shape_text(shape) +
                                 " in the module");
    }
    taken.insert(name);
  });
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with(options.prefix) || taken.contains(entry.name)) continue;
    if (options.ignore && options.ignore(entry.name)) continue;
    report.unexpected.push_back(entry.name);
  }
  return report;
}

}  // namespace detail

/// Reads all parameters of the module. Gradients stay as they are.
///
/// \return the differences; without `strict`, what agrees is loaded in spite of them
/// \throws IoError if a tensor cannot be read as the module's scalar type, or, with `strict`, if names or shapes differ;
///         then the message lists all of them and the module is unchanged
template <class Module>
LoadReport load_safetensors(SafetensorsFile& file, Module& module, const LoadOptions& options = {}) {
  LoadReport report = detail::compare_safetensors(file, std::as_const(module), options);
  if (options.strict && !report.agrees()) {
    throw_error<IoError>({"load_safetensors: file and module differ: ", detail::report_text(report),
                          "; expected the same names and shapes"});
  }
  visit_parameters(module, [&](const ParameterPath& path, auto& parameter) {
    const std::string name = detail::name_in_file(path, options);
    const SafetensorsEntry* entry = file.find(name);
    const auto& shape = parameter.value.shape();
    if (entry && std::equal(entry->shape.begin(), entry->shape.end(), shape.begin(), shape.end())) {
      file.read_into(name, parameter.value);
    }
  });
  return report;
}
template <class Module>
LoadReport load_safetensors(const std::string& path, Module& module, const LoadOptions& options = {}) {
  SafetensorsFile file(path);
  return load_safetensors(file, module, options);
}

struct SaveOptions {
  std::string prefix = {};                           ///< in front of all names
  std::map<std::string, std::string> metadata = {};  ///< text of your own
};

/// Writes all parameters of the module, whole or not at all. \throws IoError if the file cannot be written
template <class Module>
void save_safetensors(const std::string& path, const Module& module, const SaveOptions& options = {}) {
  SafetensorsWriter writer;
  for (const auto& [name, text] : options.metadata) writer.set_metadata(name, text);
  visit_parameters(module, [&](const ParameterPath& parameter_path, const auto& parameter) {
    writer.add(options.prefix + parameter_path.str(), parameter.value);
  });
  writer.write(path);
}

}  // namespace attensor::inline ATTENSOR_ISA
