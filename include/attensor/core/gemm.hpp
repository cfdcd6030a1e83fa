#pragma once
/// \file
/// The matrix product C[m, n] = A[m, k] B[k, n], row-major C, for A and B in any orientation.
///
/// It runs on Eigen's own packing and micro-kernel, called directly: an operand that is used again and again is packed
/// once, nothing is taken from the heap in between, and each element of C is one chain of multiply-adds over k in a fixed order:
///
///     C(i, j) = bias(j) + sum over blocks of kc of (sum over the block of A(i, l) B(l, j))
///
/// So a row of C has the same bits whatever the number of rows, its place among them, the number of threads, and whether B
/// was packed ahead. For that, B's columns are padded with zeros to whole panels of the micro-kernel (its one-packet variant
/// sums in another order), and k is cut at fixed places. The result is written row-major by computing C^T = B^T A^T in Eigen's
/// column-major terms, so that B is the kernel's left side and A its right side.
///
/// This is the only header that touches Eigen's product internals. Source: Goto and van de Geijn, Anatomy of
/// High-Performance Matrix Multiplication (2008).

#include "attensor/core/packet.hpp"
#include "attensor/core/parallel.hpp"

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
  /// A narrower last panel is padded to a multiple of this, past Eigen's one-packet variant where that sums in two chains.
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
      gemm_pack_rhs<T, Index, Source, Traits::nr, Eigen::ColMajor>()(packed, Source(a.data, a.row_stride), a.columns, a.rows);
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
  static void run(T* c, Index c_stride, const T* packed_rows, const T* packed_columns, Index rows, Index columns, Index depth);
};

template <class T>
void GemmKernel<T>::run(T* c, Index c_stride, const T* packed_rows, const T* packed_columns, Index rows, Index columns,
                        Index depth) {
  Eigen::internal::gebp_kernel<T, T, Index, Target, Traits::mr, Traits::nr>()(Target(c, c_stride), packed_columns, packed_rows,
                                                                             columns, depth, rows, T(1));
}

/// C += A B term by term, for complex numbers.
template <class T>
void gemm_plain(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b) {
  for (Index i = 0; i < a.rows; ++i) {
    for (Index l = 0; l < a.columns; ++l) {
      const T factor = a(i, l);
      for (Index j = 0; j < b.columns; ++j) c[i * c_stride + j] += factor * b(l, j);
    }
  }
}

/// C += A B by Eigen's public product, for an Eigen that is not known.
template <class T>
void gemm_public(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b) {
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  using Read = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Stride>;
  using Write = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;
  Write(c, a.rows, b.columns, Eigen::OuterStride<>(c_stride)).noalias() +=
      Read(a.data, a.rows, a.columns, Stride(a.row_stride, a.column_stride)) *
      Read(b.data, b.rows, b.columns, Stride(b.row_stride, b.column_stride));
}

template <Number T>
void gemm_unpacked(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b) {
  if constexpr (Scalar<T>) {
    gemm_public(c, c_stride, a, b);
  } else {
    gemm_plain(c, c_stride, a, b);
  }
}

/// Puts what the sum starts from into columns [begin, end) of C.
template <Number T>
void gemm_begin(T* c, Index c_stride, Index rows, Index begin, Index end, const GemmStart<T>& start) {
  if (start.accumulate) return;
  for (Index i = 0; i < rows; ++i) {
    T* row = c + i * c_stride;
    if (start.bias) {
      std::copy(start.bias + begin, start.bias + end, row + begin);
    } else {
      std::fill(row + begin, row + end, T(0));
    }
  }
}

template <class T>
inline constexpr bool has_packed_gemm = has_packets<T>;

/// The right side of a product, packed: all of its depth blocks, one behind the other.
template <class T>
struct PackedColumns {
  const T* data = nullptr;
  Index depth = 0, columns = 0;
};

template <class T>
Index packed_columns_size(Index depth, Index columns) {
  return GemmKernel<T>::packed_size(depth, columns);
}

/// Packs b into `packed`, packed_columns_size elements aligned to memory_alignment.
template <Scalar T>
PackedColumns<T> pack_columns(T* packed, const MatrixView<T>& b) {
  using Kernel = GemmKernel<T>;
  const Index block = gemm_depth_block(b.rows);
  const Index panels_per_task = std::max<Index>(1, grain_for(b.rows) / Kernel::panel);
  parallel_chunks(b.columns, panels_per_task * Kernel::panel, [&](Index begin, Index end) {
    for (Index l = 0; l < b.rows; l += block) {
      const Index depth = std::min(block, b.rows - l);
      Kernel::pack_columns(packed + l * Kernel::padded_columns(b.columns) + begin * depth, b.row_range(l, depth), begin, end);
    }
  });
  return {packed, b.rows, b.columns};
}

/// One tile of C on the calling thread: its rows times a range of packed columns that begins at a whole panel. `packed_rows`
/// holds a.rows * gemm_depth_block(a.columns) elements.
template <Scalar T>
void gemm_tile(T* c, Index c_stride, const MatrixView<T>& a, const PackedColumns<T>& b, Index begin, Index end,
               const GemmStart<T>& start, T* packed_rows) {
  using Kernel = GemmKernel<T>;
  gemm_begin(c, c_stride, a.rows, begin, end, start);
  const Index block = gemm_depth_block(b.depth);
  for (Index l = 0; l < b.depth; l += block) {
    const Index depth = std::min(block, b.depth - l);
    Kernel::pack_rows(packed_rows, a.column_range(l, depth));
    Kernel::multiply(c + begin, c_stride, packed_rows, b.data + l * Kernel::padded_columns(b.columns) + begin * depth, a.rows,
                     end - begin, depth);
  }
}

/// C = start + A B with B packed ahead. Tiles of C go to the threads; none of them changes a bit.
template <Scalar T>
void gemm(T* c, Index c_stride, const MatrixView<T>& a, const PackedColumns<T>& b, const GemmStart<T>& start = {}) {
  using Kernel = GemmKernel<T>;
  constexpr Index tile_rows = 96;
  const Index row_tiles = (a.rows + tile_rows - 1) / tile_rows;
  // Few rows: columns are cut too, as soon as a task keeps enough work of its own.
  Index tile_columns = b.columns;
  if (const Index wanted = 2 * get_num_threads(); get_num_threads() > 1 && row_tiles < wanted) {
    const Index cuts = (wanted + row_tiles - 1) / row_tiles;
    const Index worth = grain_for(std::max<Index>(1, std::min(a.rows, tile_rows) * b.depth / 16));
    tile_columns = std::max(worth, (b.columns + cuts - 1) / cuts);
    tile_columns = (tile_columns + Kernel::panel - 1) / Kernel::panel * Kernel::panel;
  }
  const Index column_tiles = std::max<Index>(1, (b.columns + tile_columns - 1) / std::max<Index>(1, tile_columns));
  const Index work = std::min(a.rows, tile_rows) * std::min(b.columns, tile_columns) * std::max<Index>(1, b.depth) / 16;
  parallel_for(row_tiles * column_tiles, grain_for(work), [&](Index task) {
    const Index row = task / column_tiles * tile_rows, column = task % column_tiles * tile_columns;
    const Index rows = std::min(tile_rows, a.rows - row);
    const Scratch<T> packed_rows(rows * gemm_depth_block(b.depth));
    gemm_tile(c + row * c_stride, c_stride, a.row_range(row, rows), b, column, std::min(column + tile_columns, b.columns), start,
              packed_rows.data());
  });
}

/// C = start + A B for operands as they are.
template <Number T>
void gemm(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start = {}) {
  if constexpr (has_packed_gemm<T>) {
    const Scratch<T> packed(packed_columns_size<T>(b.rows, b.columns));
    gemm(c, c_stride, a, pack_columns(packed.data(), b), start);
  } else {
    gemm_begin(c, c_stride, a.rows, 0, b.columns, start);
    gemm_unpacked(c, c_stride, a, b);
  }
}

#ifdef ATTENSOR_TEST_EXTERN_PRODUCTS  // attensor's own tests instantiate the kernels once, in tests/support/products.cpp
extern template struct GemmKernel<float>;
extern template struct GemmKernel<double>;
#endif

/// How much gemm_serial packs into, in elements.
template <Number T>
Index gemm_workspace_size(Index rows, Index columns, Index depth) {
  if constexpr (has_packed_gemm<T>) {
    const Index block = gemm_depth_block(depth);
    const Index aligned_rows = (rows * block + 31) / 32 * 32;
    return aligned_rows + GemmKernel<T>::packed_size(block, columns);
  } else {
    return 0;
  }
}

/// C = start + A B on the calling thread, with the same bits as gemm. Packs into `workspace`, aligned to memory_alignment.
template <Number T>
void gemm_serial(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start, T* workspace) {
  gemm_begin(c, c_stride, a.rows, 0, b.columns, start);
  if constexpr (has_packed_gemm<T>) {
    using Kernel = GemmKernel<T>;
    const Index block = gemm_depth_block(b.rows);
    T* packed_columns = workspace + (a.rows * block + 31) / 32 * 32;
    for (Index l = 0; l < b.rows; l += block) {
      const Index depth = std::min(block, b.rows - l);
      Kernel::pack_rows(workspace, a.column_range(l, depth));
      Kernel::pack_columns(packed_columns, b.row_range(l, depth), 0, b.columns);
      Kernel::multiply(c, c_stride, workspace, packed_columns, a.rows, b.columns, depth);
    }
  } else {
    gemm_unpacked(c, c_stride, a, b);
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
