#pragma once
/// \file
/// Hand-written gradients against complex steps: for analytic f and h = 1e-100,
///
///     d sum(f(x) * dy) / dx_i = imag(sum(f(x + i h e_i) * dy)) / h
///
/// Nothing is subtracted, so all digits hold: gradients agree to 1e-11, not to the 1e-6 of differences.
/// Source: Squire and Trapp, Using Complex Variables to Estimate Derivatives of Real Functions (1998).

#include <complex>
#include <tuple>

#include "attensor/core/creation.hpp"
#include "support/near.hpp"

namespace attensor::inline ATTENSOR_ISA {

using Complex = std::complex<double>;

/// forward(inputs...) takes complex tensors and returns one; backward(dy, inputs...) takes real ones and returns the
/// gradients of all of them as a tuple (or the one tensor).
template <class Forward, class Backward, class... Inputs>
void check_complex_step(Forward&& forward, Backward&& backward, Rng& rng, const Inputs&... inputs) {
  constexpr double step = 1e-100, tolerance = 1e-11;
  std::tuple variables{to<Complex>(inputs)...};
  const auto apply = [&] { return std::apply([&](const auto&... x) { return forward(x...); }, variables); };
  const auto dy = normal<double>(apply().shape(), rng);
  auto grads = backward(dy, inputs...);
  const auto check = [&](std::size_t number, auto& x, const auto& grad) {
    auto steps = zeros<double>(x.shape());
    for (Index i = 0; i < x.size(); ++i) {
      const Complex before = x.data()[i];
      x.data()[i] += Complex(0, step);
      const auto y = apply();
      x.data()[i] = before;
      for (Index j = 0; j < y.size(); ++j) steps.data()[i] += y.data()[j].imag() * dy.data()[j] / step;
    }
    INFO("the gradient of input ", number);
    CHECK_NEAR(grad, steps, tolerance);
  };
  if constexpr (TensorLike<decltype(grads)>) {
    check(0, std::get<0>(variables), grads);
  } else {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (check(I, std::get<I>(variables), std::get<I>(grads)), ...);
    }(std::make_index_sequence<sizeof...(Inputs)>{});
  }
}

}  // namespace attensor::inline ATTENSOR_ISA
