#pragma once
/// \file
/// Files that are there whole or not at all, and reading at a place.

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "attensor/core/error.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Bytes to read from: a file, or memory that somebody else owns.
struct ByteSource {
  std::string name;  ///< for messages
  Index size = 0;
  /// Fills `to` from `offset` on; both lie inside. False if the file is no longer as long as it was, or cannot be read.
  std::function<bool(Index offset, char* to, Index count)> read;
};

/// \throws IoError if there is no such file, or if it is none (a directory)
inline ByteSource open_bytes(const char* function, const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  const auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (error || !*file)
    throw_error<IoError>({function, ": ", path, " cannot be opened; expected a file that can be read"});
  return {path, static_cast<Index>(size), [file](Index offset, char* to, Index count) {
            file->clear();
            return static_cast<bool>(file->seekg(offset).read(to, count));
          }};
}

inline ByteSource view_bytes(std::span<const std::byte> bytes) {
  return {"memory", static_cast<Index>(bytes.size()), [bytes](Index offset, char* to, Index count) {
            std::copy_n(reinterpret_cast<const char*>(bytes.data()) + offset, count, to);
            return true;
          }};
}

/// Writes to a new file beside `path`, which takes its place when all is written: a failure at any point leaves the old
/// file as it was. body(write) calls write(const char* bytes, Index count).
/// \throws IoError if a file cannot be created there, or the disk is full
template <class Body>
void write_whole_file(const char* function, const std::string& path, Body&& body) {
  static std::atomic<unsigned> counter{0};
  std::string temporary;
  std::FILE* file = nullptr;
  for (int attempt = 0; attempt < 1000 && !file; ++attempt) {
    temporary = path + '.' + std::to_string(counter.fetch_add(1)) + ".partial";
    file = std::fopen(temporary.c_str(), "wbx");  // x: never a file that exists, another program may be writing it
    if (!file && !std::filesystem::exists(temporary)) break;
  }
  if (!file)
    throw_error<IoError>({function, ": ", path, " cannot be written; expected a directory where files can be created"});
  struct Guard {
    std::FILE* file;
    const std::string& temporary;
    bool renamed = false;
    ~Guard() {
      if (file) std::fclose(file);
      if (!renamed) std::remove(temporary.c_str());
    }
  } guard{file, temporary};

  bool good = true;
  body([&](const char* bytes, Index count) {
    good = good && std::fwrite(bytes, 1, static_cast<std::size_t>(count), file) == static_cast<std::size_t>(count);
  });
  guard.file = nullptr;
  good = std::fclose(file) == 0 && good;
  std::error_code error;
  if (good) std::filesystem::rename(temporary, path, error);
  guard.renamed = good && !error;
  if (!guard.renamed) {
    throw_error<IoError>({function, ": ", path, " cannot be written (", good ? error.message() : "the disk may be full",
                          "); expected room for it, and what was there is as it was"});
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
