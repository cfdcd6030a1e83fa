#pragma once
/// \file
/// Making tensors: zeros, ones, full, empty, normal, uniform, and copies in another type.

#include "attensor/core/random.hpp"
#include "attensor/core/rows.hpp"
#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Elements without values, to be written before they are read.
template <Element T, std::size_t Rank>
Tensor<T, Rank> empty(const Shape<Rank>& shape) {
  return Tensor<T, Rank>::uninitialized(shape);
}
template <Element T, std::size_t Rank>
Tensor<T, Rank> full(const Shape<Rank>& shape, std::type_identity_t<T> value) {
  auto x = empty<T>(shape);
  std::fill_n(x.data(), x.size(), value);
  return x;
}
template <Element T, std::size_t Rank>
Tensor<T, Rank> zeros(const Shape<Rank>& shape) {
  return Tensor<T, Rank>(shape);
}
template <Element T, std::size_t Rank>
Tensor<T, Rank> ones(const Shape<Rank>& shape) {
  return full<T>(shape, T(1));
}

// The same with the extents in braces: zeros<float>({2, 3}).
template <Element T, std::size_t Rank>
Tensor<T, Rank> empty(const Index (&extents)[Rank]) {
  return empty<T>(Shape<Rank>{std::to_array(extents)});
}
template <Element T, std::size_t Rank>
Tensor<T, Rank> full(const Index (&extents)[Rank], std::type_identity_t<T> value) {
  return full<T>(Shape<Rank>{std::to_array(extents)}, value);
}
template <Element T, std::size_t Rank>
Tensor<T, Rank> zeros(const Index (&extents)[Rank]) {
  return zeros<T>(Shape<Rank>{std::to_array(extents)});
}
template <Element T, std::size_t Rank>
Tensor<T, Rank> ones(const Index (&extents)[Rank]) {
  return ones<T>(Shape<Rank>{std::to_array(extents)});
}

template <TensorLike X>
Tensor<scalar_t<X>, rank_v<X>> empty_like(const X& x) {
  return empty<scalar_t<X>>(x.shape());
}
template <TensorLike X>
Tensor<scalar_t<X>, rank_v<X>> zeros_like(const X& x) {
  return zeros<scalar_t<X>>(x.shape());
}
template <TensorLike X>
Tensor<scalar_t<X>, rank_v<X>> ones_like(const X& x) {
  return ones<scalar_t<X>>(x.shape());
}

struct NormalOptions {
  double mean = 0;
  double stddev = 1;
};
/// Independent normal numbers, drawn in double and rounded to T: float and double tensors of one seed agree.
template <Scalar T, std::size_t Rank>
Tensor<T, Rank> normal(const Shape<Rank>& shape, Rng& rng, const NormalOptions& options = {}) {
  auto x = empty<T>(shape);
  for (Index i = 0; i < x.size(); ++i)
    x.data()[i] = static_cast<T>(std::fma(rng.normal(), options.stddev, options.mean));
  return x;
}
template <Scalar T, std::size_t Rank>
Tensor<T, Rank> normal(const Index (&extents)[Rank], Rng& rng, const NormalOptions& options = {}) {
  return normal<T>(Shape<Rank>{std::to_array(extents)}, rng, options);
}

struct UniformOptions {
  double low = 0;   ///< included
  double high = 1;  ///< excluded, but for rounding to float
};
/// Independent numbers, uniform in [low, high).
template <Scalar T, std::size_t Rank>
Tensor<T, Rank> uniform(const Shape<Rank>& shape, Rng& rng, const UniformOptions& options = {}) {
  auto x = empty<T>(shape);
  for (Index i = 0; i < x.size(); ++i) {
    x.data()[i] = static_cast<T>(std::fma(rng.uniform(), options.high - options.low, options.low));
  }
  return x;
}
template <Scalar T, std::size_t Rank>
Tensor<T, Rank> uniform(const Index (&extents)[Rank], Rng& rng, const UniformOptions& options = {}) {
  return uniform<T>(Shape<Rank>{std::to_array(extents)}, rng, options);
}

/// A contiguous copy with every element converted to T: the explicit way from float to double and back.
template <Element T, TensorLike X>
Tensor<T, rank_v<X>> to(const X& x) {
  auto y = empty<T>(x.shape());
  T* next = y.data();
  detail::for_each_row(read(x), [&](const scalar_t<X>* row, Index length) {
    for (Index i = 0; i < length; ++i) *next++ = static_cast<T>(row[i]);
  });
  return y;
}

/// A contiguous copy.
template <TensorLike X>
Tensor<scalar_t<X>, rank_v<X>> contiguous(const X& x) {
  return to<scalar_t<X>>(x);
}

}  // namespace attensor::inline ATTENSOR_ISA
