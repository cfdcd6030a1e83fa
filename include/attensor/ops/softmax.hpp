#pragma once
/// \file
/// Softmax and log-softmax of the last dimension, and their derivatives. For one row x, with m = max(x):
///
///     softmax(x)     = y = exp(x - m) / sum(exp(x - m))          dx = y * (dy - sum(y * dy))
///     log_softmax(x) = y = x - m - log(sum(exp(x - m)))          dx = dy - exp(y) * sum(dy)
///
/// A row of -infinity only has nothing to choose from: its softmax is zeros, its log-softmax -infinity. A NaN stays in
/// its row. Source: Vaswani et al., Attention Is All You Need (2017), equation 1.

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// What is subtracted before exp: the maximum, or 0 where it is -infinity, so that no infinity meets its negative.
template <Number T>
T softmax_pivot(Index n, const T* x) {
  const T largest = max_row<T>(n, [&](auto at) { return at.load(x); });
  return real_part(largest) == -std::numeric_limits<double>::infinity() ? T(0) : largest;
}

/// y may be x. Returns pivot and sum: the log-sum-exp is pivot + log(sum).
template <Number T>
std::pair<T, T> softmax_row(Index n, const T* x, T* y) {
  using P = Packet<T>;
  const T pivot = softmax_pivot(n, x);
  if (P::lanes > 1 &&
      n <= P::lanes) {  // the same in one go, without a way through memory (a single lane has no partial place)
    const PartialPlace<T> all{0, n};
    const P e = all.fill(exp(all.load(x) - P(pivot)), T(0));
    const T total = sum(e);
    all.store(y, e * P(total == T(0) ? T(0) : T(1) / total));
    return {pivot, total};
  }
  const T total = sum_row<T>(n, [&](auto at) {
    const P e = exp(at.load(x) - P(pivot));
    at.store(y, e);
    return e;
  });
  const P inverse(total == T(0) ? T(0) : T(1) / total);
  for_row<T>(n, [&](auto at) { at.store(y, at.load(y) * inverse); });
  return {pivot, total};
}

/// dx may be dy.
template <Number T>
void softmax_backward_row(Index n, const T* dy, const T* y, T* dx) {
  using P = Packet<T>;
  const P mean(sum_row<T>(n, [&](auto at) { return at.load(dy) * at.load(y); }));
  for_row<T>(n, [&](auto at) { at.store(dx, at.load(y) * (at.load(dy) - mean)); });
}

template <Number T>
void log_softmax_row(Index n, const T* x, T* y) {
  using P = Packet<T>;
  const T pivot = softmax_pivot(n, x);
  const T total = sum_row<T>(n, [&](auto at) { return exp(at.load(x) - P(pivot)); });
  const P largest(pivot), log_total(total == T(0) ? T(0) : std::log(total));
  for_row<T>(
      n, [&](auto at) { at.store(y, (at.load(x) - largest) - log_total); });  // their sum would lose the log's digits
}

template <Number T>
void log_softmax_backward_row(Index n, const T* dy, const T* y, T* dx) {
  using P = Packet<T>;
  const P total(sum_row<T>(n, [&](auto at) { return at.load(dy); }));
  for_row<T>(n, [&](auto at) { at.store(dx, at.load(dy) - exp(at.load(y)) * total); });
}

template <TensorLike X, class Kernel>
auto map_rows(const X& x, Kernel&& kernel) {
  auto y = empty_like(x);
  const auto in = rows(read(x));
  const auto out = rows(y);
  parallel_for(in.count(), grain_for(4 * in.length()), [&](Index row) { kernel(in.length(), in[row], out[row]); });
  return y;
}

template <TensorLike DY, TensorLike Y, class Kernel>
auto map_rows_backward(const char* function, const DY& dy, const Y& y, Kernel&& kernel) {
  require_same_scalar<DY, Y>();
  check_same_shape(function, "dy", dy, "y", y);
  auto dx = empty_like(y);
  const auto out = rows(read(y)), grad_in = rows(read(dy));
  const auto grad_out = rows(dx);
  parallel_for(out.count(), grain_for(4 * out.length()),
               [&](Index row) { kernel(out.length(), grad_in[row], out[row], grad_out[row]); });
  return dx;
}

}  // namespace detail

/// softmax of each row of x [..., N]; the shape of x. Linear in the size.
template <TensorLike X>
  requires Number<scalar_t<X>>
auto softmax(const X& x) {
  return detail::map_rows(x, [](Index n, const auto* in, auto* out) { detail::softmax_row(n, in, out); });
}

/// The derivative of sum(softmax(x) * dy) with respect to x, from y = softmax(x); fresh.
/// \throws ShapeError if dy and y differ in shape
template <TensorLike DY, TensorLike Y>
auto softmax_backward(const DY& dy, const Y& y) {
  return detail::map_rows_backward("softmax_backward", dy, y, [](Index n, const auto* d, const auto* out, auto* dx) {
    detail::softmax_backward_row(n, d, out, dx);
  });
}

/// log(softmax) of each row of x [..., N], without the loss of digits of the two in turn.
template <TensorLike X>
  requires Number<scalar_t<X>>
auto log_softmax(const X& x) {
  return detail::map_rows(x, [](Index n, const auto* in, auto* out) { detail::log_softmax_row(n, in, out); });
}

/// The derivative of sum(log_softmax(x) * dy) with respect to x, from y = log_softmax(x); fresh.
/// \throws ShapeError if dy and y differ in shape
template <TensorLike DY, TensorLike Y>
auto log_softmax_backward(const DY& dy, const Y& y) {
  return detail::map_rows_backward(
      "log_softmax_backward", dy, y,
      [](Index n, const auto* d, const auto* out, auto* dx) { detail::log_softmax_backward_row(n, d, out, dx); });
}

}  // namespace attensor::inline ATTENSOR_ISA
