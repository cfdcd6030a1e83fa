#pragma once
/// \file
/// The header of a safetensors file, read strictly.
///
///     8 bytes     length N of the header, little-endian, at most 100,000,000
///     N bytes     {"__metadata__": {name: text, ...},
///                  "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
///     the rest    the elements, little-endian, row-major
///
/// The JSON is UTF-8, begins with `{` and may end in spaces; no key comes twice. In the order of their offsets the
/// tensors cover the rest of the file without gaps or overlaps, and each span is as long as type and shape say. Nothing
/// is allocated for a length before the file is known to be that long. (The reference implementation also takes spaces
/// in front.)
///
/// Source: the format's description in huggingface/safetensors.

#include <algorithm>
#include <string>

#include "attensor/io/safetensors_parser.hpp"
#include "attensor/io/whole_file.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

inline constexpr Index largest_safetensors_header = 100'000'000;

/// The spans follow each other, are as long as type and shape say, and end with the file.
inline void check_safetensors_spans(const std::string& file, SafetensorsHeader& header, Index data_size) {
  std::sort(header.entries.begin(), header.entries.end(),
            [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  Index position = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string offsets = '[' + std::to_string(entry.begin) + ',' + std::to_string(entry.end) + ']';
    const auto fail = [&](const std::string& text) {
      throw_error<IoError>({"SafetensorsFile: ", file, ": tensor ", entry.name, " has ", text});
    };
    if (entry.begin != position) {
      fail("data_offsets " + offsets + "; expected them to begin at " + std::to_string(position) +
           ", where the tensor before ends");
    }
    Index count = 0;
    try {
      count = checked_count("SafetensorsFile", entry.shape, info(entry.type).bytes);
    } catch (const ShapeError&) {
      fail("shape " + shape_text(entry.shape) + ", which overflows; expected fewer than 2^63 bytes");
    }
    if (entry.end - entry.begin != count * info(entry.type).bytes) {
      fail("data_offsets " + offsets + "; expected " + std::to_string(count * info(entry.type).bytes) + " bytes for " +
           std::string(info(entry.type).name) + ' ' + shape_text(entry.shape));
    }
    position = entry.end;
  }
  if (position != data_size) {
    throw_error<IoError>({"SafetensorsFile: ", file, " has ", std::to_string(data_size),
                          " bytes of elements; expected ", std::to_string(position), ", where the last tensor ends"});
  }
}

/// \throws IoError for anything that is not as the format has it
inline SafetensorsHeader read_safetensors_header(const ByteSource& source) {
  const auto fail = [&](const std::string& text) { throw_error<IoError>({"SafetensorsFile: ", source.name, text}); };
  std::array<char, 8> length_bytes{};
  if (source.size < 8)
    fail(" has " + std::to_string(source.size) + " bytes; expected 8 or more, the length of the header");
  if (!source.read(0, length_bytes.data(), 8)) fail(" cannot be read; expected the length of the header");
  const auto length = load_little_endian<std::uint64_t>(length_bytes.data());
  const Index longest = std::min(source.size - 8, largest_safetensors_header);
  if (length > static_cast<std::uint64_t>(longest)) {
    fail(" has a header of " + std::to_string(length) + " bytes; expected at most " + std::to_string(longest) +
         (longest < largest_safetensors_header ? ", the rest of the file" : ", the limit of the format"));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  if (!source.read(8, text.data(), static_cast<Index>(length))) fail(" cannot be read; expected its header");
  // A zero byte would end the text for the JSON reader.
  if (text.empty() || text[0] != '{' || text.find('\0') != std::string::npos) {
    fail(" has a header that does not begin with { or holds a zero byte; expected a JSON object");
  }

  SafetensorsHeader header;
  SafetensorsParser parser(source.name, header);
  if (!nlohmann::json::sax_parse(text, &parser)) throw_error<IoError>({"SafetensorsFile: ", parser.message()});
  header.data_begin = 8 + static_cast<Index>(length);
  check_safetensors_spans(source.name, header, source.size - header.data_begin);
  return header;
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
