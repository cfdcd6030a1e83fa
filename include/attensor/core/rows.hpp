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
  explicit Rows(const View<T, Rank>& x) : x_(x), length_(x.extent(Rank - 1)), count_(1) {
    for (std::size_t d = 0; d + 1 < Rank; ++d) count_ *= x.extent(d);
    if constexpr (Rank >= 2) {  // one stride leads through all rows if each dimension ends where the next begins
      is_uniform_ = true;
      for (std::size_t d = 0; d + 2 < Rank; ++d) {
        is_uniform_ = is_uniform_ && (x.extent(d) == 1 || x.stride(d) == x.stride(d + 1) * x.extent(d + 1));
      }
    }
  }

  Index count() const { return count_; }
  Index length() const { return length_; }
  /// Whether rows lie at multiples of row_stride(), so that all of them are one matrix.
  bool is_uniform() const { return is_uniform_; }
  Index row_stride() const {
    if constexpr (Rank >= 2) {
      return x_.stride(Rank - 2);
    } else {
      return length_;
    }
  }

  T* operator[](Index row) const {
    if (is_uniform_) return x_.data() + row * row_stride();
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
  Index count_;
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
