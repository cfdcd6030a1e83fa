#pragma once
/// \file
/// How the score of one head's query i and key j comes about, and whether there is one:
///
///     s = scale * q_i . k_j          s = softcap * tanh(s / softcap)
///     s = s + bias(i, j) + table(bucket(p)) - slope * |p|          p = j - i - diagonal, the position of j seen from i
///
/// where i and j are real (lengths), p is allowed (causal, window) and the boolean mask says true.

#include <cmath>

#include "attensor/attention/options.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Elements (i, j) of a tensor that may be broadcast along either.
template <class T>
struct Broadcast {
  T* data = nullptr;
  Index row_stride = 0, column_stride = 0;

  T& operator()(Index i, Index j) const { return data[i * row_stride + j * column_stride]; }
};

/// The matrix of one batch entry and head.
template <class T>
Broadcast<T> broadcast_head(T* data, const Shape<4>& shape, Index batch, Index head) {
  const auto strides = row_major_strides(shape);
  const auto step = [&](std::size_t d) { return shape[d] == 1 ? 0 : strides[d]; };
  return {data + batch * step(0) + head * step(1), step(2), step(3)};
}

/// T5's bucket of a position p = key - query: exact while near, then by the logarithm of the distance.
inline Index relative_bucket(Index p, Index buckets, bool bidirectional, Index max_distance) {
  Index first = 0;
  if (bidirectional) {
    buckets /= 2;
    if (p > 0) first = buckets;
  }
  const Index distance = bidirectional ? std::abs(p) : std::max<Index>(-p, 0);
  const Index exact = buckets / 2;
  if (distance < exact) return first + distance;
  // In float, as the models were trained: the bucket of a distance next to a boundary depends on it.
  const float ratio =
      std::log(static_cast<float>(distance) / static_cast<float>(std::max<Index>(exact, 1))) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(std::max<Index>(exact, 1))));
  const Index far = exact + static_cast<Index>(ratio * static_cast<float>(buckets - exact));
  return first + std::min(far, buckets - 1);
}

/// All of it for one head. Plain pointers into what the options share.
template <Number T>
struct ScoreTerms {
  Index queries = 0, keys = 0;    ///< real ones: the valid prefix
  Index diagonal = 0;             ///< position 0 of query i is key i + diagonal
  Index lowest = 0, highest = 0;  ///< positions allowed by causal and window, inclusive
  Broadcast<const bool> mask;
  Broadcast<const T> bias;
  T scale = T(1);
  double softcap = 0;
  T slope = T(0);
  bool has_slope = false;
  const T* table = nullptr;  ///< this head's column of the relative bias
  Index table_stride = 0, buckets = 0, max_distance = 0;
  bool bidirectional = true;
  const T* sink = nullptr;

  Index position(Index i, Index j) const { return j - i - diagonal; }
  T distance(Index i, Index j) const { return static_cast<T>(static_cast<double>(std::abs(position(i, j)))); }
  Index bucket(Index i, Index j) const { return relative_bucket(position(i, j), buckets, bidirectional, max_distance); }

  /// Keys [begin, end) that query i may attend to by length, causal and window.
  std::pair<Index, Index> range(Index i) const {
    if (i >= queries) return {0, 0};
    const Index begin = std::clamp<Index>(i + diagonal + lowest, 0, keys);
    const Index end = std::clamp<Index>(i + diagonal + highest + 1, begin, keys);
    return {begin, end};
  }
  /// Whether single pairs may be hidden, by the mask or by a bias of -infinity.
  bool hides_pairs() const { return mask.data || bias.data; }
  bool shows(Index i, Index j) const {
    return (!mask.data || mask(i, j)) &&
           (!bias.data || std::real(bias(i, j)) != -std::numeric_limits<double>::infinity());
  }
  bool allows(Index i, Index j) const {
    const auto [begin, end] = range(i);
    return j >= begin && j < end && shows(i, j);
  }
};

/// The terms of one query head of a batch entry.
template <Number T>
ScoreTerms<T> score_terms(const AttentionOptions<T>& options, Index batch, Index head, Index queries, Index keys,
                          Index head_dim) {
  constexpr Index unlimited = Index{1} << 60;
  ScoreTerms<T> terms;
  terms.queries = options.query_lengths ? (*options.query_lengths)(batch) : queries;
  terms.keys = options.key_lengths ? (*options.key_lengths)(batch) : keys;
  terms.diagonal = options.causal == Causal::bottom_right ? terms.keys - terms.queries : 0;
  terms.lowest = options.window_left >= 0 ? -std::min(options.window_left, unlimited) : -unlimited;
  terms.highest = options.window_right >= 0 ? std::min(options.window_right, unlimited) : unlimited;
  if (options.causal != Causal::none) terms.highest = std::min<Index>(terms.highest, 0);
  if (options.mask) terms.mask = broadcast_head(options.mask->data(), options.mask->shape(), batch, head);
  if (options.bias) terms.bias = broadcast_head(options.bias->data(), options.bias->shape(), batch, head);
  terms.scale =
      static_cast<T>(options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(head_dim, 1)))));
  terms.softcap = options.softcap;
  if (options.alibi_slopes) {
    terms.slope = (*options.alibi_slopes)(head);
    terms.has_slope = true;
  }
  if (const auto& relative = options.relative_bias) {
    terms.table = relative.table->data() + head;
    terms.table_stride = relative.table->extent(1);
    terms.buckets = relative.table->extent(0);
    terms.max_distance = relative.max_distance;
    terms.bidirectional = relative.bidirectional;
  }
  if (options.sinks) terms.sink = options.sinks->data() + head;
  return terms;
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
