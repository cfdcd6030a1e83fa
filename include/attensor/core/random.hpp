#pragma once
/// \file
/// Random numbers from a counter: Philox 4x32-10.
///
/// Source: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
/// The n-th number of a seed is a function of (seed, n), so a mask can be made again instead of being stored.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {

namespace detail {

/// One Philox block: four words that depend on every bit of the counter and of the key.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// log(x) for x in (0, 1], by explicit fma: the same bits under any flags. x = m 2^e with m in [sqrt(1/2), sqrt(2)),
/// and log(m) = 2 atanh((m - 1) / (m + 1)) as its series.
inline double portable_log(double x) {
  constexpr std::uint64_t exponent_of_half = std::uint64_t{1022} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double m = std::bit_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | exponent_of_half);  // [1/2, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = std::fma(series, z2, 1.0 / k);
  return std::fma(static_cast<double>(exponent), 0.69314718055994531, 2 * z * series);
}

/// (cos, sin) of 2 pi t for t in [0, 1), by explicit fma: reduced to an eighth of a turn, then Taylor.
inline std::array<double, 2> portable_cos_sin_turn(double t) {
  const int quarter = static_cast<int>(std::fma(t, 4.0, 0.5)) & 3;
  const double turn = std::fma(static_cast<int>(std::fma(t, 4.0, 0.5)), -0.25, t);  // exact, within +-1/8
  const double a = turn * 6.2831853071795865;
  const double a2 = a * a;
  double sine = 0, cosine = 0;
  for (int k = 17; k >= 1; k -= 2) sine = std::fma(sine * a2, -1.0 / ((k + 1) * (k + 2)), 1.0);
  for (int k = 16; k >= 0; k -= 2) cosine = std::fma(cosine * a2, -1.0 / ((k + 1) * (k + 2)), 1.0);
  sine *= a;
  switch (quarter) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

}  // namespace detail

/// A stream of random numbers. Integers and uniforms are the same on every platform; normals are made from them with
/// explicit fma, so that compiler flags do not change them. A plain value: a copy continues the same stream.
class Rng {
 public:
  /// What a stream is: enough to save it and to go on from there.
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t position = 0;  ///< words drawn from the stream of next()
    std::uint64_t masks = 0;     ///< dropout masks handed out

    bool operator==(const State&) const = default;
  };

  explicit Rng(std::uint64_t seed = 0) : state_{seed, 0, 0} {}
  explicit Rng(const State& state) : state_(state) {}

  const State& state() const { return state_; }

  /// 32 random bits.
  std::uint32_t next() {
    const std::uint64_t block = state_.position / 4;
    if (block != cached_block_) {
      cached_ =
          detail::philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key());
      cached_block_ = block;
    }
    return cached_[state_.position++ % 4];
  }
  std::uint64_t next64() {
    const std::uint64_t low = next();
    return low | (std::uint64_t{next()} << 32);
  }

  /// In [0, 1), all 53 bits random.
  double uniform() { return static_cast<double>(next64() >> 11) * 0x1p-53; }

  /// In [0, bound), each as likely as the next. \throws ValueError for a bound below 1
  Index below(Index bound) {
    if (bound < 1) {
      throw_error<ValueError>({"Rng::below: bound is ", std::to_string(bound), "; expected 1 or more"});
    }
    const auto n = static_cast<std::uint64_t>(bound);
    const std::uint64_t rejected = (0 - n) % n;  // of the 2^64 values, so that the rest is a multiple of n
    std::uint64_t value = next64();
    while (value < rejected) value = next64();
    return static_cast<Index>(value % n);
  }

  /// Mean 0, standard deviation 1 (Box and Muller).
  double normal() {
    const double u = 1 - uniform();  // (0, 1]
    const double radius = std::sqrt(-2 * detail::portable_log(u));
    return radius * detail::portable_cos_sin_turn(uniform())[0];
  }

  /// The number of a new dropout mask, different at each call.
  std::uint64_t next_mask() { return ++state_.masks; }

  std::array<std::uint32_t, 2> key() const {
    return {static_cast<std::uint32_t>(state_.seed), static_cast<std::uint32_t>(state_.seed >> 32)};
  }

 private:
  State state_;
  std::uint64_t cached_block_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> cached_{};
};

}  // namespace attensor::inline ATTENSOR_ISA
