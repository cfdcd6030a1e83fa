#pragma once
/// \file
/// A transformer encoder layer. Post-norm, as it was first published:
///
///     h = norm1(x + dropout(self_attn(x)))            y = norm2(h + dropout(feed_forward(h)))
///
/// or pre-norm, with norm_first:
///
///     h = x + dropout(self_attn(norm1(x)))            y = h + dropout(feed_forward(norm2(h)))
///
/// Source: Vaswani et al., Attention Is All You Need (2017), section 3.1; Xiong et al., On Layer Normalization in the
/// Transformer Architecture (2020), for pre-norm.

#include "attensor/layers/feed_forward.hpp"
#include "attensor/layers/multi_head_attention.hpp"
#include "attensor/layers/norm.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct EncoderLayerOptions {
  Index embed_dim = 0;
  Index num_heads = 1;
  Index hidden_dim = 0;  ///< of the feed-forward network; 0: 4 * embed_dim
  Activation activation = Activation::relu;
  double dropout = 0;  ///< of the attention weights, after each sublayer, and after the activation
  bool norm_first = false;
  double eps = 1e-5;  ///< of both norms
};

/// Parameters as in nn.TransformerEncoderLayer: self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*.
template <Scalar T>
struct EncoderLayer {
  MultiHeadAttention<T> self_attn;
  FeedForward<T> feed_forward;
  LayerNorm<T> norm1, norm2;
  double dropout = 0;
  bool norm_first = false;

  struct Saved {
    typename MultiHeadAttention<T>::Saved self_attn;
    typename FeedForward<T>::Saved feed_forward;
    typename LayerNorm<T>::Saved norm1, norm2;
    DropoutMask mask1, mask2;
  };

  EncoderLayer() = default;
  /// \throws ValueError as MultiHeadAttention, FeedForward and LayerNorm do
  EncoderLayer(const EncoderLayerOptions& options, Rng& rng)
      : self_attn({.embed_dim = options.embed_dim, .num_heads = options.num_heads, .dropout = options.dropout}, rng),
        feed_forward({.embed_dim = options.embed_dim,
                      .hidden_dim = options.hidden_dim,
                      .activation = options.activation,
                      .dropout = options.dropout},
                     rng),
        norm1(options.embed_dim, options.eps),
        norm2(options.embed_dim, options.eps),
        dropout(options.dropout),
        norm_first(options.norm_first) {}

  /// As Linear::pack and unpack.
  void pack() { self_attn.pack(), feed_forward.pack(); }
  void unpack() { self_attn.unpack(), feed_forward.unpack(); }

  /// x [B, S, E] -> [B, S, E]. Dropout is active where the options carry an Rng.
  /// \throws ShapeError if the width of x is not embed_dim or a mask does not broadcast
  template <TensorLike<3> X>
  Tensor<T, 3> forward(const X& x, const AttentionOptions<T>& options = {}, Saved* saved = nullptr) const {
    const DropoutMask mask1(dropout, options.rng);
    const auto attend = [&](const auto& input) {
      Tensor<T, 3> y = self_attn.forward(input, options, saved ? &saved->self_attn : nullptr);
      return add_residual(mask1, std::move(y), x);
    };
    const auto normalise = [&](const LayerNorm<T>& norm, auto* saved_norm, const auto& input) {
      return norm.forward(input, saved_norm);
    };
    auto* const saved1 = saved ? &saved->norm1 : nullptr;
    auto* const saved2 = saved ? &saved->norm2 : nullptr;

    const Tensor<T, 3> h = norm_first ? attend(normalise(norm1, saved1, x)) : normalise(norm1, saved1, attend(x));
    const DropoutMask mask2(dropout, options.rng);
    const auto feed = [&](const auto& input) {
      Tensor<T, 3> y = feed_forward.forward(input, options.rng, saved ? &saved->feed_forward : nullptr);
      return add_residual(mask2, std::move(y), h);
    };
    if (saved) {
      saved->mask1 = mask1;
      saved->mask2 = mask2;
    }
    return norm_first ? feed(normalise(norm2, saved2, h)) : normalise(norm2, saved2, feed(h));
  }

  /// Gradient of x; adds to the parameters' grad. \throws ShapeError if dy does not fit what was saved
  template <TensorLike<3> DY>
  Tensor<T, 3> backward(const DY& dy, const Saved& saved) {
    const auto through_attention = [&](const auto& d) {
      return self_attn.backward(dropout_backward(d, saved.mask1), saved.self_attn);
    };
    const auto through_feed_forward = [&](const auto& d) {
      return feed_forward.backward(dropout_backward(d, saved.mask2), saved.feed_forward);
    };
    if (norm_first) {
      Tensor<T, 3> dh = norm2.backward(through_feed_forward(dy), saved.norm2);
      add(dh, dy);
      Tensor<T, 3> dx = norm1.backward(through_attention(dh), saved.norm1);
      add(dx, dh);
      return dx;
    }
    const Tensor<T, 3> dsum2 = norm2.backward(dy, saved.norm2);
    Tensor<T, 3> dh = through_feed_forward(dsum2);
    add(dh, dsum2);
    const Tensor<T, 3> dsum1 = norm1.backward(dh, saved.norm1);
    Tensor<T, 3> dx = through_attention(dsum1);
    add(dx, dsum1);
    return dx;
  }

 private:
  /// y += x
  template <TensorLike<3> X>
  static void add(Tensor<T, 3>& y, const X& x) {
    const auto from = detail::rows(read(x));
    const auto to = detail::rows(y);
    parallel_for(from.count(), detail::grain_for(from.length()), [&](Index row) {
      detail::for_row<T>(from.length(), [&](auto at) { at.store(to[row], at.load(to[row]) + at.load(from[row])); });
    });
  }
  /// x + dropout(y)
  template <TensorLike<3> X>
  static Tensor<T, 3> add_residual(const DropoutMask& mask, Tensor<T, 3>&& y, const X& x) {
    if (mask.active()) detail::apply_dropout(mask, y.size(), y.data(), y.data());
    add(y, x);
    return std::move(y);
  }
};

template <InstanceOf<EncoderLayer> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit_parameters(self.self_attn, visit, path / "self_attn");
  visit_parameters(self.feed_forward, visit, path);  // linear1 and linear2 stand beside self_attn, as in PyTorch
  visit_parameters(self.norm1, visit, path / "norm1");
  visit_parameters(self.norm2, visit, path / "norm2");
}

}  // namespace attensor::inline ATTENSOR_ISA
