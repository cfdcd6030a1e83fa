#pragma once
/// \file
/// Multi-head attention, self and cross, with PyTorch's parameters:
///
///     q, k, v = query W_q^T + b_q, key W_k^T + b_k, value W_v^T + b_v      in_proj_weight = W_q, W_k, W_v stacked
///     head_h  = attention(q_h, k_h, v_h)                                   the h-th slice of the features
///     y       = [head_1, ..., head_H] W_o^T + b_o                          out_proj
///
/// The projections stay merged; attention works on views of their heads, and writes its heads side by side.
/// Source: Vaswani et al., Attention Is All You Need (2017), section 3.2.2.

#include "attensor/attention/attention.hpp"
#include "attensor/attention/heads.hpp"
#include "attensor/attention/mask.hpp"
#include "attensor/core/layout.hpp"
#include "attensor/layers/linear.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct MultiHeadAttentionOptions {
  Index embed_dim = 0;  ///< width of query and output
  Index num_heads = 1;
  Index num_kv_heads = 0;  ///< heads of key and value, a divisor of num_heads; 0: num_heads
  Index key_dim = 0;       ///< width of the key input; 0: embed_dim
  Index value_dim = 0;     ///< width of the value input; 0: embed_dim
  bool bias = true;        ///< of all projections
  double dropout = 0;      ///< of the weights; active only where the attention options carry an Rng
};

/// Parameters: in_proj_weight [(H + 2 Hkv) D, E], or q_proj_weight, k_proj_weight and v_proj_weight where the inputs
/// differ in width; in_proj_bias; out_proj.weight [E, E], out_proj.bias. Xavier-uniform and zeros at first, out_proj as
/// nn.Linear.
template <Scalar T>
struct MultiHeadAttention {
  Parameter<T, 2> in_proj_weight;
  Parameter<T, 2> q_proj_weight, k_proj_weight, v_proj_weight;
  Parameter<T, 1> in_proj_bias;
  Linear<T> out_proj;
  Index num_heads = 1, num_kv_heads = 1;
  double dropout = 0;

  /// What backward needs. Owns or shares everything.
  struct Saved {
    Tensor<T, 3> query, key, value;  ///< the inputs; key and value are empty in self-attention
    Tensor<T, 3> projected;          ///< [B, S, (H + 2 Hkv) D] in self-attention, else queries alone
    Tensor<T, 3> projected_key, projected_value;
    Tensor<T, 3> merged;     ///< [B, Lq, H D], what out_proj is applied to
    Tensor<T, 3> logsumexp;  ///< [B, H, Lq]
    DropoutMask mask;
    AttentionOptions<T> options;
    bool is_cross = false;
  };
  /// Gradients of the inputs of cross-attention.
  struct Grads {
    Tensor<T, 3> query, key, value;
  };

  MultiHeadAttention() = default;
  /// \throws ValueError unless embed_dim is divisible by num_heads, and num_heads by num_kv_heads
  MultiHeadAttention(const MultiHeadAttentionOptions& options, Rng& rng)
      : num_heads(options.num_heads),
        num_kv_heads(options.num_kv_heads == 0 ? options.num_heads : options.num_kv_heads),
        dropout(options.dropout) {
    constexpr const char* function = "MultiHeadAttention";
    const Index embed = options.embed_dim;
    detail::check_value(embed >= 1, function, "embed_dim", embed, "1 or more");
    detail::check_value(num_heads >= 1 && embed % num_heads == 0, function, "num_heads", num_heads,
                        "a divisor of embed_dim " + std::to_string(embed));
    detail::check_value(num_kv_heads >= 1 && num_heads % num_kv_heads == 0, function, "num_kv_heads", num_kv_heads,
                        "a divisor of num_heads " + std::to_string(num_heads));
    detail::check_value(options.key_dim >= 0, function, "key_dim", options.key_dim, "a width, or 0 for embed_dim");
    detail::check_value(options.value_dim >= 0, function, "value_dim", options.value_dim,
                        "a width, or 0 for embed_dim");
    detail::check_value(dropout >= 0 && dropout <= 1, function, "dropout", dropout, "a probability in [0, 1]");
    const Index key_dim = options.key_dim == 0 ? embed : options.key_dim;
    const Index value_dim = options.value_dim == 0 ? embed : options.value_dim;
    const Index key_width = num_kv_heads * (embed / num_heads);
    const auto xavier = [&](Index out, Index in) {
      const double bound = std::sqrt(6.0 / static_cast<double>(in + out));
      return uniform<T>(Shape{out, in}, rng, {.low = -bound, .high = bound});
    };
    if (key_dim == embed && value_dim == embed) {
      in_proj_weight.value = xavier(embed + 2 * key_width, embed);
    } else {
      q_proj_weight.value = xavier(embed, embed);
      k_proj_weight.value = xavier(key_width, key_dim);
      v_proj_weight.value = xavier(key_width, value_dim);
    }
    if (options.bias) in_proj_bias.value = zeros<T>({embed + 2 * key_width});
    out_proj = Linear<T>({.in_dim = embed, .out_dim = embed, .bias = options.bias}, rng);
    if (options.bias) std::fill_n(out_proj.bias.value.data(), embed, T(0));
  }

  Index embed_dim() const { return out_proj.out_dim(); }
  Index head_dim() const { return embed_dim() / num_heads; }
  Index key_width() const { return num_kv_heads * head_dim(); }

  /// As Linear::pack and unpack.
  void pack() {
    if (is_packed()) return;
    for (int part = 0; part < 3; ++part) packed_[part] = PackedWeight<T>(weight_view(part));
    is_merged_ = has_merged_weight();
    in_proj_weight = q_proj_weight = k_proj_weight = v_proj_weight = {};
    out_proj.pack();
  }
  void unpack() {
    if (!is_packed()) return;
    if (is_merged_) in_proj_weight.value = empty<T>({embed_dim() + 2 * key_width(), embed_dim()});
    for (int part = 0; part < 3; ++part) {
      Tensor<T, 2> weight = packed_[part].unpack();
      if (is_merged_) {
        std::copy_n(weight.data(), weight.size(), in_proj_weight.value.data() + part_begin(part) * embed_dim());
      } else {
        own_weight(part).value = std::move(weight);
      }
      packed_[part] = {};
    }
    out_proj.unpack();
  }
  bool is_packed() const { return !packed_[0].empty(); }

  /// Self-attention: x [B, S, E] -> [B, S, E]. Many threads may share one const layer.
  /// \throws ShapeError if the width of x is not embed_dim or a mask does not broadcast
  template <TensorLike<3> X>
  Tensor<T, 3> forward(const X& x, const AttentionOptions<T>& options = {}, Saved* saved = nullptr) const {
    Tensor<T, 3> projected = project_self(x);
    Tensor<T, 3> y = attend(self_inputs(projected), options, saved);
    if (saved) {
      saved->query = contiguous(x);
      saved->key = saved->value = saved->projected_key = saved->projected_value = {};
      saved->is_cross = false;
      saved->projected = std::move(projected);
    }
    return y;
  }

  /// Cross-attention: query [B, Lq, E], key [B, Lk, key_dim], value [B, Lk, value_dim] -> [B, Lq, E].
  /// \throws ShapeError if widths, batches or lengths do not fit together or a mask does not broadcast
  template <TensorLike<3> Q, TensorLike<3> K, TensorLike<3> V>
  Tensor<T, 3> forward(const Q& query, const K& key, const V& value, const AttentionOptions<T>& options = {},
                       Saved* saved = nullptr) const {
    Tensor<T, 3> q = project("query", query, 0), k = project("key", key, 1), v = project("value", value, 2);
    Tensor<T, 3> y = attend(cross_inputs(q, k, v), options, saved);
    if (saved) {
      saved->query = contiguous(query);
      saved->key = contiguous(key);
      saved->value = contiguous(value);
      saved->projected = std::move(q);
      saved->projected_key = std::move(k);
      saved->projected_value = std::move(v);
      saved->is_cross = true;
    }
    return y;
  }

  /// Gradient of x after self-attention; adds to the parameters' grad. Gradients of a learned bias, slopes and the like
  /// go to `option_grads` where it is given. \throws ShapeError if dy does not fit what was saved; ValueError after
  /// cross-attention
  template <TensorLike<3> DY>
  Tensor<T, 3> backward(const DY& dy, const Saved& saved, AttentionGrads<T>* option_grads = nullptr) {
    detail::check_unpacked("MultiHeadAttention::backward", is_packed());
    detail::check_value(!saved.is_cross, "MultiHeadAttention::backward", "saved", "from cross-attention",
                        "what self-attention saved (backward_cross takes the other)");
    Tensor<T, 3> grad_projected = empty_like(saved.projected);
    const Index embed = embed_dim(), width = key_width();
    auto all = grad_projected.view();
    backward_heads(dy, saved, self_inputs(saved.projected), split_heads(slice(all, 2, 0, embed), num_heads),
                   split_heads(slice(all, 2, embed, embed + width), num_kv_heads),
                   split_heads(slice(all, 2, embed + width, embed + 2 * width), num_kv_heads), option_grads);
    Tensor<T, 3> dx = empty_like(saved.query);
    const detail::RowMatrix<T> x(saved.query), grad(grad_projected);
    detail::linear_backward_weight(grad.view(), x.view(), detail::grad_of(in_proj_weight).data());
    detail::linear_backward_x(grad.view(), detail::matrix_view<T>(in_proj_weight.value), dx.data());
    if (!in_proj_bias.value.empty()) detail::linear_backward_bias(grad.view(), detail::grad_of(in_proj_bias).data());
    return dx;
  }

  /// Gradients of query, key and value after cross-attention; adds to the parameters' grad.
  template <TensorLike<3> DY>
  Grads backward_cross(const DY& dy, const Saved& saved, AttentionGrads<T>* option_grads = nullptr) {
    detail::check_unpacked("MultiHeadAttention::backward_cross", is_packed());
    detail::check_value(saved.is_cross, "MultiHeadAttention::backward_cross", "saved", "from self-attention",
                        "what cross-attention saved (backward takes the other)");
    Tensor<T, 3> dq = empty_like(saved.projected), dk = empty_like(saved.projected_key),
                 dv = empty_like(saved.projected_value);
    backward_heads(dy, saved, cross_inputs(saved.projected, saved.projected_key, saved.projected_value),
                   split_heads(dq, num_heads), split_heads(dk, num_kv_heads), split_heads(dv, num_kv_heads),
                   option_grads);
    return {project_backward(dq, saved.query, 0), project_backward(dk, saved.key, 1),
            project_backward(dv, saved.value, 2)};
  }

  /// The weights of each head in self-attention, before dropout: [B, H, S, S]. On request only, since it makes them in
  /// full.
  template <TensorLike<3> X>
  Tensor<T, 4> weights(const X& x, const AttentionOptions<T>& options = {}) const {
    const Tensor<T, 3> projected = project_self(x);
    const auto in = self_inputs(projected);
    return attention_weights(in.query, in.key, options);
  }
  /// The same in cross-attention: [B, H, Lq, Lk].
  template <TensorLike<3> Q, TensorLike<3> K>
  Tensor<T, 4> weights(const Q& query, const K& key, const AttentionOptions<T>& options = {}) const {
    Tensor<T, 3> q = project("query", query, 0), k = project("key", key, 1);
    return attention_weights(split_heads(q, num_heads), split_heads(k, num_kv_heads), options);
  }

 private:
  // The three projections: 0 query, 1 key, 2 value. Each is a range of rows of the merged parameters, or a weight of
  // its own.
  Index part_begin(int part) const { return part == 0 ? 0 : embed_dim() + (part - 1) * key_width(); }
  Index part_width(int part) const { return part == 0 ? embed_dim() : key_width(); }
  bool has_merged_weight() const { return q_proj_weight.value.empty(); }
  const Parameter<T, 2>& own_weight(int part) const {
    return part == 0 ? q_proj_weight : part == 1 ? k_proj_weight : v_proj_weight;
  }
  Parameter<T, 2>& own_weight(int part) {
    return part == 0 ? q_proj_weight : part == 1 ? k_proj_weight : v_proj_weight;
  }
  View<const T, 2> weight_view(int part) const {
    if (!has_merged_weight()) return own_weight(part).value.view();
    return slice(in_proj_weight.value, 0, part_begin(part), part_begin(part) + part_width(part));
  }
  View<const T, 1> bias_view(int part) const {
    if (in_proj_bias.value.empty()) return {};
    return slice(in_proj_bias.value, 0, part_begin(part), part_begin(part) + part_width(part));
  }

  template <TensorLike<3> X>
  Tensor<T, 3> project(const char* name, const X& x, int part) const {
    const Index width = is_packed() ? packed_[part].in_dim() : weight_view(part).extent(1);
    detail::check_extent("MultiHeadAttention", name, x, 2, width, "the width that its projection takes");
    return is_packed() ? linear(x, packed_[part], bias_view(part)) : linear(x, weight_view(part), bias_view(part));
  }
  template <TensorLike<3> X>
  Tensor<T, 3> project_self(const X& x) const {
    detail::check_extent("MultiHeadAttention", "x", x, 2, embed_dim(), "embed_dim");
    if (is_packed() && is_merged_) {
      Tensor<T, 3> projected = empty<T>({x.shape()[0], x.shape()[1], embed_dim() + 2 * key_width()});
      const detail::RowMatrix<T> in(x);
      for (int part = 0; part < 3; ++part) {
        const auto bias = bias_view(part);
        packed_[part].multiply(in.view(), bias.data(), projected.data() + part_begin(part), projected.extent(2));
      }
      return projected;
    }
    if (!is_packed() && has_merged_weight()) return linear(x, in_proj_weight.value, in_proj_bias.value);
    throw_error<ValueError>(
        {"MultiHeadAttention: key_dim or value_dim differ from embed_dim; expected query, key and value"});
  }
  Tensor<T, 3> project_backward(const Tensor<T, 3>& grad_projected, const Tensor<T, 3>& x, int part) {
    const detail::RowMatrix<T> grad(grad_projected), in(x);
    auto& weight = has_merged_weight() ? in_proj_weight : own_weight(part);
    const Index first_row = has_merged_weight() ? part_begin(part) : 0;
    detail::linear_backward_weight(grad.view(), in.view(), detail::grad_of(weight).data() + first_row * x.extent(2));
    if (!in_proj_bias.value.empty()) {
      detail::linear_backward_bias(grad.view(), detail::grad_of(in_proj_bias).data() + part_begin(part));
    }
    Tensor<T, 3> dx = empty_like(x);
    detail::linear_backward_x(grad.view(), detail::matrix_view<T>(weight_view(part)), dx.data());
    return dx;
  }

  detail::AttentionInputs<T> self_inputs(const Tensor<T, 3>& projected) const {
    const Index embed = embed_dim(), width = key_width();
    return {split_heads(slice(projected, 2, 0, embed), num_heads),
            split_heads(slice(projected, 2, embed, embed + width), num_kv_heads),
            split_heads(slice(projected, 2, embed + width, embed + 2 * width), num_kv_heads)};
  }
  detail::AttentionInputs<T> cross_inputs(const Tensor<T, 3>& q, const Tensor<T, 3>& k, const Tensor<T, 3>& v) const {
    return {split_heads(q, num_heads), split_heads(k, num_kv_heads), split_heads(v, num_kv_heads)};
  }

  Tensor<T, 3> attend(const detail::AttentionInputs<T>& in, const AttentionOptions<T>& options, Saved* saved) const {
    detail::check_attention("MultiHeadAttention", in, options);
    const DropoutMask mask(options.dropout > 0 ? options.dropout : dropout, options.rng);
    Tensor<T, 3> merged = empty<T>({in.batch(), in.queries(), embed_dim()});
    Tensor<T, 3> logsumexp = empty<T>({in.batch(), num_heads, in.queries()});
    detail::attention_forward(in, options, mask, split_heads(merged, num_heads), logsumexp.view());
    Tensor<T, 3> y = out_proj.forward(merged);
    if (saved) {
      saved->merged = std::move(merged);
      saved->logsumexp = std::move(logsumexp);
      saved->mask = mask;
      saved->options = options;
      saved->options.rng = nullptr;  // the mask is drawn; the generator may be gone by then
    }
    return y;
  }

  template <TensorLike<3> DY>
  void backward_heads(const DY& dy, const Saved& saved, const detail::AttentionInputs<T>& in,
                      const View<T, 4>& grad_query, const View<T, 4>& grad_key, const View<T, 4>& grad_value,
                      AttentionGrads<T>* option_grads) {
    require_same_scalar<DY, Tensor<T, 3>>();
    detail::check_same_shape("MultiHeadAttention::backward", "dy", dy, "the output that was saved,", saved.merged);
    const detail::RowMatrix<T> grad(dy), merged(saved.merged);
    detail::linear_backward_weight(grad.view(), merged.view(), detail::grad_of(out_proj.weight).data());
    if (!out_proj.bias.value.empty()) detail::linear_backward_bias(grad.view(), detail::grad_of(out_proj.bias).data());
    Tensor<T, 3> grad_merged = empty_like(saved.merged);
    detail::linear_backward_x(grad.view(), detail::matrix_view<T>(out_proj.weight.value), grad_merged.data());
    AttentionGrads<T> grads;
    const View<const T, 4> grad_heads = split_heads(grad_merged, num_heads);
    detail::attention_backward(grad_heads, in, saved.mask, saved.options, nullptr, grad_query, grad_key, grad_value,
                               grads);
    if (option_grads) *option_grads = std::move(grads);
  }

  PackedWeight<T> packed_[3];
  bool is_merged_ = true;  // whether unpack() puts the three into in_proj_weight
};

template <InstanceOf<MultiHeadAttention> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  detail::check_unpacked("visit_parameters", self.is_packed());
  if (self.q_proj_weight.value.empty()) {
    visit(path / "in_proj_weight", self.in_proj_weight);
  } else {
    visit(path / "q_proj_weight", self.q_proj_weight);
    visit(path / "k_proj_weight", self.k_proj_weight);
    visit(path / "v_proj_weight", self.v_proj_weight);
  }
  if (!self.in_proj_bias.value.empty()) visit(path / "in_proj_bias", self.in_proj_bias);
  visit_parameters(self.out_proj, visit, path / "out_proj");
}

/// The average over heads of weights [B, H, Lq, Lk]: [B, Lq, Lk].
template <TensorLike<4> W>
Tensor<scalar_t<W>, 3> average_weights(const W& weights) {
  using T = scalar_t<W>;
  const auto& shape = weights.shape();
  auto average = zeros<T>({shape[0], shape[2], shape[3]});
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < shape[2]; ++i) {
        for (Index j = 0; j < shape[3]; ++j) average(b, i, j) += weights(b, h, i, j) / static_cast<T>(shape[1]);
      }
    }
  }
  return average;
}

}  // namespace attensor::inline ATTENSOR_ISA
