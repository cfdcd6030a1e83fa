#pragma once
/// \file
/// The position-wise feed-forward network of a transformer:
///
///     y = W2 dropout(activation(W1 x + b1)) + b2
///
/// Source: Vaswani et al., Attention Is All You Need (2017), equation 2.

#include "attensor/layers/linear.hpp"
#include "attensor/ops/activation.hpp"
#include "attensor/ops/dropout.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct FeedForwardOptions {
  Index embed_dim = 0;
  Index hidden_dim = 0;  ///< 0: 4 * embed_dim
  Activation activation = Activation::relu;
  bool bias = true;
  double dropout = 0;  ///< after the activation; active only where forward gets a generator
};

/// Parameters: linear1.weight [hidden, embed], linear1.bias, linear2.weight [embed, hidden], linear2.bias.
template <Scalar T>
struct FeedForward {
  Linear<T> linear1, linear2;
  Activation kind = Activation::relu;
  double dropout = 0;

  struct Saved {
    typename Linear<T>::Saved linear1, linear2;
    Tensor<T, 2> hidden;  ///< [rows, hidden], before the activation
    DropoutMask mask;
  };

  FeedForward() = default;
  /// \throws ValueError for a width below 1, or a dropout that is no probability
  FeedForward(const FeedForwardOptions& options, Rng& rng) : kind(options.activation), dropout(options.dropout) {
    detail::check_value(options.embed_dim >= 1, "FeedForward", "embed_dim", options.embed_dim, "1 or more");
    detail::check_value(options.hidden_dim >= 0, "FeedForward", "hidden_dim", options.hidden_dim,
                        "1 or more, or 0 for 4 * embed_dim");
    detail::check_value(dropout >= 0 && dropout <= 1, "FeedForward", "dropout", dropout, "a probability in [0, 1]");
    const Index hidden_dim = options.hidden_dim == 0 ? 4 * options.embed_dim : options.hidden_dim;
    linear1 = Linear<T>({.in_dim = options.embed_dim, .out_dim = hidden_dim, .bias = options.bias}, rng);
    linear2 = Linear<T>({.in_dim = hidden_dim, .out_dim = options.embed_dim, .bias = options.bias}, rng);
  }

  /// As Linear::pack and unpack.
  void pack() { linear1.pack(), linear2.pack(); }
  void unpack() { linear1.unpack(), linear2.unpack(); }

  /// The shape of x [..., embed_dim]. \throws ShapeError if the width does not fit
  template <TensorLike X>
  auto forward(const X& x, Rng* rng = nullptr, Saved* saved = nullptr) const {
    auto hidden = linear1.forward(x, saved ? &saved->linear1 : nullptr);
    const DropoutMask mask(dropout, rng);
    const Index width = linear1.out_dim(), rows = detail::rows(hidden).count();
    if (saved) {
      saved->mask = mask;
      saved->hidden = std::move(hidden).reshape(Shape{rows, width});
      saved->linear2.x = empty<T>({rows, width});
      activate(saved->hidden.data(), saved->linear2.x.data(), rows * width);
      if (mask.active()) detail::apply_dropout(mask, rows * width, saved->linear2.x.data(), saved->linear2.x.data());
      return linear2.forward(saved->linear2.x).reshape(x.shape());
    }
    activate(hidden.data(), hidden.data(), rows * width);
    if (mask.active()) detail::apply_dropout(mask, rows * width, hidden.data(), hidden.data());
    return linear2.forward(hidden);
  }

  /// Gradient of the input, in the shape of dy; adds to the parameters' grad.
  template <TensorLike DY>
  auto backward(const DY& dy, const Saved& saved) {
    const detail::RowMatrix<T> grad(dy);
    const View<const T, 2> rows(grad.view().data, Shape{grad.view().rows, grad.view().columns},
                                Strides<2>{grad.view().row_stride, 1});
    Tensor<T, 2> hidden = linear2.backward(rows, saved.linear2);
    detail::check_same_shape("FeedForward::backward", "saved.hidden", saved.hidden, "the gradient of the hidden layer,",
                             hidden);
    if (saved.mask.active()) detail::apply_dropout(saved.mask, hidden.size(), hidden.data(), hidden.data());
    parallel_chunks(hidden.size(), detail::activation_grain, [&](Index begin, Index end) {
      detail::activate_backward(kind, end - begin, hidden.data() + begin, saved.hidden.data() + begin,
                                hidden.data() + begin);
    });
    return linear1.backward(hidden, saved.linear1).reshape(dy.shape());
  }

 private:
  void activate(const T* x, T* y, Index count) const {
    parallel_chunks(count, detail::activation_grain,
                    [&](Index begin, Index end) { detail::activate(kind, end - begin, x + begin, y + begin); });
  }
};

template <InstanceOf<FeedForward> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit_parameters(self.linear1, visit, path / "linear1");
  visit_parameters(self.linear2, visit, path / "linear2");
}

}  // namespace attensor::inline ATTENSOR_ISA
