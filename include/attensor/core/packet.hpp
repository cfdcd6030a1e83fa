#pragma once
/// \file
/// A register of numbers, and the few functions that row kernels are written with.
///
/// Packet<T> is Eigen's widest packet of T with operators, or a single number where Eigen has none
/// (std::complex<double>, a target without vectors, a version of Eigen that is not known). Everything is elementwise
/// and a function of the lane alone, so a number has the same bits in whatever lane and at whatever address it lies.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attensor/core/eigen.hpp"
#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// The order of softmax: by the number itself, or by the real part of a complex one.
template <Number T>
auto real_part(const T& x) {
  return std::real(x);
}

template <Number T>
inline constexpr bool has_packets = false;
template <Scalar T>
inline constexpr bool has_packets<T> = eigen_is_known && Eigen::internal::packet_traits<T>::Vectorizable != 0;

/// The correctly rounded root. (Eigen's is an approximation on some targets, which takes subnormal numbers for zero.)
template <class Register>
Register exact_sqrt(const Register& x) {
  return Eigen::internal::psqrt(x);
}
#ifdef __SSE2__
inline __m128 exact_sqrt(const __m128& x) { return _mm_sqrt_ps(x); }
inline __m128d exact_sqrt(const __m128d& x) { return _mm_sqrt_pd(x); }
#endif
#ifdef __AVX__
inline __m256 exact_sqrt(const __m256& x) { return _mm256_sqrt_ps(x); }
inline __m256d exact_sqrt(const __m256d& x) { return _mm256_sqrt_pd(x); }
#endif
#ifdef __AVX512F__
inline __m512 exact_sqrt(const __m512& x) { return _mm512_sqrt_ps(x); }
inline __m512d exact_sqrt(const __m512d& x) { return _mm512_sqrt_pd(x); }
#endif

/// One number.
template <Number T>
struct Packet {
  using Mask = bool;
  static constexpr Index lanes = 1;

  T value;

  Packet() = default;
  Packet(T x) : value(x) {}

  static Packet load(const T* x) { return *x; }
  void store(T* x) const { *x = value; }
  static Packet load_partial(const T* x, Index) { return *x; }
  void store_partial(T* x, Index) const { *x = value; }
  Packet first_lanes(Index, T) const { return *this; }

  friend Packet operator+(Packet a, Packet b) { return a.value + b.value; }
  friend Packet operator-(Packet a, Packet b) { return a.value - b.value; }
  friend Packet operator*(Packet a, Packet b) { return a.value * b.value; }
  friend Packet operator/(Packet a, Packet b) { return a.value / b.value; }
  friend Packet operator-(Packet a) { return -a.value; }
  friend Mask operator<(Packet a, Packet b) { return real_part(a.value) < real_part(b.value); }
  friend Mask operator==(Packet a, Packet b) { return a.value == b.value; }
  /// a * b + c
  friend Packet fma(Packet a, Packet b, Packet c) {
    if constexpr (Scalar<T>) {
      return std::fma(a.value, b.value, c.value);
    } else {
      return a.value * b.value + c.value;
    }
  }
  friend Packet select(Mask mask, Packet yes, Packet no) { return mask ? yes : no; }
  /// a where b is NaN, and NaN where a is: a running maximum passes over NaN, a bound keeps it.
  friend Packet max(Packet a, Packet b) { return a < b ? b : a; }
  friend Packet min(Packet a, Packet b) { return b < a ? b : a; }
  friend Packet sqrt(Packet a) { return std::sqrt(a.value); }
  friend Packet exp(Packet a) {
    if (real_part(a.value) == -std::numeric_limits<double>::infinity()) return T(0);  // also for a complex -inf
    return std::exp(a.value);
  }
  friend T sum(Packet a) { return a.value; }
  friend T largest(Packet a) { return a.value; }
};

/// A register of Eigen's.
template <Number T>
  requires has_packets<T>
struct Packet<T> {
  using Mask = Packet;
  using Register = typename Eigen::internal::packet_traits<T>::type;
  static constexpr Index lanes = Eigen::internal::unpacket_traits<Register>::size;

  Register value;

  Packet() = default;
  Packet(T x) : value(Eigen::internal::pset1<Register>(x)) {}
  static Packet of(Register r) {
    Packet p;
    p.value = r;
    return p;
  }

  static Packet load(const T* x) { return of(Eigen::internal::ploadu<Register>(x)); }
  void store(T* x) const { Eigen::internal::pstoreu(x, value); }

  /// The first `count` lanes from memory, zeros in the others; and back. Nothing else is touched.
  static Packet load_partial(const T* x, Index count) {
    if constexpr (has_masked_load) {
      return of(Eigen::internal::ploadu<Register>(x, lane_mask(Register{}, count)));
    } else {
      alignas(memory_alignment) T all[static_cast<std::size_t>(lanes)] = {};
      for (Index i = 0; i < count; ++i) all[i] = x[i];
      return load(all);
    }
  }
  void store_partial(T* x, Index count) const {
    if constexpr (has_masked_store) {
      Eigen::internal::pstoreu(x, value, lane_mask(value, count));
    } else {
      alignas(memory_alignment) T all[static_cast<std::size_t>(lanes)];
      store(all);
      for (Index i = 0; i < count; ++i) x[i] = all[i];
    }
  }
  /// This packet in the first `count` lanes, `other` in those behind.
  Packet first_lanes(Index count, T other) const {
    return select(of(Eigen::internal::plset<Register>(T(0))) < Packet(static_cast<T>(count)), *this, Packet(other));
  }

  friend Packet operator+(Packet a, Packet b) { return of(Eigen::internal::padd(a.value, b.value)); }
  friend Packet operator-(Packet a, Packet b) { return of(Eigen::internal::psub(a.value, b.value)); }
  friend Packet operator*(Packet a, Packet b) { return of(Eigen::internal::pmul(a.value, b.value)); }
  friend Packet operator/(Packet a, Packet b) { return of(Eigen::internal::pdiv(a.value, b.value)); }
  friend Packet operator-(Packet a) { return of(Eigen::internal::pnegate(a.value)); }
  friend Mask operator<(Packet a, Packet b) { return of(Eigen::internal::pcmp_lt(a.value, b.value)); }
  friend Mask operator==(Packet a, Packet b) { return of(Eigen::internal::pcmp_eq(a.value, b.value)); }
  friend Packet fma(Packet a, Packet b, Packet c) { return of(Eigen::internal::pmadd(a.value, b.value, c.value)); }
  friend Packet select(Mask mask, Packet yes, Packet no) {
    return of(Eigen::internal::pselect(mask.value, yes.value, no.value));
  }
  friend Packet max(Packet a, Packet b) { return of(Eigen::internal::pmax(a.value, b.value)); }
  friend Packet min(Packet a, Packet b) { return of(Eigen::internal::pmin(a.value, b.value)); }
  friend Packet sqrt(Packet a) { return of(exact_sqrt(a.value)); }
  friend Packet exp(Packet a) { return exp_packet(a); }
  friend T sum(Packet a) { return Eigen::internal::predux(a.value); }
  friend T largest(Packet a) { return Eigen::internal::predux_max(a.value); }

 private:
  static constexpr bool has_masked_load = Eigen::internal::unpacket_traits<Register>::masked_load_available;
  static constexpr bool has_masked_store = Eigen::internal::unpacket_traits<Register>::masked_store_available;

  template <class R>
  static auto lane_mask(const R&, Index count) {
    return static_cast<typename Eigen::internal::unpacket_traits<R>::mask_t>((1u << count) - 1);
  }

  /// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial. Within 2 ulp; 0 for
  /// -inf and below the smallest subnormal, +inf above the largest number, NaN for NaN.
  static Packet exp_packet(Packet x) {
    constexpr bool is_float = std::is_same_v<T, float>;
    constexpr T lowest = is_float ? T(-104) : T(-746);
    constexpr T highest = is_float ? T(89) : T(710);
    constexpr T ln2_high = is_float ? T(0.693359375) : T(0.6931471803691238);  // few digits: n * ln2_high is exact
    constexpr T ln2_low = is_float ? T(-2.12194440e-4) : T(1.9082149292705877e-10);
    constexpr int degree = is_float ? 7 : 13;

    x = min(max(x, Packet(lowest)), Packet(highest));
    const Packet shifter(is_float ? T(0x1.8p23) : T(0x1.8p52));  // adding it rounds to an integer, also without SSE4.1
    const Packet n = fma(x, Packet(T(1.4426950408889634)), shifter) - shifter;
    const Packet r = fma(n, Packet(-ln2_low), fma(n, Packet(-ln2_high), x));

    constexpr auto factorial = [](int k) {
      double product = 1;
      for (int i = 2; i <= k; ++i) product *= i;
      return product;
    };
    Packet p = Packet(static_cast<T>(1 / factorial(degree)));
    for (int k = degree - 1; k >= 0; --k) p = fma(p, r, Packet(static_cast<T>(1 / factorial(k))));
    return scale_by_power_of_two(p, n);
  }

  /// p * 2^n in two exact steps, so that subnormal results and 2^128 come out right.
  static Packet scale_by_power_of_two(Packet p, Packet n) {
    if constexpr (std::is_same_v<T, float>) {
      const auto [low, high] = powers_of_two(n.value);
      return p * of(low) * of(high);
    } else {
      return of(Eigen::internal::pldexp(p.value, n.value));
    }
  }

  /// 2^floor(n / 2) and 2^(n - floor(n / 2)), by their exponent bits.
  template <class R>
  static std::pair<R, R> powers_of_two(const R& n) {
    using namespace Eigen::internal;
    using Integers = typename unpacket_traits<R>::integer_packet;
    const Integers bias = pset1<Integers>(127);
    const Integers exponent = pcast<R, Integers>(n);
    const Integers half = parithmetic_shift_right<1>(exponent);
    return {preinterpret<R>(Integers(plogical_shift_left<23>(padd(half, bias)))),
            preinterpret<R>(Integers(plogical_shift_left<23>(padd(psub(exponent, half), bias))))};
  }
};

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
