#pragma once
/// \file Cross-entropy of logits against class ids, and its derivative. With p = softmax(x) of a row of C logits,
/// target t and label smoothing s:
///
///     loss(row) = -(1 - s) log p[t] - s / C * sum(log p)               loss = mean over the rows that are not ignored
///     dx        = (p - (1 - s) onehot(t) - s / C) / rows not ignored
///
/// Source: Szegedy et al., Rethinking the Inception Architecture (2016), section 7, for the smoothing.

#include "attensor/ops/softmax.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< targets of this value take no part
  double label_smoothing = 0;        ///< in [0, 1]
};

namespace detail {

/// Checks all targets before anything is read, and counts those that take part.
template <TensorLike<2> X, TensorLike<1> Targets>
Index check_targets(const char* function, const X& logits, const Targets& targets, const CrossEntropyOptions& options) {
  static_assert(std::same_as<scalar_t<Targets>, std::int64_t>, "attensor: targets are std::int64_t");
  check_extent(function, "targets", targets, 0, logits.shape()[0], "the rows of logits", logits);
  check_value(options.label_smoothing >= 0 && options.label_smoothing <= 1, function, "label_smoothing",
              options.label_smoothing, "a weight in [0, 1]");
  const Index classes = logits.shape()[1];
  Index counted = 0;
  for (Index i = 0; i < targets.shape()[0]; ++i) {
    const std::int64_t target = targets(i);
    if (target == options.ignore_index) continue;
    if (target < 0 || target >= classes) [[unlikely]] {
      throw_error<ValueError>({function, ": targets ", shape_text(targets.shape()), " has ", std::to_string(target),
                               " at [", std::to_string(i), "]; expected a class id in [0, ", std::to_string(classes),
                               "), the columns of logits, or ignore_index ", std::to_string(options.ignore_index)});
    }
    ++counted;
  }
  return counted;
}

template <Scalar T>
double cross_entropy_row(Index n, const T* x, Index target, double smoothing) {
  const T pivot = softmax_pivot(n, x);
  const T total = sum_row<T>(n, [&](auto at) { return exp(at.load(x) - Packet<T>(pivot)); });
  const double logsumexp = static_cast<double>(pivot) + std::log(static_cast<double>(total));
  double loss = (1 - smoothing) * (logsumexp - static_cast<double>(x[target]));
  if (smoothing > 0) {
    double sum_logits = 0;
    for (Index j = 0; j < n; ++j) sum_logits += static_cast<double>(x[j]);
    loss += smoothing * (logsumexp - sum_logits / static_cast<double>(n));
  }
  return loss;
}

}  // namespace detail

/// The mean loss over the targets that are not ignored; 0 if all are.
///
/// \param logits   [N, C]
/// \param targets  [N], std::int64_t class ids
/// \throws ShapeError if the extents do not fit; ValueError for a target that is no class id, naming it and its
/// position
template <TensorLike<2> X, TensorLike<1> Targets>
  requires Scalar<scalar_t<X>>
scalar_t<X> cross_entropy(const X& logits, const Targets& targets, const CrossEntropyOptions& options = {}) {
  const Index counted = detail::check_targets("cross_entropy", logits, targets, options);
  if (counted == 0) return 0;
  const auto in = detail::rows(read(logits));
  double total = 0;
  for (Index i = 0; i < in.count(); ++i) {
    if (targets(i) != options.ignore_index) {
      total += detail::cross_entropy_row(in.length(), in[i], targets(i), options.label_smoothing);
    }
  }
  return static_cast<scalar_t<X>>(total / static_cast<double>(counted));
}

/// The derivative of cross_entropy(logits, targets, options) with respect to logits; fresh. Rows that are ignored get
/// zeros.
/// \throws as cross_entropy
template <TensorLike<2> X, TensorLike<1> Targets>
  requires Scalar<scalar_t<X>>
auto cross_entropy_backward(const X& logits, const Targets& targets, const CrossEntropyOptions& options = {}) {
  using T = scalar_t<X>;
  const Index counted = detail::check_targets("cross_entropy_backward", logits, targets, options);
  auto dx = zeros_like(logits);
  if (counted == 0) return dx;
  const auto in = detail::rows(read(logits));
  const auto out = detail::rows(dx);
  const T scale = static_cast<T>(1.0 / static_cast<double>(counted));
  const T spread = static_cast<T>(options.label_smoothing / static_cast<double>(in.length()));
  parallel_for(in.count(), detail::grain_for(4 * in.length()), [&](Index i) {
    const std::int64_t target = targets(i);
    if (target == options.ignore_index) return;
    T* row = out[i];
    detail::softmax_row(in.length(), in[i], row);
    row[target] -= static_cast<T>(1 - options.label_smoothing);
    for (Index j = 0; j < in.length(); ++j) row[j] = (row[j] - spread) * scale;
  });
  return dx;
}

}  // namespace attensor::inline ATTENSOR_ISA
