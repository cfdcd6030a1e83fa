#pragma once
/// \file
/// Parameters, their names, and the one visitor that everything which walks through a model is made of.
///
/// A module is any struct for which `visit_parameters(module, visit, path)` exists: it calls `visit(path / "weight",
/// self.weight)` for its own parameters and visit_parameters of its parts, always in the same order. Names are
/// PyTorch's, so a state dict loads as it is.

#include <string>
#include <string_view>

#include "attensor/core/creation.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// What an optimizer changes. `grad` is empty until a backward pass adds to it.
template <Scalar T, std::size_t Rank>
struct Parameter {
  Tensor<T, Rank> value;
  Tensor<T, Rank> grad;
};

/// The name of a parameter on the way down from the root: "layers.0.linear1.weight" once it is asked for, nothing from
/// the heap until then. Lives on the stack of the visitor; keep str(), not the path.
class ParameterPath {
 public:
  ParameterPath() = default;

  ParameterPath operator/(std::string_view name) const { return ParameterPath(this, name, -1); }
  ParameterPath operator/(Index number) const { return ParameterPath(this, {}, number); }

  std::string str() const {
    const std::string own = number_ >= 0 ? std::to_string(number_) : std::string(name_);
    if (!parent_ || parent_->is_root()) return own;
    return parent_->str() + '.' + own;
  }

 private:
  ParameterPath(const ParameterPath* parent, std::string_view name, Index number)
      : parent_(parent), name_(name), number_(number) {}
  bool is_root() const { return parent_ == nullptr; }

  const ParameterPath* parent_ = nullptr;
  std::string_view name_;
  Index number_ = -1;
};

/// X is Module<T> for some T, const or not. Lets one visitor serve modules to read and modules to change.
template <class X, template <Scalar> class Module>
concept InstanceOf = requires(std::remove_const_t<X>& x) { []<Scalar T>(Module<T>&) {}(x); };

/// Sets all gradients to zero; those that are empty stay empty. Backward passes add, so call it before each step.
template <class Module>
void zero_grad(Module& module) {
  visit_parameters(module, [](const ParameterPath&, auto& parameter) {
    std::fill_n(parameter.grad.data(), parameter.grad.size(), scalar_t<decltype(parameter.grad)>(0));
  });
}

/// The number of numbers that training changes.
template <class Module>
Index count_parameters(const Module& module) {
  Index count = 0;
  visit_parameters(module, [&](const ParameterPath&, const auto& parameter) { count += parameter.value.size(); });
  return count;
}

namespace detail {

/// The gradient to add to: zeros the first time.
template <Scalar T, std::size_t Rank>
Tensor<T, Rank>& grad_of(Parameter<T, Rank>& parameter) {
  if (parameter.grad.shape() != parameter.value.shape()) parameter.grad = zeros_like(parameter.value);
  return parameter.grad;
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
