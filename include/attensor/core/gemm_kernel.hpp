#pragma once
/// \file
/// Eigen's packing routines and micro-kernel: the only header that touches the internals of Eigen's product.
///
/// A row-major C[m, n] = A[m, k] B[k, n] is computed as C^T = B^T A^T in Eigen's column-major terms, so that B is the
/// micro-kernel's left side and A its right side. Source: Goto and van de Geijn, Anatomy of High-Performance Matrix
/// Multiplication (2008).
///
/// Eigen's templates are instantiated on types of our own, so their names carry the instruction set. One function is out of
/// reach: Eigen 5's AVX-512 micro-kernel, which takes pointers. Objects that differ within AVX-512 share it, and it uses
/// nothing beyond what all of them have.

#include "attensor/core/packet.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// A matrix to read, in either orientation: one of the strides is 1.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  Index rows = 0, columns = 0;
  Index row_stride = 0, column_stride = 1;

  MatrixView transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  MatrixView row_range(Index begin, Index count) const {
    return {data + begin * row_stride, count, columns, row_stride, column_stride};
  }
  MatrixView column_range(Index begin, Index count) const { return transposed().row_range(begin, count).transposed(); }
  const T& operator()(Index i, Index j) const { return data[i * row_stride + j * column_stride]; }
};

/// What C starts from.
template <class T>
struct GemmStart {
  const T* bias = nullptr;  ///< [n], in every row; none: zeros
  bool accumulate = false;  ///< what C holds already, instead
};

/// Depth is cut into equal blocks of at most this many steps, each a multiple of the micro-kernel's unrolling.
inline constexpr Index gemm_largest_depth = 320;

inline Index gemm_depth_block(Index depth) {
  const Index blocks = std::max<Index>(1, (depth + gemm_largest_depth - 1) / gemm_largest_depth);
  return ((depth + blocks - 1) / blocks + 7) / 8 * 8;
}

/// Eigen's micro-kernel and the packed layouts that it reads.
template <class T>
struct GemmKernel {
  // Types of our own, so that Eigen's templates are instantiated under names that carry the instruction set.
  struct Source : Eigen::internal::const_blas_data_mapper<T, Index, Eigen::ColMajor> {
    using Base = Eigen::internal::const_blas_data_mapper<T, Index, Eigen::ColMajor>;
    using Base::Base;
  };
  struct TransposedSource : Eigen::internal::const_blas_data_mapper<T, Index, Eigen::RowMajor> {
    using Base = Eigen::internal::const_blas_data_mapper<T, Index, Eigen::RowMajor>;
    using Base::Base;
  };
  struct Target : Eigen::internal::blas_data_mapper<T, Index, Eigen::ColMajor, Eigen::Unaligned> {
    using Base = Eigen::internal::blas_data_mapper<T, Index, Eigen::ColMajor, Eigen::Unaligned>;
    using Base::Base;
  };
  using Traits = Eigen::internal::gebp_traits<T, T>;

  static constexpr Index panel = Traits::mr;  ///< columns of C that the micro-kernel computes at once
  static constexpr Index lanes = Traits::LhsProgress;
  static constexpr Index row_group = Traits::nr;
  /// A narrower last panel is padded to a multiple of this, past Eigen's one-packet variant where that sums in two
  /// chains.
  static constexpr Index panel_unit = row_group == 8 && lanes > 4 ? lanes : std::min(2 * lanes, panel);

  static Index padded_columns(Index columns) {
    const Index rest = columns % panel;
    return columns - rest + std::min(panel, (rest + panel_unit - 1) / panel_unit * panel_unit);
  }
  static Index packed_size(Index depth, Index columns) { return depth * padded_columns(columns); }

  /// Packs columns [begin, end) of one depth block of b; begin is a multiple of panel.
  static void pack_columns(T* packed, const MatrixView<T>& b, Index begin, Index end) {
    using namespace Eigen::internal;
    const Index depth = b.rows;
    const Index rest = (end - begin) % panel % panel_unit == 0 ? 0 : (end - begin) % panel;
    const Index whole = end - begin - rest;
    const T* first = &b.data[begin * b.column_stride];
    using Packet = typename Traits::LhsPacket4Packing;
    if (b.column_stride == 1) {
      gemm_pack_lhs<T, Index, Source, Traits::mr, Traits::LhsProgress, Packet, Eigen::ColMajor>()(
          packed, Source(first, b.row_stride), depth, whole);
    } else {
      gemm_pack_lhs<T, Index, TransposedSource, Traits::mr, Traits::LhsProgress, Packet, Eigen::RowMajor>()(
          packed, TransposedSource(first, b.column_stride), depth, whole);
    }
    if (rest == 0) return;
    T* next = packed + whole * depth;
    const Index width = padded_columns(rest);
    for (Index l = 0; l < depth; ++l, next += width) {
      for (Index j = 0; j < rest; ++j) next[j] = b(l, begin + whole + j);
      std::fill(next + rest, next + width, T(0));
    }
  }

  /// Packs the rows of one depth block of a.
  static void pack_rows(T* packed, const MatrixView<T>& a) {
    using namespace Eigen::internal;
    if (a.column_stride == 1) {
      gemm_pack_rhs<T, Index, Source, Traits::nr, Eigen::ColMajor>()(packed, Source(a.data, a.row_stride), a.columns,
                                                                     a.rows);
    } else {
      gemm_pack_rhs<T, Index, TransposedSource, Traits::nr, Eigen::RowMajor>()(
          packed, TransposedSource(a.data, a.column_stride), a.columns, a.rows);
    }
  }

  /// C += A B for packed rows and packed columns of one depth block.
  static void multiply(T* c, Index c_stride, const T* packed_rows, const T* packed_columns, Index rows, Index columns,
                       Index depth) {
    const Index rest = columns % panel % panel_unit == 0 ? 0 : columns % panel;
    const Index whole = columns - rest;
    if (whole > 0) run(c, c_stride, packed_rows, packed_columns, rows, whole, depth);
    if (rest == 0) return;
    // The padded panel would write past the end of the row, so it goes through a tile of its own.
    constexpr Index most_rows = 128;
    alignas(memory_alignment) T tile[static_cast<std::size_t>(most_rows * panel)];
    const Index width = padded_columns(rest);
    for (Index begin = 0; begin < rows; begin += most_rows) {
      const Index count = std::min(most_rows, rows - begin);
      std::fill_n(tile, count * width, T(0));
      run(tile, width, packed_rows + begin * depth, packed_columns + whole * depth, count, width, depth);
      for (Index i = 0; i < count; ++i) {
        T* row = c + (begin + i) * c_stride + whole;
        for (Index j = 0; j < rest; ++j) row[j] += tile[i * width + j];
      }
    }
  }

 private:
  static void run(T* c, Index c_stride, const T* packed_rows, const T* packed_columns, Index rows, Index columns,
                  Index depth);
};

template <class T>
void GemmKernel<T>::run(T* c, Index c_stride, const T* packed_rows, const T* packed_columns, Index rows, Index columns,
                        Index depth) {
  Eigen::internal::gebp_kernel<T, T, Index, Target, Traits::mr, Traits::nr>()(Target(c, c_stride), packed_columns,
                                                                              packed_rows, columns, depth, rows, T(1));
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA

#ifdef ATTENSOR_TEST_EXTERN_PRODUCTS  // attensor's own tests instantiate the kernels once: tests/support/products.cpp
extern template struct attensor::detail::GemmKernel<float>;
extern template struct attensor::detail::GemmKernel<double>;
#endif
