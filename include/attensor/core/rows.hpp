#pragma once
/// \file
/// The rows of a tensor of any rank: what ops over the last dimension walk through.

#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// The rows of a tensor: its last dimension, wherever the others lead.
template <class T, std::size_t Rank>
class Rows {
 public:
  explicit Rows(const View<T, Rank>& x) : x_(x), length_(x.extent(Rank - 1)), row_stride_(length_) {
    // One stride leads through all rows if each dimension ends where the next begins; those of extent 1 have no say.
    for (std::size_t d = Rank - 1; d-- > 0;) {
      if (x.extent(d) == 1) continue;
      if (count_ == 1) row_stride_ = x.stride(d);
      is_uniform_ = is_uniform_ && x.stride(d) == row_stride_ * count_;
      count_ *= x.extent(d);
    }
    is_uniform_ = is_uniform_ || count_ == 0;
  }

  Index count() const { return count_; }
  Index length() const { return length_; }
  /// Whether rows lie at multiples of row_stride(), so that all of them are one matrix.
  bool is_uniform() const { return is_uniform_; }
  Index row_stride() const { return row_stride_; }

  T* operator[](Index row) const {
    if (is_uniform_) return x_.data() + row * row_stride_;
    Index offset = 0;
    for (std::size_t d = Rank - 1; d-- > 0;) {
      offset += row % x_.extent(d) * x_.stride(d);
      row /= x_.extent(d);
    }
    return x_.data() + offset;
  }

 private:
  View<T, Rank> x_;
  Index length_;
  Index count_ = 1;
  Index row_stride_;
  bool is_uniform_ = true;
};

template <class T, std::size_t Rank>
Rows<T, Rank> rows(const View<T, Rank>& x) {
  return Rows<T, Rank>(x);
}
template <TensorLike X>
auto rows(X& x) {
  return rows(x.view());
}

/// body(row, length) for each row in order.
template <class T, std::size_t Rank, class Body>
void for_each_row(const View<T, Rank>& x, Body&& body) {
  if constexpr (Rank == 0) {
    body(x.data(), Index{1});
  } else {
    const auto all = rows(x);
    for (Index row = 0; row < all.count(); ++row) body(all[row], all.length());
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
