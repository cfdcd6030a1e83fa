#pragma once
/// \file
/// Single-head self-attention with free widths, as it stands in the textbooks:
///
///     q, k, v = x W_Q^T + b_Q, x W_K^T + b_K, x W_V^T + b_V            d_k columns, d_k columns, d_v columns
///     y       = softmax(q k^T / sqrt(d_k)) v                           [times W_O^T + b_O]
///
/// Source: Vaswani et al., Attention Is All You Need (2017), equation 1.

#include "attensor/attention/attention.hpp"
#include "attensor/attention/heads.hpp"
#include "attensor/layers/linear.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct SelfAttentionOptions {
  Index embed_dim = 0;             ///< d_model, the width of x
  Index key_dim = 0;               ///< d_k, the width of queries and keys; 0: embed_dim
  Index value_dim = 0;             ///< d_v, the width of values; 0: embed_dim
  bool output_projection = false;  ///< W_O [embed_dim, value_dim]
  bool bias = true;
  double dropout = 0;  ///< of the weights; active only where the attention options carry an Rng
};

/// Parameters: W_Q, W_K, W_V and, where asked for, W_O, each as nn.Linear.
template <Scalar T>
struct SelfAttention {
  Linear<T> W_Q, W_K, W_V, W_O;  // the names of the formula
  bool has_output_projection = false;
  double dropout = 0;

  struct Saved {
    typename Linear<T>::Saved input, output;
    Tensor<T, 3> query, key, value;
    AttentionResult<T> result;
    AttentionOptions<T> options;
  };

  SelfAttention() = default;
  /// \throws ValueError for a width below 1, or a dropout that is no probability
  SelfAttention(const SelfAttentionOptions& options, Rng& rng)
      : has_output_projection(options.output_projection), dropout(options.dropout) {
    constexpr const char* function = "SelfAttention";
    detail::check_value(options.embed_dim >= 1, function, "embed_dim", options.embed_dim, "1 or more");
    detail::check_value(options.key_dim >= 0, function, "key_dim", options.key_dim, "a width, or 0 for embed_dim");
    detail::check_value(options.value_dim >= 0, function, "value_dim", options.value_dim,
                        "a width, or 0 for embed_dim");
    detail::check_value(dropout >= 0 && dropout <= 1, function, "dropout", dropout, "a probability in [0, 1]");
    const Index embed = options.embed_dim;
    const Index key_dim = options.key_dim == 0 ? embed : options.key_dim;
    const Index value_dim = options.value_dim == 0 ? embed : options.value_dim;
    W_Q = Linear<T>({.in_dim = embed, .out_dim = key_dim, .bias = options.bias}, rng);
    W_K = Linear<T>({.in_dim = embed, .out_dim = key_dim, .bias = options.bias}, rng);
    W_V = Linear<T>({.in_dim = embed, .out_dim = value_dim, .bias = options.bias}, rng);
    if (has_output_projection) W_O = Linear<T>({.in_dim = value_dim, .out_dim = embed, .bias = options.bias}, rng);
  }

  /// As Linear::pack and unpack.
  void pack() { W_Q.pack(), W_K.pack(), W_V.pack(), has_output_projection ? W_O.pack() : void(); }
  void unpack() { W_Q.unpack(), W_K.unpack(), W_V.unpack(), W_O.unpack(); }

  /// x [B, S, embed_dim] -> [B, S, d_v], or [B, S, embed_dim] with an output projection.
  /// \throws ShapeError if the width of x is not embed_dim or a mask does not broadcast
  template <TensorLike<3> X>
  Tensor<T, 3> forward(const X& x, const AttentionOptions<T>& options = {}, Saved* saved = nullptr) const {
    detail::check_extent("SelfAttention", "x", x, 2, W_Q.in_dim(), "embed_dim");
    Tensor<T, 3> q = W_Q.forward(x, saved ? &saved->input : nullptr), k = W_K.forward(x), v = W_V.forward(x);
    AttentionOptions<T> own = options;
    if (own.dropout == 0) own.dropout = dropout;
    auto result = scaled_dot_product_attention(split_heads(q, 1), split_heads(k, 1), split_heads(v, 1), own);
    const View<T, 3> heads = result.output.reshape(v.shape());  // one head: nothing to merge
    Tensor<T, 3> y = has_output_projection ? W_O.forward(heads, saved ? &saved->output : nullptr) : contiguous(heads);
    if (saved) {
      own.rng = nullptr;
      saved->query = std::move(q);
      saved->key = std::move(k);
      saved->value = std::move(v);
      saved->result = std::move(result);
      saved->options = std::move(own);
    }
    return y;
  }

  /// The same with a mask of keys [B, S], or of pairs [B, S, S] (query, key); true = may be attended to.
  template <TensorLike<3> X, class M>
    requires(TensorLike<M, 2> || TensorLike<M, 3>) && std::same_as<scalar_t<M>, bool>
  Tensor<T, 3> forward(const X& x, const M& mask, Saved* saved = nullptr) const {
    return forward(x, AttentionOptions<T>{.mask = expand_mask(x, mask)}, saved);
  }

  /// Gradient of x; adds to the parameters' grad. \throws ShapeError if dy does not fit what was saved
  template <TensorLike<3> DY>
  Tensor<T, 3> backward(const DY& dy, const Saved& saved) {
    Tensor<T, 3> grad_heads = has_output_projection ? W_O.backward(dy, saved.output) : contiguous(dy);
    detail::check_same_shape("SelfAttention::backward", "dy", grad_heads, "the output that was saved,", saved.value);
    auto grads = scaled_dot_product_attention_backward(split_heads(grad_heads, 1), split_heads(saved.query, 1),
                                                       split_heads(saved.key, 1), split_heads(saved.value, 1),
                                                       saved.result, saved.options);
    // All three projections read the same x, which W_Q saved.
    Tensor<T, 3> dx = W_Q.backward(std::move(grads.query).reshape(saved.query.shape()), saved.input);
    const auto dk = W_K.backward(std::move(grads.key).reshape(saved.key.shape()), saved.input);
    const auto dv = W_V.backward(std::move(grads.value).reshape(saved.value.shape()), saved.input);
    detail::add_to(dx.size(), dk.data(), dx.data());
    detail::add_to(dx.size(), dv.data(), dx.data());
    return dx;
  }

  /// The weights [B, S, S], before dropout.
  template <TensorLike<3> X>
  Tensor<T, 3> weights(const X& x, const AttentionOptions<T>& options = {}) const {
    Tensor<T, 3> q = W_Q.forward(x), k = W_K.forward(x);
    return attention_weights(split_heads(q, 1), split_heads(k, 1), options)
        .reshape(Shape{q.extent(0), q.extent(1), q.extent(1)});
  }
  template <TensorLike<3> X, class M>
    requires(TensorLike<M, 2> || TensorLike<M, 3>) && std::same_as<scalar_t<M>, bool>
  Tensor<T, 3> weights(const X& x, const M& mask) const {
    return weights(x, AttentionOptions<T>{.mask = expand_mask(x, mask)});
  }

 private:
  template <TensorLike<3> X, class M>
  static Tensor<bool, 4> expand_mask(const X& x, const M& mask) {
    for (std::size_t d = 0; d < rank_v<M>; ++d) {
      detail::check_extent("SelfAttention", "mask", mask, d, x.shape()[d == 2 ? 1 : d], "as in x", x);
    }
    const Index rows = rank_v<M> == 3 ? mask.shape()[1] : 1;
    return contiguous(mask).reshape(Shape<4>{mask.shape()[0], 1, rows, mask.shape()[rank_v<M> - 1]});
  }
};

template <InstanceOf<SelfAttention> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit_parameters(self.W_Q, visit, path / "W_Q");
  visit_parameters(self.W_K, visit, path / "W_K");
  visit_parameters(self.W_V, visit, path / "W_V");
  if (self.has_output_projection) visit_parameters(self.W_O, visit, path / "W_O");
}

}  // namespace attensor::inline ATTENSOR_ISA
