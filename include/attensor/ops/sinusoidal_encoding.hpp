#pragma once
/// \file
/// Sinusoidal positions:
///
///     PE(pos, 2i) = sin(pos / 10000^(2i / d))            PE(pos, 2i + 1) = cos(pos / 10000^(2i / d))
///
/// An odd d drops the last cosine. Angles are computed in double, so that far positions keep their digits.
/// Source: Vaswani et al., Attention Is All You Need (2017), section 3.5.

#include <cmath>

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Positions [first, first + length) for d features: [length, d].
/// \throws ShapeError for a negative extent
template <Scalar T>
Tensor<T, 2> sinusoidal_encoding(Index length, Index dim, Index first = 0) {
  auto table = empty<T>({length, dim});
  for (Index feature = 0; feature < dim; ++feature) {
    const double pair = static_cast<double>(feature / 2 * 2);
    const double frequency = std::pow(10000.0, -pair / static_cast<double>(dim));
    for (Index position = 0; position < length; ++position) {
      const double angle = static_cast<double>(first + position) * frequency;
      table(position, feature) = static_cast<T>(feature % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace attensor::inline ATTENSOR_ISA
