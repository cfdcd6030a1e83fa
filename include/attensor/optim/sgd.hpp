#pragma once
/// \file
/// Stochastic gradient descent with momentum. For each parameter p with gradient g:
///
///     g = g + weight_decay * p
///     m = momentum * m + g                     m = 0 before the first step
///     p = p - learning_rate * m                or, by Nesterov: p - learning_rate * (g + momentum * m)
///
/// Source: Sutskever, Martens, Dahl and Hinton, On the Importance of Initialization and Momentum in Deep Learning
/// (2013), in the form that torch.optim.SGD gives it (there the learning rate is outside of the momentum).

#include <vector>

#include "attensor/core/check.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"
#include "attensor/layers/parameter.hpp"
#include "attensor/optim/gradients.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;  ///< L2: added to the gradient
  bool nesterov = false;    ///< needs a momentum
};

/// What one parameter remembers from step to step.
template <Scalar T>
struct SgdMoments {
  Tensor<T, 1> momentum;  ///< one for each element; empty before the first step, and for a momentum of 0
};

/// visit(name, value) for each; the names are those of PyTorch's optimizer state.
template <class Moments, class Visit>
  requires InstanceOf<Moments, SgdMoments>
void visit_moments(Moments& self, Visit&& visit) {
  visit("momentum_buffer", self.momentum);
}

namespace detail {

inline void check_options(const SgdOptions& options) {
  check_not_negative("Sgd", "learning_rate", options.learning_rate);
  check_not_negative("Sgd", "momentum", options.momentum);
  check_not_negative("Sgd", "weight_decay", options.weight_decay);
  if (options.nesterov && options.momentum == 0)
    check_value(false, "Sgd", "nesterov", "true", "a momentum above 0 with it");
}

/// One pass over n elements; changes value, and m unless it is null.
template <Scalar T>
void sgd_row(Index n, const T* grad, const SgdOptions& options, T* value, T* m) {
  using P = Packet<T>;
  const P decay(static_cast<T>(options.weight_decay)), step(static_cast<T>(-options.learning_rate));
  const P momentum(static_cast<T>(options.momentum));
  for_row<T>(n, [&](auto at) {
    const P p = at.load(value);
    P g = fma(decay, p, at.load(grad));
    if (m) {
      const P moved = fma(momentum, at.load(m), g);
      at.store(m, moved);
      g = options.nesterov ? fma(momentum, moved, g) : moved;
    }
    at.store(value, fma(step, g, p));
  });
}

}  // namespace detail

/// One step of one parameter: changes value and moments, which are made at the first step.
/// \throws ShapeError if grad has not the shape of value, or moments belong to a parameter of another size
template <Scalar T, std::size_t Rank>
void sgd_update(Tensor<T, Rank>& value, const Tensor<T, Rank>& grad, SgdMoments<T>& moments,
                const SgdOptions& options) {
  detail::check_options(options);
  detail::check_same_shape("sgd_update", "grad", grad, "value", value);
  const Index count = value.size();
  const bool remembers = options.momentum != 0;
  if (remembers) {
    if (moments.momentum.empty()) moments.momentum = zeros<T>({count});
    detail::check_extent("sgd_update", "moments", moments.momentum, 0, count, "the size of value", value);
  }
  T* m = remembers ? moments.momentum.data() : nullptr;
  parallel_chunks(count, detail::grain_for(1), [&](Index begin, Index end) {
    detail::sgd_row<T>(end - begin, grad.data() + begin, options, value.data() + begin, m ? m + begin : nullptr);
  });
}

/// The optimizer: a plain value, so that a copy is a snapshot. A parameter without a gradient is left as it is, moments
/// too. Bits do not depend on the number of threads, and steps after the first take nothing from the heap.
///
///     Sgd<float> optimizer({.learning_rate = 0.1, .momentum = 0.9});
///     zero_grad(model);  ...  optimizer.step(model);
template <Scalar T>
class Sgd {
 public:
  explicit Sgd(const SgdOptions& wanted = {}) : options(wanted) { detail::check_options(options); }

  /// Changes the parameters, each by its gradient. Always the same module, or one of the same parameters.
  /// \throws ShapeError if a parameter has another size than in the steps before
  template <class Module>
  void step(Module& module) {
    detail::for_each_gradient(module, moments, [&](auto& parameter, SgdMoments<T>& own) {
      sgd_update(parameter.value, parameter.grad, own, options);
    });
  }

  SgdOptions options;                  ///< may be changed between steps
  std::vector<SgdMoments<T>> moments;  ///< in the order of visit_parameters
};

}  // namespace attensor::inline ATTENSOR_ISA
