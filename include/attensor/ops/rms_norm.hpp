#pragma once
/// \file
/// Root-mean-square normalisation of the last dimension, and its derivative. For one row x of D features:
///
///     rstd = 1 / sqrt(sum(x^2) / D + eps)        xhat = x * rstd        y = weight * xhat
///
/// and with g = weight * dy:
///
///     dx      = rstd * (g - xhat * mean(g * xhat))
///     dweight = sum over rows of dy * xhat
///
/// Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4.

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct RmsNormOptions {
  double eps = 1e-5;  ///< added to the mean square, inside the root
};

template <Scalar T>
struct RmsNormSaved {
  Tensor<T, 1> rstd;  ///< [rows]
};

template <Scalar T, std::size_t Rank>
struct RmsNormGrads {
  Tensor<T, Rank> x;    ///< shape of x
  Tensor<T, 1> weight;  ///< [D]
};

namespace detail {

template <Scalar T>
T rms_norm_rstd(Index n, const T* x, T eps) {
  const T squares = sum_row<T>(n, [&](auto at) {
    const auto v = at.load(x);
    return v * v;
  });
  const T mean = squares / static_cast<T>(n) + eps;
  return mean == T(0) ? T(0) : T(1) / std::sqrt(mean);  // a row of zeros stays one with eps = 0
}

/// Overwrites dx; adds to dweight.
template <Scalar T>
void rms_norm_backward_row(Index n, const T* dy, const T* x, const T* weight, T rstd, T* dx, T* dweight) {
  using P = Packet<T>;
  const P r(rstd);
  const T mean =
      sum_row<T>(n, [&](auto at) { return at.load(weight) * at.load(dy) * (at.load(x) * r); }) / static_cast<T>(n);
  for_row<T>(n, [&](auto at) {
    const P xhat = at.load(x) * r, d = at.load(dy);
    at.store(dweight, fma(d, xhat, at.load(dweight)));
    at.store(dx, r * (at.load(weight) * d - xhat * P(mean)));
  });
}

}  // namespace detail

/// Normalises each row of x.
///
/// \param x       [..., D], any rank
/// \param weight  [D], the gain
/// \param saved   filled for rms_norm_backward when given
/// \return        the shape of x
/// \throws ShapeError if weight is not [D]; ValueError for a negative eps
template <TensorLike X, TensorLike<1> W>
  requires Scalar<scalar_t<X>>
auto rms_norm(const X& x, const W& weight, const RmsNormOptions& options = {},
              RmsNormSaved<scalar_t<X>>* saved = nullptr) {
  require_same_scalar<X, W>();
  using T = scalar_t<X>;
  const auto in = detail::rows(read(x));
  const Index features = in.length();
  detail::check_value(options.eps >= 0, "rms_norm", "eps", options.eps, "0 or more");
  detail::check_extent("rms_norm", "weight", weight, 0, features, "the last dimension of x", x);
  auto y = empty_like(x);
  const auto out = detail::rows(y);
  if (saved) saved->rstd = empty<T>(Shape{in.count()});
  const T* w = weight.data();
  parallel_for(in.count(), detail::grain_for(features), [&](Index i) {
    const T rstd = detail::rms_norm_rstd(features, in[i], static_cast<T>(options.eps));
    detail::for_row<T>(features,
                       [&](auto at) { at.store(out[i], at.load(in[i]) * detail::Packet<T>(rstd) * at.load(w)); });
    if (saved) saved->rstd(i) = rstd;
  });
  return y;
}

/// The derivative of sum(rms_norm(x, weight) * dy) with respect to x and weight; fresh, in a fixed order of sums.
/// \throws ShapeError if dy and x differ in shape, or saved comes from another number of rows
template <TensorLike DY, TensorLike X, TensorLike<1> W>
  requires Scalar<scalar_t<X>>
auto rms_norm_backward(const DY& dy, const X& x, const W& weight, const RmsNormSaved<scalar_t<X>>& saved) {
  require_same_scalar<X, DY>();
  require_same_scalar<X, W>();
  using T = scalar_t<X>;
  const auto in = detail::rows(read(x)), grad_in = detail::rows(read(dy));
  const Index features = in.length();
  detail::check_same_shape("rms_norm_backward", "dy", dy, "x", x);
  detail::check_extent("rms_norm_backward", "weight", weight, 0, features, "the last dimension of x", x);
  detail::check_extent("rms_norm_backward", "saved.rstd", saved.rstd, 0, in.count(), "the number of rows of x", x);
  RmsNormGrads<T, rank_v<X>> grads{empty_like(x), zeros_like(weight)};
  const auto grad_out = detail::rows(grads.x);
  const T* w = weight.data();
  detail::parallel_row_sums(in.count(), features, grads.weight.data(), [&](Index i, T* dweight) {
    detail::rms_norm_backward_row(features, grad_in[i], in[i], w, saved.rstd(i), grad_out[i], dweight);
  });
  return grads;
}

}  // namespace attensor::inline ATTENSOR_ISA
