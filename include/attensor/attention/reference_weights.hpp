#pragma once
/// \file The weights of one head in full: scores, softmax, sink, dropout. Each step goes over all rows before the next
/// one begins, so that no row waits for its own stores.

#include "attensor/attention/guarded_rows.hpp"
#include "attensor/ops/softmax.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

template <Number T>
inline constexpr T minus_infinity = T(-std::numeric_limits<double>::infinity());

/// The step from row to row of a matrix of weights: whole packets, so that a partial packet never reaches into the next
/// row, where its load would have to wait for a store.
template <Number T>
Index weights_stride(Index keys) {
  return (keys + Packet<T>::lanes - 1) / Packet<T>::lanes * Packet<T>::lanes;
}

/// Turns row i of q k^T into scores, in place; -infinity where a pair is hidden. Only [begin, end) is touched.
template <Number T>
void score_row(const ScoreTerms<T>& terms, Index i, Index begin, Index end, T* s) {
  T* row = s + begin;
  for_row<T>(end - begin, [&](auto at) { at.store(row, at.load(row) * Packet<T>(terms.scale)); });
  if (terms.softcap > 0) {
    const T cap = static_cast<T>(terms.softcap);
    for (Index j = begin; j < end; ++j) s[j] = cap * std::tanh(s[j] / cap);
  }
  if (terms.bias.data) {
    for (Index j = begin; j < end; ++j) s[j] += terms.bias(i, j);
  }
  if (terms.table) {
    for (Index j = begin; j < end; ++j) s[j] += terms.table[terms.bucket(i, j) * terms.table_stride];
  }
  if (terms.has_slope) {
    for (Index j = begin; j < end; ++j) s[j] -= terms.slope * terms.distance(i, j);
  }
  if (terms.hides_pairs()) {
    for (Index j = begin; j < end; ++j) s[j] = terms.shows(i, j) ? s[j] : minus_infinity<T>;
  }
}

/// Zeros in [begin, end) of a row where a pair is hidden: also where the row is NaN, or meets an infinity.
template <Number T>
void clear_hidden(const ScoreTerms<T>& terms, Index i, Index begin, Index end, T* row) {
  for (Index j = begin; terms.hides_pairs() && j < end; ++j) row[j] = terms.shows(i, j) ? row[j] : T(0);
}

/// log(exp(a) + exp(b))
template <Number T>
T log_sum(T a, T b) {
  if (real_part(a) < real_part(b)) std::swap(a, b);
  if (real_part(b) == real_part(minus_infinity<T>)) return a;
  return a + std::log(T(1) + std::exp(b - a));
}

/// The weights P [queries, keys] of a head, and their log-sum-exp where it is asked for. Rows past the valid queries
/// are not written.
template <Number T>
void reference_weights(const HeadMatrix<const T>& query, const HeadMatrix<const T>& key, const ScoreTerms<T>& terms,
                       T* weights, Index stride, T* logsumexp) {
  const Index keys = terms.keys;
  gemm_serial(weights, stride, MatrixView<T>(query).row_range(0, terms.queries),
              MatrixView<T>(key).row_range(0, keys).transposed());
  for (Index i = 0; i < terms.queries; ++i) {
    const auto [begin, end] = terms.range(i);
    score_row(terms, i, begin, end, weights + i * stride);
  }
  for (Index i = 0; i < terms.queries; ++i) {
    T* row = weights + i * stride;
    const auto [begin, end] = terms.range(i);
    std::fill(row, row + begin, T(0));
    std::fill(row + end, row + keys, T(0));
    const auto [pivot, total] = softmax_row(end - begin, row + begin, row + begin);
    T own = total == T(0) ? minus_infinity<T> : pivot + std::log(total);
    if (terms.sink) {  // it joins the sum, and the keys share what it leaves
      const T joined = log_sum(own, *terms.sink);
      const Packet<T> share(real_part(own) == real_part(minus_infinity<T>) ? T(0) : std::exp(own - joined));
      for_row<T>(end - begin, [&](auto at) { at.store(row + begin, at.load(row + begin) * share); });
      own = joined;
    }
    clear_hidden(terms, i, begin, end, row);
    if (logsumexp) logsumexp[i] = own;
  }
}

/// weights *= the mask of this head: element (i, j) is number i * row_length + j of row head_index.
template <Number T>
void drop_weights(const DropoutMask& dropout, Index head_index, Index row_length, const ScoreTerms<T>& terms,
                  T* weights, Index stride) {
  if constexpr (Scalar<T>) {
    const Scratch<T> factors(terms.queries * row_length);
    dropout.factors(head_index, 0, terms.queries * row_length, factors.data());
    for (Index i = 0; i < terms.queries; ++i) {
      T* row = weights + i * stride;
      const T* factor = factors.data() + i * row_length;
      for_row<T>(terms.keys, [&](auto at) { at.store(row, at.load(row) * at.load(factor)); });
    }
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
