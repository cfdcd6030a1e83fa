#pragma once
/// \file
/// Adam and AdamW. For each parameter p with gradient g, at its step t = 1, 2, ...:
///
///     Adam:  g = g + weight_decay * p                         AdamW:  p = (1 - learning_rate * weight_decay) * p
///     m = beta1 * m + (1 - beta1) * g                         m = v = 0 before the first step
///     v = beta2 * v + (1 - beta2) * g^2
///     p = p - learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
///
/// So eps is added after the bias correction. An element whose gradients were all zero does not move (with eps above
/// 0).
///
/// Sources: Kingma and Ba, Adam: A Method for Stochastic Optimization (2015), algorithm 1; Loshchilov and Hutter,
/// Decoupled Weight Decay Regularization (2019), algorithm 2. The update is that of torch.optim.Adam and AdamW.

#include <cmath>
#include <vector>

#include "attensor/core/check.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"
#include "attensor/layers/parameter.hpp"
#include "attensor/optim/gradients.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;            ///< of the first moment; 0 <= beta1 < 1
  double beta2 = 0.999;          ///< of the second moment; 0 <= beta2 < 1
  double eps = 1e-8;             ///< added to the root
  double weight_decay = 0;       ///< coupled: added to the gradient. Decoupled: taken off the parameter
  bool decoupled_decay = false;  ///< true is AdamW
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// What one parameter remembers from step to step.
template <Scalar T>
struct AdamMoments {
  Tensor<T, 1> first;   ///< m, one for each element; empty before the first step
  Tensor<T, 1> second;  ///< v
  Index steps = 0;      ///< t, counted for each parameter, since one without a gradient does not step
};

/// visit(name, value) for each; the names are those of PyTorch's optimizer state.
template <class Moments, class Visit>
  requires InstanceOf<Moments, AdamMoments>
void visit_moments(Moments& self, Visit&& visit) {
  visit("exp_avg", self.first);
  visit("exp_avg_sq", self.second);
  visit("step", self.steps);
}

namespace detail {

inline void check_options(const AdamOptions& options) {
  check_not_negative("Adam", "learning_rate", options.learning_rate);
  check_decay_rate("Adam", "beta1", options.beta1);
  check_decay_rate("Adam", "beta2", options.beta2);
  check_not_negative("Adam", "eps", options.eps);
  check_not_negative("Adam", "weight_decay", options.weight_decay);
}

/// The factors of one step, worked out in double.
template <Scalar T>
struct AdamFactors {
  T keep;          ///< what decoupled decay leaves of p
  T decay;         ///< how much of p is added to g
  T take1;         ///< 1 - beta1
  T beta2, take2;  ///< beta2, 1 - beta2
  T step;          ///< -learning_rate / (1 - beta1^t)
  T root;          ///< 1 / sqrt(1 - beta2^t)
  T eps;

  AdamFactors(const AdamOptions& options, Index t)
      : keep(static_cast<T>(options.decoupled_decay ? 1 - options.learning_rate * options.weight_decay : 1)),
        decay(static_cast<T>(options.decoupled_decay ? 0 : options.weight_decay)),
        take1(static_cast<T>(1 - options.beta1)),
        beta2(static_cast<T>(options.beta2)),
        take2(static_cast<T>(1 - options.beta2)),
        step(static_cast<T>(-options.learning_rate / (1 - std::pow(options.beta1, static_cast<double>(t))))),
        root(static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, static_cast<double>(t))))),
        eps(static_cast<T>(options.eps)) {}
};

/// One pass over n elements; changes value, first and second.
template <Scalar T>
void adam_row(Index n, const T* grad, const AdamFactors<T>& f, T* value, T* first, T* second) {
  using P = Packet<T>;
  const P keep(f.keep), decay(f.decay), take1(f.take1), beta2(f.beta2), take2(f.take2), step(f.step), root(f.root),
      eps(f.eps);
  for_row<T>(n, [&](auto at) {
    const P p = at.load(value);
    const P g = fma(decay, p, at.load(grad));
    const P m = at.load(first);
    const P m_new = fma(take1, g - m, m);
    const P v_new = fma(take2 * g, g, beta2 * at.load(second));
    at.store(first, m_new);
    at.store(second, v_new);
    at.store(value, fma(step, m_new / fma(sqrt(v_new), root, eps), keep * p));
  });
}

}  // namespace detail

/// One step of one parameter: changes value and moments, which are made at the first step.
/// \throws ShapeError if grad has not the shape of value, or moments belong to a parameter of another size
template <Scalar T, std::size_t Rank>
void adam_update(Tensor<T, Rank>& value, const Tensor<T, Rank>& grad, AdamMoments<T>& moments,
                 const AdamOptions& options) {
  detail::check_options(options);
  detail::check_same_shape("adam_update", "grad", grad, "value", value);
  const Index count = value.size();
  if (moments.first.empty()) moments = {zeros<T>({count}), zeros<T>({count}), 0};
  detail::check_extent("adam_update", "moments", moments.first, 0, count, "the size of value", value);
  detail::check_extent("adam_update", "moments", moments.second, 0, count, "the size of value", value);
  const detail::AdamFactors<T> factors(options, ++moments.steps);
  parallel_chunks(count, detail::grain_for(4), [&](Index begin, Index end) {
    detail::adam_row<T>(end - begin, grad.data() + begin, factors, value.data() + begin, moments.first.data() + begin,
                        moments.second.data() + begin);
  });
}

/// The optimizer: a plain value, so that a copy is a snapshot. A parameter without a gradient is left as it is, moments
/// too. Bits do not depend on the number of threads, and steps after the first take nothing from the heap.
///
///     Adam<float> optimizer({.learning_rate = 1e-3});
///     zero_grad(model);  ...  optimizer.step(model);
template <Scalar T>
class Adam {
 public:
  explicit Adam(const AdamOptions& wanted = {}) : options(wanted) { detail::check_options(options); }

  /// Changes the parameters, each by its gradient. Always the same module, or one of the same parameters.
  /// \throws ShapeError if a parameter has another size than in the steps before
  template <class Module>
  void step(Module& module) {
    detail::for_each_gradient(module, moments, [&](auto& parameter, AdamMoments<T>& own) {
      adam_update(parameter.value, parameter.grad, own, options);
    });
  }

  AdamOptions options;                  ///< may be changed between steps
  std::vector<AdamMoments<T>> moments;  ///< in the order of visit_parameters
};

/// Adam with decoupled decay, and PyTorch's default for it.
template <Scalar T>
class AdamW : public Adam<T> {
 public:
  explicit AdamW(const AdamWOptions& wanted = {})
      : Adam<T>({wanted.learning_rate, wanted.beta1, wanted.beta2, wanted.eps, wanted.weight_decay, true}) {}
};

}  // namespace attensor::inline ATTENSOR_ISA
