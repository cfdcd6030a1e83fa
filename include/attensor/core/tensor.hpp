#pragma once
/// \file
/// Tensor owns its elements; together with View it is what functions read, as TensorLike.

#include <initializer_list>
#include <utility>

#include "attensor/core/memory.hpp"
#include "attensor/core/view.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

template <class T, std::size_t Rank>
struct NestedList {
  using type = std::initializer_list<typename NestedList<T, Rank - 1>::type>;
};
template <class T>
struct NestedList<T, 0> {
  using type = T;
};

}  // namespace detail

/// Owns its elements: contiguous, row-major, 64-byte aligned. Copying copies the elements; a tensor that was moved from
/// is empty.
///
///     Tensor<float, 2> x = {{1, 2, 3}, {4, 5, 6}};     // braces hold values
///     Tensor<float, 2> y(Shape{2, 3});                 // a shape is said as a shape: zeros
template <Element T, std::size_t Rank>
class Tensor {
 public:
  using value_type = T;
  static constexpr std::size_t rank = Rank;

  Tensor() = default;
  /// Zeros. \throws ShapeError for a negative extent or an overflow
  explicit Tensor(const Shape<Rank>& shape) : Tensor(uninitialized(shape)) { std::fill_n(data_, size(), T{}); }
  /// Values, nested as deep as the rank. \throws ShapeError where rows differ in length
  Tensor(typename detail::NestedList<T, Rank>::type values)
    requires(Rank > 0)
      : Tensor() {  // delegates, so that what is thrown below leaks nothing
    Shape<Rank> shape{};
    measure<Rank>(values, shape.data());
    *this = uninitialized(shape);
    T* next = data_;
    fill<Rank>(values, shape.data(), next);
  }

  Tensor(const Tensor& other) {
    if (Rank == 0 && other.empty()) return;  // a scalar that has no element yet
    *this = uninitialized(other.shape_);
    std::copy_n(other.data_, size(), data_);
  }
  Tensor(Tensor&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), shape_(std::exchange(other.shape_, {})) {}
  Tensor& operator=(const Tensor& other) {
    if (this == &other) return *this;
    if (shape_ != other.shape_ || empty() != other.empty()) return *this = Tensor(other);
    std::copy_n(other.data_, size(), data_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this == &other) return *this;
    detail::deallocate(data_);
    data_ = std::exchange(other.data_, nullptr);
    shape_ = std::exchange(other.shape_, {});
    return *this;
  }
  ~Tensor() { detail::deallocate(data_); }

  /// Elements without values, to be written before they are read.
  static Tensor uninitialized(const Shape<Rank>& shape) {
    const Index count = checked_count("Tensor", shape, sizeof(T));
    Tensor tensor;
    if (count > 0) {
      tensor.data_ = static_cast<T*>(detail::allocate(static_cast<std::size_t>(count) * sizeof(T)));
    }
    tensor.shape_ = shape;
    return tensor;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  const Shape<Rank>& shape() const { return shape_; }
  Strides<Rank> strides() const { return row_major_strides(shape_); }
  Index extent(std::size_t dim) const {
    assert(dim < Rank);
    return shape_[dim];
  }
  Index size() const {
    if (!data_) return 0;
    Index count = 1;
    for (const Index extent : shape_) count *= extent;
    return count;
  }
  bool empty() const { return data_ == nullptr; }

  View<T, Rank> view() & { return {data_, shape_}; }
  View<const T, Rank> view() const& { return {data_, shape_}; }
  void view() const&& = delete;  // the view would outlive its elements

  template <std::convertible_to<Index>... I>
    requires(sizeof...(I) == Rank)
  T& operator()(I... i) {
    return data_[checked_offset({static_cast<Index>(i)...})];
  }
  template <std::convertible_to<Index>... I>
    requires(sizeof...(I) == Rank)
  const T& operator()(I... i) const {
    return data_[checked_offset({static_cast<Index>(i)...})];
  }

  decltype(auto) operator[](Index i) & { return view()[i]; }
  decltype(auto) operator[](Index i) const& { return view()[i]; }
  /// Of a temporary: a copy, since a view would outlive its elements.
  auto operator[](Index i) const&& {
    const auto inner = view_of_temporary()[i];
    if constexpr (Rank == 1) {
      return inner;
    } else {
      auto copy = Tensor<T, Rank - 1>::uninitialized(inner.shape());
      std::copy_n(inner.data(), copy.size(), copy.data_);
      return copy;
    }
  }

  /// The same elements under another shape: a view of an lvalue, the tensor itself when it is a temporary.
  template <std::size_t NewRank>
  View<T, NewRank> reshape(const Shape<NewRank>& shape) & {
    return view().reshape(shape);
  }
  template <std::size_t NewRank>
  View<const T, NewRank> reshape(const Shape<NewRank>& shape) const& {
    return view().reshape(shape);
  }
  template <std::size_t NewRank>
  Tensor<T, NewRank> reshape(const Shape<NewRank>& shape) && {
    const Tensor& self = *this;
    (void)self.view().reshape(shape);  // checks
    Tensor<T, NewRank> result;
    result.data_ = std::exchange(data_, nullptr);
    result.shape_ = shape;
    shape_ = {};
    return result;
  }

 private:
  template <Element, std::size_t>
  friend class Tensor;

  View<const T, Rank> view_of_temporary() const { return {data_, shape_}; }

  Index checked_offset(const Strides<Rank>& position) const {
    assert(detail::is_inside(shape_, position) && "attensor: index out of range");
    Index offset = 0;
    for (std::size_t d = 0; d < Rank; ++d) offset = offset * shape_[d] + position[d];
    return offset;
  }

  template <std::size_t Depth>
  static void measure(const typename detail::NestedList<T, Depth>::type& values, Index* extents) {
    extents[0] = static_cast<Index>(values.size());
    if constexpr (Depth > 1) {
      if (values.size() > 0) measure<Depth - 1>(*values.begin(), extents + 1);
    }
  }
  template <std::size_t Depth>
  static void fill(const typename detail::NestedList<T, Depth>::type& values, const Index* extents, T*& next) {
    if (static_cast<Index>(values.size()) != extents[0]) [[unlikely]] {
      throw_error<ShapeError>({"Tensor: braces hold rows of ", std::to_string(extents[0]), " and of ",
                               std::to_string(values.size()), " in dim ", std::to_string(Rank - Depth),
                               "; expected the same length"});
    }
    if constexpr (Depth > 1) {
      for (const auto& inner : values) fill<Depth - 1>(inner, extents + 1, next);
    } else {
      next = std::copy(values.begin(), values.end(), next);
    }
  }

  T* data_ = nullptr;
  Shape<Rank> shape_{};
};

namespace detail {

template <class X>
struct TensorTraits {};
template <class T, std::size_t Rank>
struct TensorTraits<Tensor<T, Rank>> {
  using scalar = T;
  static constexpr std::size_t rank = Rank;
};
template <class T, std::size_t Rank>
struct TensorTraits<View<T, Rank>> {
  using scalar = std::remove_const_t<T>;
  static constexpr std::size_t rank = Rank;
};

}  // namespace detail

/// The element type of a Tensor or View.
template <class X>
using scalar_t = typename detail::TensorTraits<std::remove_cvref_t<X>>::scalar;
/// The rank of a Tensor or View.
template <class X>
inline constexpr std::size_t rank_v = detail::TensorTraits<std::remove_cvref_t<X>>::rank;

inline constexpr std::size_t any_rank = static_cast<std::size_t>(-1);

/// A Tensor or View, const or not, of the given rank: what functions read.
template <class X, std::size_t Rank = any_rank>
concept TensorLike = requires { typename scalar_t<X>; } && (Rank == any_rank || rank_v<X> == Rank);

/// What a view may be returned of: a view, or a tensor that lives on. (A temporary's elements would be gone before it.)
template <class X, std::size_t Rank = any_rank>
concept Viewable = TensorLike<X, Rank> && requires(X&& x) { std::forward<X>(x).view(); };

/// Mixing float and double in one call does not compile. `require_same_scalar<A, B>();` is a type and no function, so
/// that its assertion is the first error and not the last.
template <class A, class B>
struct require_same_scalar {
  static_assert(
      std::same_as<scalar_t<A>, scalar_t<B>>,
      "attensor: all tensors of one call have the same scalar type; convert with to<float>(x) or to<double>(x)");
  constexpr require_same_scalar() {}
};

/// What kernels take: a view to read of any tensor.
template <TensorLike X>
View<const scalar_t<X>, rank_v<X>> read(const X& x) {
  return x.view();
}

}  // namespace attensor::inline ATTENSOR_ISA
