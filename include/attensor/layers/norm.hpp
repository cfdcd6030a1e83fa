#pragma once
/// \file
/// The layer-normalisation layer. Formulas: ops/layer_norm.hpp.

#include "attensor/layers/parameter.hpp"
#include "attensor/ops/layer_norm.hpp"
#include "attensor/ops/linear.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Parameters: weight [D], ones at first, and bias [D], zeros at first.
template <Scalar T>
struct LayerNorm {
  Parameter<T, 1> weight, bias;
  double eps = 1e-5;

  /// What backward needs: the input, and its moments.
  struct Saved {
    Tensor<T, 2> x;  ///< [rows, D]
    LayerNormSaved<T> moments;
  };

  LayerNorm() = default;
  /// \throws ValueError for a width below 1 or a negative eps
  explicit LayerNorm(Index dim, double epsilon = 1e-5) : eps(epsilon) {
    detail::check_value(dim >= 1, "LayerNorm", "dim", dim, "1 or more");
    detail::check_value(eps >= 0, "LayerNorm", "eps", eps, "0 or more");
    weight.value = ones<T>({dim});
    bias.value = zeros<T>({dim});
  }

  /// The shape of x. \throws ShapeError if the width of x is not D
  template <TensorLike X>
  auto forward(const X& x, Saved* saved = nullptr) const {
    auto y = layer_norm(x, weight.value, bias.value, {.eps = eps}, saved ? &saved->moments : nullptr);
    if (saved) saved->x = contiguous(x).reshape(Shape{detail::rows(read(x)).count(), weight.value.extent(0)});
    return y;
  }

  /// Gradient of the input, in the shape of dy; adds to the parameters' grad. \throws ShapeError if dy does not fit
  /// what was saved
  template <TensorLike DY>
  auto backward(const DY& dy, const Saved& saved) {
    const detail::RowMatrix<T> grad(dy);
    const View<const T, 2> rows(grad.view().data, Shape{grad.view().rows, grad.view().columns},
                                Strides<2>{grad.view().row_stride, 1});
    auto grads = layer_norm_backward(rows, saved.x, weight.value, saved.moments);
    add_gradient(weight, grads.weight);
    add_gradient(bias, grads.bias);
    return std::move(grads.x).reshape(dy.shape());
  }

 private:
  static void add_gradient(Parameter<T, 1>& parameter, const Tensor<T, 1>& gradient) {
    T* to = detail::grad_of(parameter).data();
    for (Index i = 0; i < gradient.size(); ++i) to[i] += gradient(i);
  }
};

template <InstanceOf<LayerNorm> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "weight", self.weight);
  visit(path / "bias", self.bias);
}

}  // namespace attensor::inline ATTENSOR_ISA
