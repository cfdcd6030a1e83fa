#pragma once
/// \file Attention of one head, step by step, with its weights in full. With S the scores of score_terms.hpp, rows i of
/// queries:
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
/// A row that may attend to nothing has P = 0, O = 0, L = -infinity (the sink, where there is one) and adds zero to
/// everything. Source: Vaswani et al., Attention Is All You Need (2017), equation 1; Dao et al., FlashAttention (2022),
/// appendix B.

#include "attensor/attention/reference_weights.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Writes output [Lq, Dv] and logsumexp [Lq] of one head.
/// \param head_index  number of the head in the whole batch: with the extent Lk, the logical index of dropout
template <Number T>
void reference_forward(const HeadMatrix<const T>& query, const HeadMatrix<const T>& key,
                       const HeadMatrix<const T>& value, const ScoreTerms<T>& all_terms, const DropoutMask& dropout,
                       Index head_index, const HeadMatrix<T>& output, T* logsumexp) {
  const Participants<T> takes_part(all_terms);
  const ScoreTerms<T> terms = takes_part.trimmed();
  const Index queries = terms.queries, keys = terms.keys, stride = weights_stride<T>(keys);
  const SeenRows<T> q = takes_part.query_rows(query), k = takes_part.key_rows(key), v = takes_part.key_rows(value);
  const GuardedRows<T> values(v);

  const Scratch<T> weights(queries * stride);
  reference_weights(q.rows(), k.rows(), terms, weights.data(), stride, logsumexp);
  if (dropout.active()) drop_weights(dropout, head_index, key.rows, terms, weights.data(), stride);

  const MatrixView<T> p{weights.data(), queries, keys, stride, 1};
  gemm_serial(output.data, output.stride, p, values.view());
  values.add_rows_not_finite(output.data, output.stride, p, [&](Index i, Index j) { return terms.allows(i, j); });
  for (Index i = queries; i < query.rows; ++i) {
    std::fill_n(output.row(i), output.columns, T(0));
    logsumexp[i] = terms.sink ? *terms.sink : minus_infinity<T>;
  }
}

/// Where the gradients of one head go. query is overwritten, everything else is added to. `scores` [Lq, Lk] takes dS
/// before softcap and scale, for the bias; table is this head's column.
template <Number T>
struct HeadGrads {
  HeadMatrix<T> query, key, value;
  T* scores = nullptr;
  T* slope = nullptr;
  T* table = nullptr;
  T* sink = nullptr;
};

/// Row i of dS, from P and dP in place, through everything that was added to the scores, and through softcap and scale.
/// \param shift  delta_i - dL_i
template <Number T>
void reference_grad_scores_row(const HeadMatrix<const T>& query, const HeadMatrix<const T>& key,
                               const ScoreTerms<T>& terms, Index i, const T* p, T shift, const HeadGrads<T>& grads,
                               T* ds) {
  using P = Packet<T>;
  const auto [begin, end] = terms.range(i);
  T* row = ds + begin;
  const bool is_plain = !grads.scores && !grads.table && !grads.slope && terms.softcap == 0;
  const P factor(is_plain ? terms.scale : T(1));  // nothing stands between dS and the scale: one pass
  for_row<T>(end - begin, [&](auto at) { at.store(row, at.load(p + begin) * (at.load(row) - P(shift)) * factor); });
  clear_hidden(terms, i, begin, end, ds);  // P = 0 there, but 0 times an infinite shift is not 0
  if (is_plain) return;
  if (grads.scores) std::copy(ds + begin, ds + end, grads.scores + i * key.rows + begin);
  for (Index j = begin; j < end && grads.table; ++j) grads.table[terms.bucket(i, j) * terms.table_stride] += ds[j];
  for (Index j = begin; j < end && grads.slope; ++j) *grads.slope -= ds[j] * terms.distance(i, j);
  for (Index j = begin; j < end && terms.softcap > 0; ++j) {
    if (!terms.shows(i, j)) continue;
    T product = T(0);
    for (Index d = 0; d < query.columns; ++d) product += query.row(i)[d] * key.row(j)[d];
    const T tanh = std::tanh(product * terms.scale / static_cast<T>(terms.softcap));
    ds[j] *= T(1) - tanh * tanh;
  }
  for_row<T>(end - begin, [&](auto at) { at.store(row, at.load(row) * P(terms.scale)); });
}

/// dS [queries, keys] with the scale in it, from P and dP in place; adds the gradients of what was added to the scores.
template <Number T>
void reference_grad_scores(const HeadMatrix<const T>& query, const HeadMatrix<const T>& key, const ScoreTerms<T>& terms,
                           const Participants<T>& takes_part, const T* weights, Index stride, const T* logsumexp,
                           const T* grad_logsumexp, const HeadGrads<T>& grads, T* grad_scores) {
  const Index queries = terms.queries, keys = terms.keys;
  for (Index i = 0; i < queries; ++i) {
    T* ds = grad_scores + i * stride;
    const auto [begin, end] = takes_part.query(i) ? terms.range(i) : std::pair<Index, Index>(0, 0);
    clear_hidden(terms, i, begin, end, ds);
    std::fill(ds, ds + begin, T(0));
    std::fill(ds + end, ds + keys, T(0));
  }
  const Scratch<T> shifts(queries);
  for (Index i = 0; i < queries; ++i) {
    const T* p = weights + i * stride;
    const T* dp = grad_scores + i * stride;
    shifts[i] = sum_row<T>(keys, [&](auto at) { return at.load(p) * at.load(dp); }) -
                (grad_logsumexp ? grad_logsumexp[i] : T(0));
  }
  for (Index i = 0; i < queries; ++i) {
    if (grads.sink && real_part(*terms.sink) != real_part(minus_infinity<T>)) {
      *grads.sink -= std::exp(*terms.sink - logsumexp[i]) * shifts[i];
    }
    if (takes_part.query(i)) {
      reference_grad_scores_row(query, key, terms, i, weights + i * stride, shifts[i], grads, grad_scores + i * stride);
    }
  }
}

/// Adds the gradients of one head.
/// \param grad_logsumexp  [Lq], or null
template <Number T>
void reference_backward(const HeadMatrix<const T>& grad_output, const HeadMatrix<const T>& query,
                        const HeadMatrix<const T>& key, const HeadMatrix<const T>& value, const T* grad_logsumexp,
                        const ScoreTerms<T>& all_terms, const DropoutMask& dropout, Index head_index,
                        const HeadGrads<T>& grads) {
  const Participants<T> takes_part(all_terms);
  const ScoreTerms<T> terms = takes_part.trimmed();
  const Index queries = terms.queries, keys = terms.keys, stride = weights_stride<T>(keys);
  const SeenRows<T> seen_q = takes_part.query_rows(query), seen_grad_out = takes_part.query_rows(grad_output);
  const SeenRows<T> seen_k = takes_part.key_rows(key), seen_v = takes_part.key_rows(value);
  const GuardedRows<T> q(seen_q), grad_out(seen_grad_out), k(seen_k);
  const auto allows = [&](Index i, Index j) { return terms.allows(i, j); };
  const auto allows_transposed = [&](Index j, Index i) { return terms.allows(i, j); };

  const Scratch<T> weights(queries * stride), grad_scores(queries * stride), logsumexp(queries);
  const Scratch<T> dropped(dropout.active() ? queries * stride : 0);
  reference_weights(seen_q.rows(), seen_k.rows(), terms, weights.data(), stride, logsumexp.data());

  // dV += (P * M)^T dO
  if (dropout.active()) {
    std::copy_n(weights.data(), queries * stride, dropped.data());
    drop_weights(dropout, head_index, key.rows, terms, dropped.data(), stride);
  }
  const MatrixView<T> p{dropout.active() ? dropped.data() : weights.data(), queries, keys, stride, 1};
  constexpr GemmStart<T> add{nullptr, true};
  gemm_serial(grads.value.data, grads.value.stride, p.transposed(), grad_out.view(), add);
  grad_out.add_rows_not_finite(grads.value.data, grads.value.stride, p.transposed(), allows_transposed);

  // dP = (dO V^T) * M; what is hidden is cleared, so a NaN in V needs no guard here
  gemm_serial(grad_scores.data(), stride, MatrixView<T>(seen_grad_out.rows()),
              MatrixView<T>(seen_v.rows()).transposed());
  if (dropout.active()) drop_weights(dropout, head_index, key.rows, terms, grad_scores.data(), stride);
  reference_grad_scores(query, key, terms, takes_part, weights.data(), stride, logsumexp.data(), grad_logsumexp, grads,
                        grad_scores.data());

  // dQ = dS K, dK += dS^T Q, with the scale already in dS
  const MatrixView<T> ds{grad_scores.data(), queries, keys, stride, 1};
  gemm_serial(grads.query.data, grads.query.stride, ds, k.view());
  k.add_rows_not_finite(grads.query.data, grads.query.stride, ds, allows);
  gemm_serial(grads.key.data, grads.key.stride, ds.transposed(), q.view(), add);
  q.add_rows_not_finite(grads.key.data, grads.key.stride, ds.transposed(), allows_transposed);
  for (Index i = queries; i < query.rows; ++i) {
    std::fill_n(grads.query.row(i), grads.query.columns, T(0));
    if (grads.sink && grad_logsumexp) *grads.sink += grad_logsumexp[i];
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
