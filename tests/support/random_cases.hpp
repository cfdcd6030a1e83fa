#pragma once
/// \file
/// Random configurations. The seed is drawn anew for each run; a failure prints it, and the environment variable
/// ATTENSOR_TEST_SEED brings it back.

#include <doctest/doctest.h>

#include <array>

#include "attensor/core/random.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// The seed of this run: ATTENSOR_TEST_SEED, or a new one.
std::uint64_t test_seed();

/// Sizes at which vectors, tiles and panels end badly, and a few at which they end well.
inline constexpr std::array<Index, 14> awkward_sizes = {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 40, 65, 97};

inline Index awkward_size(Rng& rng) {
  return awkward_sizes[static_cast<std::size_t>(rng.below(static_cast<Index>(awkward_sizes.size())))];
}

/// In [low, high], both included.
inline Index random_between(Rng& rng, Index low, Index high) { return low + rng.below(high - low + 1); }

struct RandomShapeOptions {
  Index last = 0;     ///< the last extent; 0: random like the others
  Index largest = 5;  ///< of the random extents; the smallest is 1
};

template <std::size_t Rank>
Shape<Rank> random_shape(Rng& rng, const RandomShapeOptions& options = {}) {
  Shape<Rank> shape{};
  for (Index& extent : shape) extent = random_between(rng, 1, options.largest);
  if (options.last > 0) shape[Rank - 1] = options.last;
  return shape;
}

/// true with probability `keep`.
template <std::size_t Rank>
Tensor<bool, Rank> random_mask(const Shape<Rank>& shape, Rng& rng, double keep = 0.5) {
  Tensor<bool, Rank> mask(shape);
  for (Index i = 0; i < mask.size(); ++i) mask.data()[i] = rng.uniform() < keep;
  return mask;
}

/// body(rng) or body(rng, awkward_size), `count` times, each with a stream of its own.
template <class Body>
void for_random_cases(int count, Body&& body) {
  for (int i = 0; i < count; ++i) {
    Rng rng(test_seed() + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15);
    INFO("ATTENSOR_TEST_SEED=", test_seed(), ", case ", i);
    if constexpr (std::is_invocable_v<Body&, Rng&, Index>) {
      const Index size = awkward_size(rng);
      INFO("awkward size ", size);
      body(rng, size);
    } else {
      body(rng);
    }
  }
}

}  // namespace attensor::inline ATTENSOR_ISA
