#pragma once
/// \file
/// Attention of one head, step by step, with its weights in full. With S the scores of score_terms.hpp, rows i of queries:
///
///     L_i = log(sum_j exp(S_ij) [+ exp(sink)])        P_ij = exp(S_ij - L_i), 0 where j is masked for i
///     O   = (P * M) V                                 M: the dropout mask, already scaled
///
/// and backward, given dO and possibly dL:
///
///     dV   = (P * M)^T dO             dP = (dO V^T) * M             delta_i = sum_j P_ij dP_ij
///     dS   = P * (dP - delta + dL)    dsink = sum_i exp(sink - L_i) (dL_i - delta_i)
///     dbias, dtable, dslope: dS summed as they were broadcast;  then through softcap: dS (1 - tanh^2)
///     dQ   = scale * dS K             dK = scale * dS^T Q
///
/// A row that may attend to nothing has P = 0, O = 0, L = -infinity (the sink, where there is one) and adds zero to everything.
/// Source: Vaswani et al., Attention Is All You Need (2017), equation 1; Dao et al., FlashAttention (2022), appendix B.

#include "attensor/attention/guarded_rows.hpp"
#include "attensor/ops/softmax.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Turns row i of q k^T into scores, in place; -infinity where the mask says no. Only [begin, end) is touched.
template <Number T>
void score_row(const ScoreTerms<T>& terms, Index i, Index begin, Index end, T* s) {
  using P = Packet<T>;
  T* row = s + begin;
  for_row<T>(end - begin, [&](auto at) { at.store(row, at.load(row) * P(terms.scale)); });
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
    for (Index j = begin; j < end; ++j) s[j] -= terms.slope * static_cast<T>(static_cast<double>(std::abs(terms.position(i, j))));
  }
  if (terms.mask.data) {
    constexpr T masked = T(-std::numeric_limits<double>::infinity());
    for (Index j = begin; j < end; ++j) s[j] = terms.mask(i, j) ? s[j] : masked;
  }
}

/// The step from row to row of a matrix of weights: whole packets, so that a partial packet never reaches into the next row,
/// where its load would have to wait for a store.
template <Number T>
Index weights_stride(Index keys) {
  return (keys + Packet<T>::lanes - 1) / Packet<T>::lanes * Packet<T>::lanes;
}

/// The weights P [queries, keys] of a head from scratch, and their log-sum-exp. Rows past the valid queries are not written.
/// Each step goes over all rows before the next one begins, so that no row waits for its own stores.
template <Number T>
void reference_weights(const HeadMatrix<const T>& query, const HeadMatrix<const T>& key, const ScoreTerms<T>& terms, T* weights,
                       Index stride, T* logsumexp) {
  using P = Packet<T>;
  constexpr T masked = T(-std::numeric_limits<double>::infinity());
  const Index keys = terms.keys;
  const Scratch<T> workspace(gemm_workspace_size<T>(terms.queries, keys, query.columns));
  gemm_serial(weights, stride, MatrixView<T>(query).row_range(0, terms.queries), MatrixView<T>(key).row_range(0, keys).transposed(),
              GemmStart<T>{}, workspace.data());
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
    T own = total == T(0) ? masked : pivot + std::log(total);
    if (terms.sink) {  // the sink joins the sum: everything is scaled by how much of it is left
      const T sink = *terms.sink;
      const bool sink_is_larger = real_part(own) < real_part(sink);
      const T larger = sink_is_larger ? sink : own, smaller = sink_is_larger ? own : sink;
      const T joined = real_part(larger) == -std::numeric_limits<double>::infinity()
                           ? masked
                           : larger + std::log(T(1) + (real_part(smaller) == -std::numeric_limits<double>::infinity() ? T(0) : std::exp(smaller - larger)));
      const P share(real_part(own) == -std::numeric_limits<double>::infinity() ? T(0) : std::exp(own - joined));
      for_row<T>(end - begin, [&](auto at) { at.store(row + begin, at.load(row + begin) * share); });
      own = joined;
    }
    for (Index j = begin; terms.mask.data && j < end; ++j) row[j] = terms.mask(i, j) ? row[j] : T(0);  // also in a row of NaN
    if (logsumexp) logsumexp[i] = own;
  }
}

/// weights *= the mask of this head: element (i, j) is number i * row_length + j of row head_index.
template <Number T>
void drop_weights(const DropoutMask& dropout, Index head_index, Index row_length, const ScoreTerms<T>& terms, T* weights,
                  Index stride) {
  if constexpr (Scalar<T>) {
    const Scratch<T> factors(terms.queries * row_length);
    dropout.factors(head_index, 0, terms.queries * row_length, factors.data());
    for (Index i = 0; i < terms.queries; ++i) {
      T* row = weights + i * stride;
      const T* factor = &factors[i * row_length];
      for_row<T>(terms.keys, [&](auto at) { at.store(row, at.load(row) * at.load(factor)); });
    }
  }
}

/// Writes output [Lq, Dv] and logsumexp [Lq] of one head.
/// \param head_index  number of the head in the whole batch, and row_length the extent Lk: the logical index of dropout
template <Number T>
void reference_forward(const HeadMatrix<const T>& query, const HeadMatrix<const T>& key, const HeadMatrix<const T>& value,
                       const ScoreTerms<T>& all_terms, const DropoutMask& dropout, Index head_index, const HeadMatrix<T>& output,
                       T* logsumexp) {
  const Participants<T> takes_part(all_terms);
  const ScoreTerms<T> terms = takes_part.trimmed();
  const Index queries = terms.queries, keys = terms.keys;
  const SeenRows<T> q = takes_part.query_rows(query), k = takes_part.key_rows(key), v = takes_part.key_rows(value);
  const GuardedRows<T> values(v);
  const Index stride = weights_stride<T>(keys);
  const Scratch<T> weights(queries * stride);
  reference_weights(q.rows(), k.rows(), terms, weights.data(), stride, logsumexp);
  if (dropout.active()) drop_weights(dropout, head_index, key.rows, terms, weights.data(), stride);

  const Scratch<T> workspace(gemm_workspace_size<T>(queries, value.columns, keys));
  gemm_serial(output.data, output.stride, MatrixView<T>{weights.data(), queries, keys, stride, 1}, values.view(), GemmStart<T>{},
              workspace.data());
  values.add_rows_not_finite(
      output.data, output.stride, queries, [&](Index i, Index j) { return weights[i * stride + j]; },
      [&](Index i, Index j) { return terms.allows(i, j); });
  for (Index i = queries; i < query.rows; ++i) {
    std::fill_n(output.row(i), output.columns, T(0));
    logsumexp[i] = terms.sink ? *terms.sink : T(-std::numeric_limits<double>::infinity());
  }
}

/// Where the gradients of one head go. query is overwritten, everything else is added to. `scores` [Lq, Lk] takes dS before
/// softcap and scale, for the bias; table is this head's column.
template <Number T>
struct HeadGrads {
  HeadMatrix<T> query, key, value;
  T* scores = nullptr;
  T* slope = nullptr;
  T* table = nullptr;
  T* sink = nullptr;
};

/// Adds the gradients of one head.
/// \param grad_logsumexp  [Lq], or null
template <Number T>
void reference_backward(const HeadMatrix<const T>& grad_output, const HeadMatrix<const T>& query, const HeadMatrix<const T>& key,
                        const HeadMatrix<const T>& value, const T* grad_logsumexp, const ScoreTerms<T>& all_terms,
                        const DropoutMask& dropout, Index head_index, const HeadGrads<T>& grads) {
  using P = Packet<T>;
  const Participants<T> takes_part(all_terms);
  const ScoreTerms<T> terms = takes_part.trimmed();
  const Index queries = terms.queries, keys = terms.keys;
  const SeenRows<T> seen_q = takes_part.query_rows(query), seen_grad_out = takes_part.query_rows(grad_output);
  const SeenRows<T> seen_k = takes_part.key_rows(key), seen_v = takes_part.key_rows(value);
  const GuardedRows<T> q(seen_q), grad_out(seen_grad_out), k(seen_k);
  const auto allows = [&](Index i, Index j) { return terms.allows(i, j); };
  const auto allows_transposed = [&](Index j, Index i) { return terms.allows(i, j); };

  const Index widest = std::max({keys, query.columns, value.columns});
  const Index most_rows = std::max(queries, keys);
  const Scratch<T> workspace(gemm_workspace_size<T>(most_rows, widest, most_rows) + gemm_workspace_size<T>(most_rows, widest, widest));
  const Index stride = weights_stride<T>(keys);
  const Scratch<T> weights(queries * stride), grad_scores(queries * stride), logsumexp(queries), shifts(queries);
  const Scratch<T> dropped(dropout.active() ? queries * stride : 0);
  reference_weights(seen_q.rows(), seen_k.rows(), terms, weights.data(), stride, logsumexp.data());

  // dV += (P * M)^T dO
  const T* used = weights.data();
  if (dropout.active()) {
    std::copy_n(weights.data(), queries * stride, dropped.data());
    drop_weights(dropout, head_index, key.rows, terms, dropped.data(), stride);
    used = dropped.data();
  }
  gemm_serial(grads.value.data, grads.value.stride, MatrixView<T>{used, queries, keys, stride, 1}.transposed(), grad_out.view(),
              GemmStart<T>{nullptr, true}, workspace.data());
  grad_out.add_rows_not_finite(
      grads.value.data, grads.value.stride, keys, [&](Index j, Index i) { return used[i * stride + j]; }, allows_transposed);

  // dP = (dO V^T) * M; what is masked is replaced below, so a NaN in V needs no guard here
  gemm_serial(grad_scores.data(), stride, MatrixView<T>(seen_grad_out.rows()), MatrixView<T>(seen_v.rows()).transposed(), GemmStart<T>{},
              workspace.data());
  if (dropout.active()) drop_weights(dropout, head_index, key.rows, terms, grad_scores.data(), stride);

  const bool is_plain = !grads.scores && !grads.table && !grads.slope && terms.softcap == 0;  // nothing between dS and scale
  const auto clear_masked = [&](Index i, Index begin, Index end, T* ds) {
    for (Index j = begin; terms.mask.data && j < end; ++j) ds[j] = terms.mask(i, j) ? ds[j] : T(0);
  };
  for (Index i = 0; i < queries; ++i) {
    T* ds = &grad_scores[i * stride];
    const auto [begin, end] = takes_part.query(i) ? terms.range(i) : std::pair<Index, Index>(0, 0);
    clear_masked(i, begin, end, ds);
    std::fill(ds, ds + begin, T(0));
    std::fill(ds + end, ds + keys, T(0));
  }
  for (Index i = 0; i < queries; ++i) {
    const T* p = &weights[i * stride];
    const T* ds = &grad_scores[i * stride];
    shifts[i] = sum_row<T>(keys, [&](auto at) { return at.load(p) * at.load(ds); }) - (grad_logsumexp ? grad_logsumexp[i] : T(0));
  }
  for (Index i = 0; i < queries; ++i) {
    const T* p = &weights[i * stride];
    T* ds = &grad_scores[i * stride];
    if (!takes_part.query(i)) {
      if (grads.sink && grad_logsumexp) *grads.sink += grad_logsumexp[i];
      continue;
    }
    const auto [begin, end] = terms.range(i);
    const T shift = shifts[i];
    const P factor(is_plain ? terms.scale : T(1));
    for_row<T>(end - begin, [&](auto at) { at.store(ds + begin, at.load(p + begin) * (at.load(ds + begin) - P(shift)) * factor); });
    clear_masked(i, begin, end, ds);  // P = 0 there, but 0 times an infinite shift is not 0
    const bool has_sum = real_part(logsumexp[i]) != -std::numeric_limits<double>::infinity();  // not even a sink's
    if (grads.sink && has_sum) *grads.sink -= std::exp(*terms.sink - logsumexp[i]) * shift;
    if (grads.scores) std::copy_n(ds, keys, grads.scores + i * key.rows);
    for (Index j = begin; j < end && grads.table; ++j) grads.table[terms.bucket(i, j) * terms.table_stride] += ds[j];
    for (Index j = begin; j < end && grads.slope; ++j) {
      *grads.slope -= ds[j] * static_cast<T>(static_cast<double>(std::abs(terms.position(i, j))));
    }
    if (terms.softcap > 0) {
      const T cap = static_cast<T>(terms.softcap);
      for (Index j = begin; j < end; ++j) {
        if (!terms.allows(i, j)) continue;
        T score = T(0);
        for (Index d = 0; d < query.columns; ++d) score += query.row(i)[d] * key.row(j)[d];
        const T tanh = std::tanh(score * terms.scale / cap);
        ds[j] *= T(1) - tanh * tanh;
      }
    }
    if (!is_plain) for_row<T>(keys, [&](auto at) { at.store(ds, at.load(ds) * P(terms.scale)); });
  }

  // dQ = dS K, dK += dS^T Q, with the scale already in dS
  const MatrixView<T> ds{grad_scores.data(), queries, keys, stride, 1};
  gemm_serial(grads.query.data, grads.query.stride, ds, k.view(), GemmStart<T>{}, workspace.data());
  k.add_rows_not_finite(
      grads.query.data, grads.query.stride, queries, [&](Index i, Index j) { return ds(i, j); }, allows);
  gemm_serial(grads.key.data, grads.key.stride, ds.transposed(), q.view(), GemmStart<T>{nullptr, true}, workspace.data());
  q.add_rows_not_finite(
      grads.key.data, grads.key.stride, keys, [&](Index j, Index i) { return ds(i, j); }, allows_transposed);
  for (Index i = queries; i < query.rows; ++i) {
    std::fill_n(grads.query.row(i), grads.query.columns, T(0));
    if (grads.sink && grad_logsumexp) *grads.sink += grad_logsumexp[i];
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
