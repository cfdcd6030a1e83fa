#pragma once
/// \file
/// Examples in a new random order for each epoch, cut into batches.

#include <algorithm>
#include <numeric>

#include "attensor/core/creation.hpp"
#include "attensor/core/random.hpp"

namespace example {

/// 0 .. count - 1 in random order, each order as likely as the next (Fisher and Yates).
inline attensor::Tensor<std::int64_t, 1> shuffled(attensor::Index count, attensor::Rng& rng) {
  auto order = attensor::empty<std::int64_t>({count});
  std::iota(order.data(), order.data() + count, std::int64_t{0});
  for (attensor::Index left = count; left > 1; --left) std::swap(order(left - 1), order(rng.below(left)));
  return order;
}

/// The entries x[order[begin]], x[order[begin + 1]], ... up to `end`.
template <attensor::Element T, std::size_t Rank>
attensor::Tensor<T, Rank> pick(const attensor::Tensor<T, Rank>& x, const attensor::Tensor<std::int64_t, 1>& order,
                               attensor::Index begin, attensor::Index end) {
  auto shape = x.shape();
  shape[0] = end - begin;
  const attensor::Index length = x.extent(0) > 0 ? x.size() / x.extent(0) : 0;
  auto picked = attensor::empty<T>(shape);
  for (attensor::Index i = begin; i < end; ++i) {
    std::copy_n(x.data() + order(i) * length, length, picked.data() + (i - begin) * length);
  }
  return picked;
}

/// body(indices_begin, indices_end) for consecutive batches of `size`, the last one shorter.
template <class Body>
void for_batches(attensor::Index count, attensor::Index size, Body&& body) {
  for (attensor::Index begin = 0; begin < count; begin += size) body(begin, std::min(begin + size, count));
}

/// How many rows of the logits have their largest number at the label.
template <attensor::Scalar T>
double accuracy(const attensor::Tensor<T, 2>& logits, const attensor::Tensor<std::int64_t, 1>& labels) {
  attensor::Index right = 0;
  for (attensor::Index i = 0; i < logits.extent(0); ++i) {
    const auto row = logits[i];
    right += std::max_element(row.data(), row.data() + row.size()) - row.data() == labels(i);
  }
  return static_cast<double>(right) / static_cast<double>(std::max<attensor::Index>(1, logits.extent(0)));
}

}  // namespace example
