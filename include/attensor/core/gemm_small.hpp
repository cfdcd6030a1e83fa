#pragma once
/// \file
/// Products too small to be worth packing: straight from the operands, in packets of C's columns.
///
///     C(i, j) = start + sum over l, in order, of A(i, l) B(l, j)
///
/// Each element is the same chain of multiply-adds as in the packed micro-kernel, so the choice between the two changes
/// no bit.

#include "attensor/core/gemm_kernel.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// `Rows` rows of C at one place of its columns; B's rows are contiguous.
template <Index Rows, Scalar T, class Place>
void gemm_small_place(Place at, T* c, Index c_stride, const MatrixView<T>& a, Index row, const T* b, Index b_stride,
                      const GemmStart<T>& start) {
  Packet<T> sum[static_cast<std::size_t>(Rows)];
  for (auto& s : sum) s = Packet<T>(T(0));
  for (Index l = 0; l < a.columns; ++l) {
    const Packet<T> right = at.load(b + l * b_stride);
    for (Index i = 0; i < Rows; ++i) sum[i] = fma(Packet<T>(a(row + i, l)), right, sum[i]);
  }
  const Packet<T> first = start.bias ? at.load(start.bias) : Packet<T>(T(0));
  for (Index i = 0; i < Rows; ++i) {
    T* to = c + (row + i) * c_stride;
    at.store(to, (start.accumulate ? at.load(to) : first) + sum[i]);
  }
}

template <Scalar T>
void gemm_small_block(T* c, Index c_stride, const MatrixView<T>& a, const T* b, Index b_stride, Index columns,
                      const GemmStart<T>& start) {
  Index i = 0;
  for (; i + 8 <= a.rows; i += 8) {
    for_row<T>(columns, [&](auto at) { gemm_small_place<8>(at, c, c_stride, a, i, b, b_stride, start); });
  }
  for (; i + 4 <= a.rows; i += 4) {
    for_row<T>(columns, [&](auto at) { gemm_small_place<4>(at, c, c_stride, a, i, b, b_stride, start); });
  }
  for (; i < a.rows; ++i) {
    for_row<T>(columns, [&](auto at) { gemm_small_place<1>(at, c, c_stride, a, i, b, b_stride, start); });
  }
}

inline constexpr Index gemm_small_turned_size = 256;  // elements of B that may be turned on the stack

/// Whether a product is small enough, as measured: up to here packing costs more than it gives. No bit depends on it.
template <Scalar T>
bool is_small_product(const MatrixView<T>& a, const MatrixView<T>& b) {
  return a.rows <= 64 && b.rows * b.columns <= (b.column_stride == 1 ? 4096 : gemm_small_turned_size);
}

/// C = start + A B for a product with is_small_product.
template <Scalar T>
void gemm_small(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start) {
  alignas(memory_alignment) T turned[static_cast<std::size_t>(gemm_small_turned_size)];
  const T* right = b.data;
  Index right_stride = b.row_stride;
  if (b.column_stride != 1) {
    for (Index j = 0; j < b.columns; ++j) {
      for (Index l = 0; l < b.rows; ++l) turned[l * b.columns + j] = b(l, j);
    }
    right = turned;
    right_stride = b.columns;
  }
  const Index block = gemm_depth_block(b.rows);
  Index l = 0;
  do {  // also once where there is nothing to sum
    gemm_small_block(c, c_stride, a.column_range(l, std::min(block, b.rows - l)), right + l * right_stride,
                     right_stride, b.columns, l == 0 ? start : GemmStart<T>{nullptr, true});
    l += block;
  } while (l < b.rows);
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
