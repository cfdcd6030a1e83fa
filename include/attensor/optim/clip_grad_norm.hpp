#pragma once
/// \file
/// Limits the length of the gradient of a whole model. With n the root of the sum of squares of all elements:
///
///     g = g * min(1, max_norm / (n + 1e-6))
///
/// Source: Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks (2013), section 3.2,
/// with torch.nn.utils.clip_grad_norm_'s 1e-6.

#include <cmath>

#include "attensor/core/check.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"
#include "attensor/layers/parameter.hpp"
#include "attensor/optim/gradients.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct ClipGradNormOptions {
  double max_norm = 1;
  bool error_if_nonfinite = false;  ///< throw where the norm is NaN or infinite
};

namespace detail {

/// The sum of squares of n elements, in lanes of T; in double where T has no room for it.
template <Scalar T>
double sum_of_squares(Index n, const T* x) {
  const auto fast = static_cast<double>(sum_row<T>(n, [&](auto at) {
    const Packet<T> element = at.load(x);
    return element * element;
  }));
  if (std::isfinite(fast)) return fast;
  double sum = 0;
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

/// In chunks of a fixed length, whose sums are added in order.
template <Scalar T>
double parallel_sum_of_squares(Index count, const T* x) {
  const Index grain = grain_for(1);
  if (count <= grain) return sum_of_squares(count, x);
  const Scratch<double> sums((count + grain - 1) / grain);
  parallel_chunks(count, grain,
                  [&](Index begin, Index end) { sums[begin / grain] = sum_of_squares(end - begin, x + begin); });
  double sum = 0;
  for (Index chunk = 0; chunk * grain < count; ++chunk) sum += sums[chunk];
  return sum;
}

}  // namespace detail

/// The root of the sum of squares of all gradients; those that are empty count as zeros.
template <class Module>
double grad_norm(const Module& module) {
  double sum = 0;
  visit_parameters(module, [&](const ParameterPath&, const auto& parameter) {
    sum += detail::parallel_sum_of_squares(parameter.grad.size(), parameter.grad.data());
  });
  return std::sqrt(sum);
}

/// Shortens the gradients so that their common norm is at most max_norm, and returns the norm that they had.
///
/// Where that norm is NaN or infinite no factor makes sense, so the gradients stay as they are (PyTorch would turn all
/// of them into NaN or zero); ask std::isfinite of the result to leave such a step out. Bits do not depend on the
/// number of threads. \throws ValueError if max_norm is negative, or for such a norm with error_if_nonfinite
template <class Module>
double clip_grad_norm(Module& module, const ClipGradNormOptions& options = {}) {
  detail::check_not_negative("clip_grad_norm", "max_norm", options.max_norm);
  const double norm = grad_norm(module);
  if (!std::isfinite(norm)) {
    if (options.error_if_nonfinite) {
      detail::check_value(false, "clip_grad_norm", "the norm of the gradients", norm, "a finite number");
    }
    return norm;
  }
  const double factor = options.max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  visit_parameters(module, [&](const ParameterPath&, auto& parameter) {
    using T = scalar_t<decltype(parameter.grad)>;
    const detail::Packet<T> shorter(static_cast<T>(factor));
    parallel_chunks(parameter.grad.size(), detail::grain_for(1), [&](Index begin, Index end) {
      T* grad = parameter.grad.data() + begin;
      detail::for_row<T>(end - begin, [&](auto at) { at.store(grad, at.load(grad) * shorter); });
    });
  });
  return norm;
}

}  // namespace attensor::inline ATTENSOR_ISA
