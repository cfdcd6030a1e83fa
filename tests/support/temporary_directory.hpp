#pragma once
/// \file
/// A directory for the files of one test, gone with it.

#include <filesystem>
#include <random>
#include <string>

#include "attensor/core/isa.hpp"

namespace attensor::inline ATTENSOR_ISA {

class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(std::filesystem::temp_directory_path() / ("attensor-test-" + std::to_string(std::random_device{}()))) {
    std::filesystem::create_directory(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// The path of a file in it.
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// How many files there are.
  int count() const {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) files += entry.exists();
    return files;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace attensor::inline ATTENSOR_ISA
