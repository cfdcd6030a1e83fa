#pragma once
/// \file
/// The dropout layer. Formulas: ops/dropout.hpp.

#include "attensor/layers/parameter.hpp"
#include "attensor/ops/dropout.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// No parameters. Active only where forward gets a generator.
template <Scalar T>
struct Dropout {
  double p = 0;

  /// What backward needs: which mask it was.
  struct Saved {
    DropoutMask mask;
  };

  Dropout() = default;
  /// \throws ValueError unless 0 <= p <= 1
  explicit Dropout(double probability) : p(probability) {
    detail::check_value(p >= 0 && p <= 1, "Dropout", "p", p, "a probability in [0, 1]");
  }

  template <TensorLike X>
  auto forward(const X& x, Rng* rng = nullptr, Saved* saved = nullptr) const {
    const DropoutMask mask(p, rng);
    if (saved) saved->mask = mask;
    return dropout(x, mask);
  }
  template <TensorLike DY>
  auto backward(const DY& dy, const Saved& saved) const {
    return dropout_backward(dy, saved.mask);
  }
};

template <InstanceOf<Dropout> Self, class Visit>
void visit_parameters(Self&, Visit&&, const ParameterPath& = {}) {}

}  // namespace attensor::inline ATTENSOR_ISA
