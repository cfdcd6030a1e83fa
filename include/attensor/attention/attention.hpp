#pragma once
/// \file
/// Scaled dot-product attention: the public functions, what they check, and how work is cut into heads.
///
///     query [B, Hq, Lq, D], key [B, Hkv, Lk, D], value [B, Hkv, Lk, Dv]
///         ->  output [B, Hq, Lq, Dv], logsumexp [B, Hq, Lq]
///
/// Query head h attends to key head h / (Hq / Hkv). The order is: scale, softcap, bias, relative bias, ALiBi, then
/// masks, sink, softmax, dropout; all masks must allow a pair. Formulas and derivatives stand in reference.hpp. Source:
/// Vaswani et al., Attention Is All You Need (2017), section 3.2.1.

#include "attensor/attention/reference.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Views of what goes in, after the public function has seen that scalars agree.
template <Number T>
struct AttentionInputs {
  View<const T, 4> query, key, value;

  Index batch() const { return query.extent(0); }
  Index heads() const { return query.extent(1); }
  Index key_heads() const { return key.extent(1); }
  Index queries() const { return query.extent(2); }
  Index keys() const { return key.extent(2); }
  Shape<4> score_shape() const { return {batch(), heads(), queries(), keys()}; }
  Shape<4> output_shape() const { return {batch(), heads(), queries(), value.extent(3)}; }
};

template <std::size_t Rank>
void check_broadcast(const char* function, const char* argument, const Shape<Rank>& shape, const Shape<Rank>& scores) {
  for (std::size_t d = 0; d < Rank; ++d) {
    if (shape[d] != 1 && shape[d] != scores[d]) [[unlikely]] {
      throw_extent(function, argument, shape, d, scores[d],
                   "or 1, to broadcast to the scores [B,Hq,Lq,Lk] " + shape_text(scores));
    }
  }
}

inline void check_lengths(const char* function, const char* argument, const Lengths& lengths, Index batch,
                          Index longest) {
  if (!lengths) return;
  check_extent(function, argument, *lengths, 0, batch, "the batch of query");
  for (Index b = 0; b < batch; ++b) {
    check_value((*lengths)(b) >= 0 && (*lengths)(b) <= longest, function, argument, (*lengths)(b), [&] {
      return "lengths in [0, " + std::to_string(longest) + "], the extent of the sequences, at [" + std::to_string(b) +
             "]";
    });
  }
}

template <Number T>
void check_attention(const char* function, const AttentionInputs<T>& in, const AttentionOptions<T>& options) {
  check_extent(function, "key", in.key, 0, in.batch(), "the batch of query", in.query);
  check_extent(function, "value", in.value, 0, in.batch(), "the batch of query", in.query);
  check_extent(function, "key", in.key, 3, in.query.extent(3), "the head dimension of query", in.query);
  check_extent(function, "value", in.value, 1, in.key_heads(), "the heads of key", in.key);
  check_extent(function, "value", in.value, 2, in.keys(), "the length of key", in.key);
  if (in.key_heads() == 0 ? in.heads() != 0 : in.heads() % in.key_heads() != 0) [[unlikely]] {
    throw_error<ShapeError>({function, ": query ", shape_text(in.query.shape()), " has ", std::to_string(in.heads()),
                             " in dim 1; expected a multiple of ", std::to_string(in.key_heads()),
                             ", the heads of key ", shape_text(in.key.shape())});
  }
  if (options.mask) check_broadcast(function, "mask", options.mask->shape(), in.score_shape());
  if (options.bias) check_broadcast(function, "bias", options.bias->shape(), in.score_shape());
  check_lengths(function, "key_lengths", options.key_lengths, in.batch(), in.keys());
  check_lengths(function, "query_lengths", options.query_lengths, in.batch(), in.queries());
  check_value(options.window_left >= -1, function, "window_left", options.window_left, "0 or more, or -1 for no limit");
  check_value(options.window_right >= -1, function, "window_right", options.window_right,
              "0 or more, or -1 for no limit");
  check_value(options.softcap >= 0 && std::isfinite(options.softcap), function, "softcap", options.softcap,
              "a positive number, or 0 for none");
  const double scale = options.scale.value_or(1);
  check_value(std::abs(scale) <= static_cast<double>(std::numeric_limits<decltype(std::abs(T()))>::max()), function,
              "scale", scale, "a number that is finite in the scalar type");
  check_value(options.dropout >= 0 && options.dropout <= 1, function, "dropout", options.dropout,
              "a probability in [0, 1]");
  if (options.alibi_slopes)
    check_extent(function, "alibi_slopes", *options.alibi_slopes, 0, in.heads(), "the heads of query", in.query);
  if (options.sinks) check_extent(function, "sinks", *options.sinks, 0, in.heads(), "the heads of query", in.query);
  if (options.relative_bias) {
    const auto& table = *options.relative_bias.table;
    check_extent(function, "relative_bias.table", table, 1, in.heads(), "the heads of query", in.query);
    const Index sides = options.relative_bias.bidirectional ? 2 : 1;
    check_value(table.extent(0) >= 2 * sides, function, "relative_bias.table's number of buckets", table.extent(0),
                [&] { return std::to_string(2 * sides) + " or more"; });
    check_value(options.relative_bias.max_distance > table.extent(0) / sides / 2, function,
                "relative_bias.max_distance", options.relative_bias.max_distance, [&] {
                  return "more than the buckets of exact distances, " + std::to_string(table.extent(0) / sides / 2);
                });
  }
}

/// Elementary steps of one head, for the choice of what is worth a thread.
template <Number T>
Index head_cost(const AttentionInputs<T>& in) {
  return in.queries() * (in.keys() * (in.query.extent(3) + in.value.extent(3)) / 8 + 64) + 1024;
}

/// The forward pass into views of the caller's, which may be heads of a merged tensor. The inputs are checked.
template <Number T>
void attention_forward(const AttentionInputs<T>& in, const AttentionOptions<T>& options, const DropoutMask& dropout,
                       const View<T, 4>& output, const View<T, 3>& logsumexp) {
  const Index group = in.heads() / std::max<Index>(1, in.key_heads());
  parallel_for(in.batch() * in.heads(), grain_for(head_cost(in)), [&](Index task) {
    const Index b = task / in.heads(), h = task % in.heads();
    reference_forward(head_matrix(in.query, b, h), head_matrix(in.key, b, h / group),
                      head_matrix(in.value, b, h / group),
                      score_terms(options, b, h, in.queries(), in.keys(), in.query.extent(3)), dropout, task,
                      head_matrix(output, b, h), logsumexp[b][h].data());
  });
}

/// Sums dS [B, Hq, Lq, Lk] over the dimensions along which the bias was broadcast, in a fixed order.
template <Number T>
Tensor<T, 4> reduce_to_bias(const Tensor<T, 4>& scores, const Shape<4>& shape) {
  auto bias = zeros<T>(shape);
  auto step = row_major_strides(shape);
  for (std::size_t d = 0; d < 4; ++d) step[d] = shape[d] == 1 ? 0 : step[d];
  const auto& s = scores.shape();
  for (Index b = 0; b < s[0]; ++b) {
    for (Index h = 0; h < s[1]; ++h) {
      for (Index i = 0; i < s[2]; ++i) {
        for (Index j = 0; j < s[3]; ++j) bias.data()[offset_of(step, {b, h, i, j})] += scores(b, h, i, j);
      }
    }
  }
  return bias;
}

/// The backward pass. grad_query is overwritten, grad_key and grad_value are overwritten as well; all three may be
/// heads of a merged tensor. Gradients of options are returned in `grads`, whose query, key and value stay empty.
template <Number T>
void attention_backward(const View<const T, 4>& grad_output, const AttentionInputs<T>& in, const DropoutMask& dropout,
                        const AttentionOptions<T>& options,
                        const std::type_identity_t<View<const T, 3>>* grad_logsumexp, const View<T, 4>& grad_query,
                        const View<T, 4>& grad_key, const View<T, 4>& grad_value, AttentionGrads<T>& grads) {
  const Index heads = in.heads(), group = heads / std::max<Index>(1, in.key_heads());
  // Gradients that several heads or sequences share are kept apart by (batch, head) and then added up in order.
  Tensor<T, 4> scores;
  if (options.bias) scores = zeros<T>(in.score_shape());
  Tensor<T, 2> slopes, sinks;
  Tensor<T, 3> tables;
  if (options.alibi_slopes) slopes = zeros<T>({in.batch(), heads});
  if (options.sinks) sinks = zeros<T>({in.batch(), heads});
  if (options.relative_bias) tables = zeros<T>({in.batch(), options.relative_bias.table->extent(0), heads});

  parallel_for(in.batch() * in.key_heads(), grain_for(3 * group * head_cost(in)), [&](Index task) {
    const Index b = task / in.key_heads(), key_head = task % in.key_heads();
    const auto dk = head_matrix(grad_key, b, key_head), dv = head_matrix(grad_value, b, key_head);
    for (Index j = 0; j < dk.rows; ++j) std::fill_n(dk.row(j), dk.columns, T(0));
    for (Index j = 0; j < dv.rows; ++j) std::fill_n(dv.row(j), dv.columns, T(0));
    for (Index h = key_head * group; h < (key_head + 1) * group; ++h) {
      const Index index = b * heads + h;
      const HeadGrads<T> to{head_matrix(grad_query, b, h),
                            dk,
                            dv,
                            options.bias ? scores.data() + index * in.queries() * in.keys() : nullptr,
                            options.alibi_slopes ? &slopes(b, h) : nullptr,
                            options.relative_bias ? &tables(b, 0, h) : nullptr,
                            options.sinks ? &sinks(b, h) : nullptr};
      reference_backward(head_matrix(grad_output, b, h), head_matrix(in.query, b, h), head_matrix(in.key, b, key_head),
                         head_matrix(in.value, b, key_head), grad_logsumexp ? (*grad_logsumexp)[b][h].data() : nullptr,
                         score_terms(options, b, h, in.queries(), in.keys(), in.query.extent(3)), dropout, index, to);
    }
  });

  if (options.bias) grads.bias = reduce_to_bias(scores, options.bias->shape());
  const auto sum_over_batch = [&](const T* parts, Index width, T* total) {
    for (Index b = 0; b < in.batch(); ++b) {
      for (Index i = 0; i < width; ++i) total[i] += parts[b * width + i];
    }
  };
  if (options.alibi_slopes) {
    grads.alibi_slopes = zeros_like(*options.alibi_slopes);
    sum_over_batch(slopes.data(), heads, grads.alibi_slopes.data());
  }
  if (options.sinks) {
    grads.sinks = zeros_like(*options.sinks);
    sum_over_batch(sinks.data(), heads, grads.sinks.data());
  }
  if (options.relative_bias) {
    grads.relative_bias = zeros_like(*options.relative_bias.table);
    sum_over_batch(tables.data(), grads.relative_bias.size(), grads.relative_bias.data());
  }
}

template <TensorLike Q, TensorLike K, TensorLike V>
AttentionInputs<scalar_t<Q>> attention_inputs(const Q& query, const K& key, const V& value) {
  require_same_scalar<Q, K>();
  require_same_scalar<Q, V>();
  return {read(query), read(key), read(value)};
}

}  // namespace detail

/// Attention of each query to the keys it may see. See the head of this file for shapes and order, options.hpp for
/// options.
///
/// \throws ShapeError if batches, heads, lengths or head dimensions do not fit together, or a mask or bias does not
/// broadcast;
///         ValueError for an option outside of what it takes
/// 2 Lq Lk (D + Dv) multiply-adds a head. Extents of 0 give empty or zero results.
template <TensorLike<4> Q, TensorLike<4> K, TensorLike<4> V>
  requires Number<scalar_t<Q>>
AttentionResult<scalar_t<Q>> scaled_dot_product_attention(const Q& query, const K& key, const V& value,
                                                          const AttentionOptions<scalar_t<Q>>& options = {}) {
  using T = scalar_t<Q>;
  const auto in = detail::attention_inputs(query, key, value);
  detail::check_attention("scaled_dot_product_attention", in, options);
  AttentionResult<T> result{empty<T>(in.output_shape()), empty<T>({in.batch(), in.heads(), in.queries()}),
                            DropoutMask(options.dropout, options.rng)};
  detail::attention_forward(in, options, result.dropout, result.output.view(), result.logsumexp.view());
  return result;
}

/// The derivative of sum(output * grad_output) + sum(logsumexp * grad_logsumexp) with respect to query, key, value and
/// all options that may be learned. Fresh tensors, sums in a fixed order.
///
/// \param grad_output     [B, Hq, Lq, Dv]
/// \param result          what the forward pass on the same inputs and options gave
/// \param grad_logsumexp  [B, Hq, Lq], or null: results that are merged by their log-sum-exp train through it
/// \throws as the forward pass, and ShapeError if a gradient has another shape than its result
template <TensorLike<4> G, TensorLike<4> Q, TensorLike<4> K, TensorLike<4> V>
  requires Number<scalar_t<Q>>
AttentionGrads<scalar_t<Q>> scaled_dot_product_attention_backward(
    const G& grad_output, const Q& query, const K& key, const V& value, const AttentionResult<scalar_t<Q>>& result,
    const AttentionOptions<scalar_t<Q>>& options = {}, const Tensor<scalar_t<Q>, 3>* grad_logsumexp = nullptr) {
  using T = scalar_t<Q>;
  constexpr const char* function = "scaled_dot_product_attention_backward";
  require_same_scalar<Q, G>();
  const auto in = detail::attention_inputs(query, key, value);
  detail::check_attention(function, in, options);
  detail::check_same_shape(function, "result.output", result.output, "what the inputs give,",
                           View<const T, 4>(nullptr, in.output_shape()));
  detail::check_same_shape(function, "grad_output", grad_output, "result.output", result.output);
  const View<const T, 3> logsumexp_shape(nullptr, Shape<3>{in.batch(), in.heads(), in.queries()});
  if (grad_logsumexp)
    detail::check_same_shape(function, "grad_logsumexp", *grad_logsumexp, "the log-sum-exp of the inputs,",
                             logsumexp_shape);
  AttentionGrads<T> grads{empty_like(query), empty_like(key), empty_like(value), {}, {}, {}, {}};
  const View<const T, 3> lse = grad_logsumexp ? grad_logsumexp->view() : View<const T, 3>();
  detail::attention_backward(read(grad_output), in, result.dropout, options, grad_logsumexp ? &lse : nullptr,
                             grads.query.view(), grads.key.view(), grads.value.view(), grads);
  return grads;
}

/// The weights of every query and key, before dropout: [B, Hq, Lq, Lk], 0 where a pair is masked. For looking at: the
/// whole matrix is made.
/// \throws as scaled_dot_product_attention
template <TensorLike<4> Q, TensorLike<4> K>
  requires Number<scalar_t<Q>>
Tensor<scalar_t<Q>, 4> attention_weights(const Q& query, const K& key,
                                         const AttentionOptions<scalar_t<Q>>& options = {}) {
  using T = scalar_t<Q>;
  const auto in = detail::attention_inputs(query, key, key);
  detail::check_attention("attention_weights", in, options);
  auto weights = zeros<T>(in.score_shape());
  const Index group = in.heads() / std::max<Index>(1, in.key_heads());
  parallel_for(in.batch() * in.heads(), detail::grain_for(detail::head_cost(in)), [&](Index task) {
    const Index b = task / in.heads(), h = task % in.heads();
    const auto terms = detail::score_terms(options, b, h, in.queries(), in.keys(), in.query.extent(3));
    const detail::Participants<T> takes_part(terms);
    const auto seen_query = takes_part.query_rows(detail::head_matrix(in.query, b, h));
    const auto seen_key = takes_part.key_rows(detail::head_matrix(in.key, b, h / group));
    detail::reference_weights<T>(seen_query.rows(), seen_key.rows(), takes_part.trimmed(), weights[b][h].data(),
                                 in.keys(), nullptr);
  });
  return weights;
}

}  // namespace attensor::inline ATTENSOR_ISA
