#pragma once
/// \file
/// The smallest module with something to walk through.

#include "attensor/layers/parameter.hpp"

namespace attensor::inline ATTENSOR_ISA {

template <Scalar T>
struct TwoParameters {
  Parameter<T, 2> matrix{{{1, 2, 3}, {4, 5, 6}}, {}};
  Parameter<T, 1> vector{{-1, 0.5, 0, 8}, {}};
};

template <class Self, class Visit>
  requires InstanceOf<Self, TwoParameters>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "matrix", self.matrix);
  visit(path / "vector", self.vector);
}

}  // namespace attensor::inline ATTENSOR_ISA
