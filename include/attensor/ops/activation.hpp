#pragma once
/// \file Activation functions and their derivatives, elementwise. With Phi and phi the standard normal distribution and
/// density:
///
///     relu(x)      = max(x, 0)                     relu'(x)      = 1 where x > 0, else 0
///     gelu(x)      = x Phi(x)                      gelu'(x)      = Phi(x) + x phi(x)
///     gelu_tanh(x) = x s(z)                        gelu_tanh'(x) = s(z) + x s'(z) z'
///                    z = 2 sqrt(2 / pi) (x + 0.044715 x^3), which is x (1 + tanh(z / 2)) / 2
///     silu(x)      = x s(x)                        silu'(x)      = s(x) + x s'(x)
///     s(z)         = 1 / (1 + exp(-z))             s'(z)         = exp(-|z|) / (1 + exp(-|z|))^2
///
/// Finite x give finite values and slopes, up to the largest number. Source: Hendrycks and Gimpel, Gaussian Error
/// Linear Units (2016), section 2; Elfwing, Uchibe and Doya, Sigmoid-Weighted Linear Units (2017).

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {

enum class Activation { relu, gelu, gelu_tanh, silu };

enum class GeluForm { exact, tanh };
struct GeluOptions {
  GeluForm form = GeluForm::exact;  ///< exact: by erf, as in BERT; tanh: the approximation of GPT-2
};

namespace detail {

template <Scalar T>
Packet<T> absolute(Packet<T> x) {
  return max(x, -x);
}

/// Phi(-a) for a >= 0 to the last digits, also far out: t exp(-a^2 / 2 + P(2 t - 1)) with t = 1 / (1 + a / 4). P is a
/// Chebyshev fit of log(Phi(-a) / t) + a^2 / 2 over all a, with an error of 2e-8 for float and 2e-16 for double.
template <Scalar T>
Packet<T> normal_tail(Packet<T> a) {
  constexpr auto coefficients = [] {
    if constexpr (std::is_same_v<T, float>) {
      return std::array{8.27982479e-5f, -5.64298688e-5f, -6.08824495e-4f, 6.60599340e-5f,
                        2.72173859e-3f, 2.12488485e-3f,  -9.21254791e-3f, -2.30450181e-2f,
                        8.20253535e-3f, 1.88674776e-1f,  8.04857164e-1f,  -1.66695432f};
    } else {
      return std::array{
          3.35048969458829418e-9,  -6.04523402637799955e-9, -4.22521631820106523e-8, 4.88415931334544131e-8,
          2.92378050928916672e-7,  -1.6165601607060299e-7,  -1.50439177731991733e-6, 2.16064232670995027e-8,
          6.45147711479300171e-6,  3.1827242907701627e-6,   -2.40215938885329941e-5, -2.5341266548518405e-5,
          7.7001166326096228e-5,   1.41985455136135904e-4,  -1.93535546254775568e-4, -6.69562851403217499e-4,
          1.92183048977947357e-4,  2.75185583848580649e-3,  2.06558961787414697e-3,  -9.21944108143769091e-3,
          -2.30318215314144378e-2, 8.20311940125409163e-3,  1.88673672801755839e-1,  8.04857155915765244e-1,
          -1.66695430596734552};
    }
  }();
  using P = Packet<T>;
  const P t = P(T(1)) / fma(a, P(T(0.25)), P(T(1)));
  const P u = fma(P(T(2)), t, P(T(-1)));
  P p(coefficients[0]);
  for (std::size_t k = 1; k < coefficients.size(); ++k) p = fma(p, u, P(coefficients[k]));
  return t * exp(fma(a * P(T(-0.5)), a, p));
}

template <Scalar T>
struct Sigmoid {
  Packet<T> value, slope;

  explicit Sigmoid(Packet<T> z) {
    const Packet<T> one(T(1));
    const Packet<T> e = exp(-absolute(z));
    const Packet<T> inverse = one / (one + e);
    value = select(z < Packet<T>(T(0)), e, one) * inverse;
    slope = e * inverse * inverse;
  }
};

template <Scalar T>
struct Relu {
  using P = Packet<T>;
  static P value(P x) { return max(x, P(T(0))); }
  static P slope(P x) { return select(P(T(0)) < x, P(T(1)), P(T(0))); }
};

template <Scalar T>
struct Gelu {
  using P = Packet<T>;
  static P distribution(P x) {
    const P tail = normal_tail(absolute(x));
    return select(P(T(0)) < x, P(T(1)) - tail, tail);
  }
  static P value(P x) { return x * distribution(x); }
  static P slope(P x) {
    const P density = P(T(0.39894228040143268)) * exp(x * P(T(-0.5)) * x);
    return distribution(x) + x * density;
  }
};

template <Scalar T>
struct GeluTanh {
  using P = Packet<T>;
  static constexpr T scale = T(1.5957691216057308);  // 2 sqrt(2 / pi)
  static constexpr T cubic = T(0.044715);
  /// Beyond this s(z) is 0 or 1 to the last bit, and x^3 would overflow further out.
  static P clamp(P x) { return min(max(x, P(T(-30))), P(T(30))); }
  static P z(P x) { return P(scale) * x * fma(P(cubic) * x, x, P(T(1))); }
  static P value(P x) { return x * Sigmoid<T>(z(clamp(x))).value; }
  static P slope(P x) {
    const P near = clamp(x);
    const Sigmoid<T> s(z(near));
    return fma(near * s.slope, P(scale) * fma(P(3 * cubic) * near, near, P(T(1))), s.value);
  }
};

template <Scalar T>
struct Silu {
  using P = Packet<T>;
  static P value(P x) { return x * Sigmoid<T>(x).value; }
  static P slope(P x) {
    const Sigmoid<T> s(x);
    return fma(x, s.slope, s.value);
  }
};

template <Scalar T, class Function>
auto with_activation(Activation kind, Function&& function) {
  switch (kind) {
    case Activation::gelu:
      return function(Gelu<T>{});
    case Activation::gelu_tanh:
      return function(GeluTanh<T>{});
    case Activation::silu:
      return function(Silu<T>{});
    case Activation::relu:
      break;
  }
  return function(Relu<T>{});
}

inline constexpr Index activation_grain = 8192;

/// y = f(x) over n numbers; y may be x.
template <Scalar T>
void activate(Activation kind, Index n, const T* x, T* y) {
  with_activation<T>(kind, [&](auto f) { for_row<T>(n, [&](auto at) { at.store(y, f.value(at.load(x))); }); });
}

/// dx = f'(x) dy over n numbers; dx may be dy.
template <Scalar T>
void activate_backward(Activation kind, Index n, const T* dy, const T* x, T* dx) {
  with_activation<T>(kind,
                     [&](auto f) { for_row<T>(n, [&](auto at) { at.store(dx, f.slope(at.load(x)) * at.load(dy)); }); });
}

}  // namespace detail

/// The activation of each element. Any shape; linear in the size.
template <TensorLike X>
  requires Scalar<scalar_t<X>>
auto activation(const X& x, Activation kind) {
  auto y = empty_like(x);
  const auto in = detail::rows(read(x));
  const auto out = detail::rows(y);
  parallel_for(in.count(), std::max<Index>(1, detail::activation_grain / std::max<Index>(1, in.length())),
               [&](Index row) { detail::activate(kind, in.length(), in[row], out[row]); });
  return y;
}

/// The derivative of sum(activation(x, kind) * dy) with respect to x; fresh.
/// \throws ShapeError if dy and x differ in shape
template <TensorLike DY, TensorLike X>
  requires Scalar<scalar_t<X>>
auto activation_backward(const DY& dy, const X& x, Activation kind) {
  require_same_scalar<DY, X>();
  detail::check_same_shape("activation_backward", "dy", dy, "x", x);
  auto dx = empty_like(x);
  const auto in = detail::rows(read(x)), grad_in = detail::rows(read(dy));
  const auto grad_out = detail::rows(dx);
  parallel_for(in.count(), std::max<Index>(1, detail::activation_grain / std::max<Index>(1, in.length())),
               [&](Index row) { detail::activate_backward(kind, in.length(), grad_in[row], in[row], grad_out[row]); });
  return dx;
}

template <TensorLike X>
auto relu(const X& x) {
  return activation(x, Activation::relu);
}
template <TensorLike DY, TensorLike X>
auto relu_backward(const DY& dy, const X& x) {
  return activation_backward(dy, x, Activation::relu);
}

template <TensorLike X>
auto gelu(const X& x, const GeluOptions& options = {}) {
  return activation(x, options.form == GeluForm::exact ? Activation::gelu : Activation::gelu_tanh);
}
template <TensorLike DY, TensorLike X>
auto gelu_backward(const DY& dy, const X& x, const GeluOptions& options = {}) {
  return activation_backward(dy, x, options.form == GeluForm::exact ? Activation::gelu : Activation::gelu_tanh);
}

template <TensorLike X>
auto silu(const X& x) {
  return activation(x, Activation::silu);
}
template <TensorLike DY, TensorLike X>
auto silu_backward(const DY& dy, const X& x) {
  return activation_backward(dy, x, Activation::silu);
}

}  // namespace attensor::inline ATTENSOR_ISA
