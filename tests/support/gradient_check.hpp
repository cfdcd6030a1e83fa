#pragma once
/// \file
/// Hand-written gradients against central differences in double.
///
/// For a random dy, the derivative of sum(f(x) * dy) with respect to one number is
///
///     sum((f(x + h) - f(x - h)) * dy) / 2h
///
/// and has to agree with the backward pass: |analytic - numeric| <= 1e-6 + 1e-5 |numeric|. Inputs of more than 64
/// numbers are checked at 64 places drawn at random.

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "attensor/layers/parameter.hpp"
#include "support/random_cases.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// How many configurations this process has checked. Each call of check_gradients or check_layer_gradients is one.
Index gradient_configurations();

namespace detail {

/// Numbers that f depends on, and what the backward pass says of them.
struct GradientVariable {
  std::string name;
  std::vector<Index> shape, grad_shape;
  double* value = nullptr;
  const double* grad = nullptr;
};

template <class Value, class Grad>
GradientVariable gradient_variable(std::string name, Value& value, const Grad& grad) {
  static_assert(rank_v<Value> == rank_v<Grad>, "a gradient has the rank of what it belongs to");
  return {std::move(name),
          {value.shape().begin(), value.shape().end()},
          {grad.shape().begin(), grad.shape().end()},
          value.data(),
          grad.data()};
}

/// Compares all variables; `forward` appends the elements of f at their present values.
void check_by_differences(const std::vector<GradientVariable>& variables, const std::vector<double>& dy,
                          const std::function<void(std::vector<double>& elements)>& forward, Rng& rng);

/// A seed that depends on the numbers, so that a configuration that failed fails again wherever it runs.
std::uint64_t seed_of(const double* values, Index count);

inline void append_elements(std::vector<double>& elements, double y) { elements.push_back(y); }
template <TensorLike Y>
void append_elements(std::vector<double>& elements, const Y& y) {
  const auto z = contiguous(y);
  elements.insert(elements.end(), z.data(), z.data() + z.size());
}

inline double random_like(double, Rng& rng) { return rng.normal(); }
template <TensorLike Y>
auto random_like(const Y& y, Rng& rng) {
  return normal<double>(y.shape(), rng);
}

template <class... Grads>
std::tuple<Grads...> as_tuple(std::tuple<Grads...> grads) {
  return grads;
}
template <TensorLike Grad>
std::tuple<Grad> as_tuple(Grad grad) {
  return {std::move(grad)};
}

/// The inputs as variables named "input 0", "input 1", ...
template <class Inputs, class Grads>
std::vector<GradientVariable> input_variables(Inputs& inputs, const Grads& grads) {
  static_assert(std::tuple_size_v<Inputs> == std::tuple_size_v<Grads>, "backward returns one gradient for each input");
  std::vector<GradientVariable> variables;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (variables.push_back(gradient_variable("input " + std::to_string(I), std::get<I>(inputs), std::get<I>(grads))),
     ...);
  }(std::make_index_sequence<std::tuple_size_v<Inputs>>{});
  return variables;
}

}  // namespace detail

/// forward(inputs...) returns a tensor or a number; backward(dy, inputs...) the gradients of all inputs, as a tuple (or
/// the one tensor).
template <class Forward, class Backward, class... Inputs>
void check_gradients(Forward&& forward, Backward&& backward, Inputs... values) {
  std::tuple<Inputs...> inputs(std::move(values)...);
  const auto apply = [&] { return std::apply([&](const auto&... x) { return forward(x...); }, inputs); };
  Rng rng(std::apply([](const auto&... x) { return (detail::seed_of(x.data(), x.size()) + ...); }, inputs));

  const auto dy = detail::random_like(apply(), rng);
  const auto grads = detail::as_tuple(std::apply([&](const auto&... x) { return backward(dy, x...); }, inputs));
  std::vector<double> weights;
  detail::append_elements(weights, dy);
  detail::check_by_differences(
      detail::input_variables(inputs, grads), weights,
      [&](std::vector<double>& elements) { detail::append_elements(elements, apply()); }, rng);
}

/// The same for a layer and its parameters: forward(layer, inputs...) returns a tensor or a number; backward(layer, dy,
/// inputs...) adds to the parameters' gradients and returns those of the inputs, as a tuple (an empty one for ids).
template <class Layer, class Forward, class Backward, class... Inputs>
void check_layer_gradients(Layer layer, Forward&& forward, Backward&& backward, Inputs... values) {
  std::tuple<Inputs...> inputs(std::move(values)...);
  const auto apply = [&] {
    return std::apply([&](const auto&... x) { return forward(std::as_const(layer), x...); }, inputs);
  };
  std::uint64_t seed = std::apply(
      [](const auto&... x) { return (std::uint64_t{0} + ... + detail::seed_of(x.data(), x.size())); }, inputs);
  visit_parameters(layer, [&](const ParameterPath&, auto& parameter) {
    seed += detail::seed_of(parameter.value.data(), parameter.value.size());
    parameter.grad = {};
  });
  Rng rng(seed);

  const auto dy = detail::random_like(apply(), rng);
  const auto grads = detail::as_tuple(std::apply([&](const auto&... x) { return backward(layer, dy, x...); }, inputs));
  auto variables = detail::input_variables(inputs, grads);
  visit_parameters(layer, [&](const ParameterPath& path, auto& parameter) {
    variables.push_back(detail::gradient_variable(path.str(), parameter.value, parameter.grad));
  });
  std::vector<double> weights;
  detail::append_elements(weights, dy);
  detail::check_by_differences(
      variables, weights, [&](std::vector<double>& elements) { detail::append_elements(elements, apply()); }, rng);
}

}  // namespace attensor::inline ATTENSOR_ISA
