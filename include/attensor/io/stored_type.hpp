#pragma once
/// \file
/// Types of elements that files hold, and how they are read into the scalar type of a tensor.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// How elements are stored, little-endian. Half precision is read and not written.
enum class StoredType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

namespace detail {

struct StoredTypeInfo {
  StoredType type;
  std::string_view name;  ///< as safetensors has it
  Index bytes;
  bool is_float;
};
inline constexpr std::array<StoredTypeInfo, 10> stored_types = {{{StoredType::f64, "F64", 8, true},
                                                                 {StoredType::f32, "F32", 4, true},
                                                                 {StoredType::f16, "F16", 2, true},
                                                                 {StoredType::bf16, "BF16", 2, true},
                                                                 {StoredType::i64, "I64", 8, false},
                                                                 {StoredType::i32, "I32", 4, false},
                                                                 {StoredType::i16, "I16", 2, false},
                                                                 {StoredType::i8, "I8", 1, false},
                                                                 {StoredType::u8, "U8", 1, false},
                                                                 {StoredType::boolean, "BOOL", 1, false}}};

inline const StoredTypeInfo& info(StoredType type) { return stored_types[static_cast<std::size_t>(type)]; }

/// The type that holds a T as it is.
template <class T>
inline constexpr std::optional<StoredType> stored_type_of = std::nullopt;
template <>
inline constexpr std::optional<StoredType> stored_type_of<double> = StoredType::f64;
template <>
inline constexpr std::optional<StoredType> stored_type_of<float> = StoredType::f32;
template <>
inline constexpr std::optional<StoredType> stored_type_of<std::int64_t> = StoredType::i64;
template <>
inline constexpr std::optional<StoredType> stored_type_of<std::int32_t> = StoredType::i32;
template <>
inline constexpr std::optional<StoredType> stored_type_of<std::int16_t> = StoredType::i16;
template <>
inline constexpr std::optional<StoredType> stored_type_of<std::int8_t> = StoredType::i8;
template <>
inline constexpr std::optional<StoredType> stored_type_of<std::uint8_t> = StoredType::u8;
template <>
inline constexpr std::optional<StoredType> stored_type_of<bool> = StoredType::boolean;

template <class T>
concept Storable = stored_type_of<T>.has_value();

/// IEEE half precision; every half is a float.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t mantissa = half & 1023u;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
  }
  const std::uint32_t rebased = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | rebased << 23 | mantissa << 13);
}

/// A bfloat16 is the upper half of a float.
inline float bfloat_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// A little-endian value at any address.
template <class Raw>
Raw load_little_endian(const char* bytes) {
  std::array<char, sizeof(Raw)> ordered;
  std::memcpy(ordered.data(), bytes, sizeof(Raw));
  if constexpr (std::endian::native == std::endian::big) std::reverse(ordered.begin(), ordered.end());
  return std::bit_cast<Raw>(ordered);
}
template <class Raw>
void store_little_endian(char* bytes, Raw value) {
  auto ordered = std::bit_cast<std::array<char, sizeof(Raw)>>(value);
  if constexpr (std::endian::native == std::endian::big) std::reverse(ordered.begin(), ordered.end());
  std::memcpy(bytes, ordered.data(), sizeof(Raw));
}

/// Whether elements of `type` may be read as T: floating point as floating point (rounded where T is narrower),
/// integers as integers (each has to fit), bool as bool.
template <Storable T>
constexpr bool can_read_as(StoredType type) {
  if constexpr (std::is_same_v<T, bool>) return type == StoredType::boolean;
  return type != StoredType::boolean && stored_types[static_cast<std::size_t>(type)].is_float == Scalar<T>;
}

/// Converts stored elements; the index of the first that T cannot hold, or -1. A bool is a byte of 0 or 1.
template <Storable T, class Raw, class Convert>
Index convert_elements(const char* bytes, Index count, T* to, Convert&& convert) {
  for (Index i = 0; i < count; ++i) {
    const Raw raw = load_little_endian<Raw>(bytes + i * static_cast<Index>(sizeof(Raw)));
    if constexpr (std::is_same_v<T, bool>) {
      if (raw > 1) return i;
    } else if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<T>(raw)) return i;
    }
    to[i] = static_cast<T>(convert(raw));
  }
  return -1;
}

template <Storable T>
Index convert_elements(StoredType type, const char* bytes, Index count, T* to) {
  const auto as_is = [](auto raw) { return raw; };
  if constexpr (std::is_same_v<T, bool>) {
    return convert_elements<T, std::uint8_t>(bytes, count, to, as_is);
  } else if constexpr (Scalar<T>) {
    switch (type) {
      case StoredType::f64:
        return convert_elements<T, double>(bytes, count, to, as_is);
      case StoredType::f16:
        return convert_elements<T, std::uint16_t>(bytes, count, to, half_to_float);
      case StoredType::bf16:
        return convert_elements<T, std::uint16_t>(bytes, count, to, bfloat_to_float);
      default:
        return convert_elements<T, float>(bytes, count, to, as_is);
    }
  } else {
    switch (type) {
      case StoredType::i64:
        return convert_elements<T, std::int64_t>(bytes, count, to, as_is);
      case StoredType::i32:
        return convert_elements<T, std::int32_t>(bytes, count, to, as_is);
      case StoredType::i16:
        return convert_elements<T, std::int16_t>(bytes, count, to, as_is);
      case StoredType::i8:
        return convert_elements<T, std::int8_t>(bytes, count, to, as_is);
      default:
        return convert_elements<T, std::uint8_t>(bytes, count, to, as_is);
    }
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
