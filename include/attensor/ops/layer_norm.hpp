#pragma once
/// \file Layer normalisation of the last dimension, and its derivative. For one row x of D features, with the biased
/// variance:
///
///     mean = sum(x) / D        rstd = 1 / sqrt(sum((x - mean)^2) / D + eps)
///     xhat = (x - mean) * rstd            y = weight * xhat + bias
///
/// and with g = weight * dy:
///
///     dx      = rstd * (g - mean(g) - xhat * mean(g * xhat))
///     dweight = sum over rows of dy * xhat         dbias = sum over rows of dy
///
/// Source: Ba, Kiros and Hinton, Layer Normalization (2016), equation 4.

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct LayerNormOptions {
  double eps = 1e-5;  ///< added to the variance, inside the root
};

/// What the backward pass needs besides x: three numbers a row. (xhat is one multiply-add away, so it is not kept.)
template <Number T>
struct LayerNormSaved {
  Tensor<T, 1> mean;      ///< [rows]
  Tensor<T, 1> mean_low;  ///< [rows], the digits of the mean that `mean` has no room for
  Tensor<T, 1> rstd;      ///< [rows]
};

template <Number T, std::size_t Rank>
struct LayerNormGrads {
  Tensor<T, Rank> x;    ///< shape of x
  Tensor<T, 1> weight;  ///< [D]
  Tensor<T, 1> bias;    ///< [D]
};

namespace detail {

template <Number T>
struct RowMoments {
  T mean, mean_low, rstd;

  /// x - mean, to the last digit also where the mean is large against the spread; exactly 0 in a constant row.
  Packet<T> deviation(Packet<T> x) const { return (x - Packet<T>(mean)) - Packet<T>(mean_low); }
};

/// Deviations from the first element give the mean, and the mean of the deviations from that mean its lower digits. (A
/// sum of squares minus the square of a sum would lose all digits where the mean is large against the spread.)
template <Number T>
RowMoments<T> row_moments(Index n, const T* x, T eps) {
  using P = Packet<T>;
  const T count = static_cast<T>(static_cast<double>(n));
  RowMoments<T> row{};
  row.mean = x[0] + sum_row<T>(n, [&](auto at) { return at.load(x) - P(x[0]); }) / count;
  row.mean_low = sum_row<T>(n, [&](auto at) { return at.load(x) - P(row.mean); }) / count;
  const T variance = sum_row<T>(n,
                                [&](auto at) {
                                  const P d = row.deviation(at.load(x));
                                  return d * d;
                                }) /
                     count;
  row.rstd = variance + eps == T(0) ? T(0) : T(1) / std::sqrt(variance + eps);
  return row;
}

/// y may be x.
template <Number T>
void layer_norm_row(Index n, const T* x, const T* weight, const T* bias, const RowMoments<T>& row, T* y) {
  const Packet<T> rstd(row.rstd);
  for_row<T>(n, [&](auto at) { at.store(y, fma(row.deviation(at.load(x)) * rstd, at.load(weight), at.load(bias))); });
}

/// Overwrites dx (which may be dy); adds to dweight and dbias.
template <Number T>
void layer_norm_backward_row(Index n, const T* dy, const T* x, const T* weight, const RowMoments<T>& row, T* dx,
                             T* dweight, T* dbias) {
  using P = Packet<T>;
  const P rstd(row.rstd);
  const auto xhat = [&](auto at) { return row.deviation(at.load(x)) * rstd; };
  const auto g = [&](auto at) { return at.load(weight) * at.load(dy); };
  const T count = static_cast<T>(static_cast<double>(n));
  const P mean_g(sum_row<T>(n, g) / count);
  const P mean_g_xhat(sum_row<T>(n, [&](auto at) { return g(at) * xhat(at); }) / count);
  for_row<T>(n, [&](auto at) {
    const P h = xhat(at), d = at.load(dy);
    at.store(dweight, fma(d, h, at.load(dweight)));
    at.store(dbias, at.load(dbias) + d);
    at.store(dx, rstd * ((at.load(weight) * d - mean_g) - h * mean_g_xhat));
  });
}

}  // namespace detail

/// Normalises each row of x.
///
/// \param x       [..., D], any rank, D >= 1
/// \param weight  [D], the gain
/// \param bias    [D]
/// \param saved   filled for layer_norm_backward when given
/// \return        the shape of x
/// \throws ShapeError if weight or bias is not [D]; ValueError for a negative eps Time and memory are linear in the
/// size of x. A constant row gives `bias`, not NaN (with eps = 0, where there is no spread to divide by, too).
template <TensorLike X, TensorLike<1> W, TensorLike<1> B>
  requires Number<scalar_t<X>>
auto layer_norm(const X& x, const W& weight, const B& bias, const LayerNormOptions& options = {},
                LayerNormSaved<scalar_t<X>>* saved = nullptr) {
  require_same_scalar<X, W>();
  require_same_scalar<X, B>();
  using T = scalar_t<X>;
  const auto in = detail::rows(read(x));
  const Index features = in.length();
  detail::check_value(options.eps >= 0, "layer_norm", "eps", options.eps, "0 or more");
  detail::check_extent("layer_norm", "weight", weight, 0, features, "the last dimension of x", x);
  detail::check_extent("layer_norm", "bias", bias, 0, features, "the last dimension of x", x);

  auto y = empty_like(x);
  const auto out = detail::rows(y);
  if (saved) *saved = {empty<T>(Shape{in.count()}), empty<T>(Shape{in.count()}), empty<T>(Shape{in.count()})};
  if (features == 0) return y;

  const T* w = weight.data();
  const T* b = bias.data();
  parallel_for(in.count(), detail::grain_for(features), [&](Index i) {
    const auto row = detail::row_moments<T>(features, in[i], static_cast<T>(options.eps));
    detail::layer_norm_row(features, in[i], w, b, row, out[i]);
    if (saved) {
      saved->mean(i) = row.mean;
      saved->mean_low(i) = row.mean_low;
      saved->rstd(i) = row.rstd;
    }
  });
  return y;
}

/// The derivative of sum(layer_norm(x, weight, bias) * dy) with respect to x, weight and bias. Fresh tensors; nothing
/// is added to anything. The sums over rows have a fixed order, so the bits do not depend on the number of threads.
///
/// \param dy     the shape of x
/// \param saved  what the forward pass on the same x filled
/// \throws ShapeError if dy and x differ in shape, or saved comes from another number of rows
template <TensorLike DY, TensorLike X, TensorLike<1> W>
  requires Number<scalar_t<X>>
auto layer_norm_backward(const DY& dy, const X& x, const W& weight, const LayerNormSaved<scalar_t<X>>& saved) {
  require_same_scalar<X, DY>();
  require_same_scalar<X, W>();
  using T = scalar_t<X>;
  const auto in = detail::rows(read(x)), grad_in = detail::rows(read(dy));
  const Index features = in.length();
  detail::check_same_shape("layer_norm_backward", "dy", dy, "x", x);
  detail::check_extent("layer_norm_backward", "weight", weight, 0, features, "the last dimension of x", x);
  detail::check_extent("layer_norm_backward", "saved.mean", saved.mean, 0, in.count(), "the number of rows of x", x);

  LayerNormGrads<T, rank_v<X>> grads{empty_like(x), zeros_like(weight), zeros_like(weight)};
  if (features == 0) return grads;
  const auto grad_out = detail::rows(grads.x);
  const T* w = weight.data();
  auto sums = zeros<T>({2, features});  // dweight, dbias
  detail::parallel_row_sums(in.count(), 2 * features, sums.data(), [&](Index i, T* partial) {
    const detail::RowMoments<T> row{saved.mean(i), saved.mean_low(i), saved.rstd(i)};
    detail::layer_norm_backward_row(features, grad_in[i], in[i], w, row, grad_out[i], partial, partial + features);
  });
  std::copy_n(sums.data(), features, grads.weight.data());
  std::copy_n(sums.data() + features, features, grads.bias.data());
  return grads;
}

}  // namespace attensor::inline ATTENSOR_ISA
