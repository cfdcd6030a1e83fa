#pragma once
/// \file
/// The matrix product C[m, n] = A[m, k] B[k, n], row-major C, for A and B in any orientation.
///
/// It runs on Eigen's own packing and micro-kernel, called directly: an operand that is used again and again is packed
/// once, nothing is taken from the heap in between, and each element of C is one chain of multiply-adds over k in a
/// fixed order:
///
///     C(i, j) = bias(j) + sum over blocks of kc of (sum over the block of A(i, l) B(l, j))
///
/// So a row of C has the same bits whatever the number of rows, its place among them, the number of threads, and
/// whether B was packed ahead. For that, B's columns are padded with zeros to whole panels of the micro-kernel (its
/// one-packet variant sums in another order), and k is cut at fixed places.

#include "attensor/core/gemm_small.hpp"
#include "attensor/core/parallel.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

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
      Kernel::pack_columns(packed + l * Kernel::padded_columns(b.columns) + begin * depth, b.row_range(l, depth), begin,
                           end);
    }
  });
  return {packed, b.rows, b.columns};
}

/// Element (l, j) of what was packed.
template <Scalar T>
T packed_element(const PackedColumns<T>& packed, Index l, Index j) {
  using Kernel = GemmKernel<T>;
  const Index block = gemm_depth_block(packed.depth), padded = Kernel::padded_columns(packed.columns);
  const Index begin = l / block * block, depth = std::min(block, packed.depth - begin);
  const Index panel = j / Kernel::panel * Kernel::panel, width = std::min(Kernel::panel, padded - panel);
  return packed.data[begin * padded + panel * depth + (l - begin) * width + (j - panel)];
}

/// One tile of C on the calling thread: its rows times a range of packed columns that begins at a whole panel.
/// `packed_rows` holds a.rows * gemm_depth_block(a.columns) elements.
template <Scalar T>
void gemm_tile(T* c, Index c_stride, const MatrixView<T>& a, const PackedColumns<T>& b, Index begin, Index end,
               const GemmStart<T>& start, T* packed_rows) {
  using Kernel = GemmKernel<T>;
  gemm_begin(c, c_stride, a.rows, begin, end, start);
  const Index block = gemm_depth_block(b.depth);
  for (Index l = 0; l < b.depth; l += block) {
    const Index depth = std::min(block, b.depth - l);
    Kernel::pack_rows(packed_rows, a.column_range(l, depth));
    Kernel::multiply(c + begin, c_stride, packed_rows, b.data + l * Kernel::padded_columns(b.columns) + begin * depth,
                     a.rows, end - begin, depth);
  }
}

inline constexpr Index gemm_tile_rows = 96;

/// C = start + A B with B packed ahead. Tiles of C go to the threads; none of them changes a bit.
template <Scalar T>
void gemm(T* c, Index c_stride, const MatrixView<T>& a, const PackedColumns<T>& b, const GemmStart<T>& start = {}) {
  using Kernel = GemmKernel<T>;
  constexpr Index tile_rows = gemm_tile_rows;
  const Index row_tiles = (a.rows + tile_rows - 1) / tile_rows;
  // Few rows: columns are cut too, as soon as a task keeps enough work of its own.
  Index tile_columns = b.columns;
  if (const Index wanted = 2 * get_num_threads(); get_num_threads() > 1 && row_tiles > 0 && row_tiles < wanted) {
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
    gemm_tile(c + row * c_stride, c_stride, a.row_range(row, rows), b, column,
              std::min(column + tile_columns, b.columns), start, packed_rows.data());
  });
}

/// Columns that are packed at a time where they are used once: their panels stay in the cache until they are.
template <Scalar T>
Index gemm_column_chunk() {
  constexpr Index panel = GemmKernel<T>::panel;
  return std::max<Index>(1, 96 / panel) * panel;
}

/// How much a call of gemm_columns packs into, in elements.
template <Number T>
Index gemm_workspace_size(Index rows, Index columns, Index depth) {
  if constexpr (has_packed_gemm<T>) {
    const Index block = gemm_depth_block(depth);
    return (rows * block + 31) / 32 * 32 + GemmKernel<T>::packed_size(block, std::min(columns, gemm_column_chunk<T>()));
  } else {
    return 0;
  }
}

/// Columns [begin, end) of C = start + A B, packing both operands as it goes; begin is at a whole panel.
template <Scalar T>
void gemm_columns(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b, Index begin, Index end,
                  const GemmStart<T>& start, T* workspace) {
  using Kernel = GemmKernel<T>;
  gemm_begin(c, c_stride, a.rows, begin, end, start);
  const Index block = gemm_depth_block(b.rows), chunk = gemm_column_chunk<T>();
  T* packed_columns = workspace + (a.rows * block + 31) / 32 * 32;
  for (Index l = 0; l < b.rows; l += block) {
    const Index depth = std::min(block, b.rows - l);
    Kernel::pack_rows(workspace, a.column_range(l, depth));
    for (Index j = begin; j < end; j += chunk) {
      const Index next = std::min(j + chunk, end);
      Kernel::pack_columns(packed_columns, b.row_range(l, depth), j, next);
      Kernel::multiply(c + j, c_stride, workspace, packed_columns, a.rows, next - j, depth);
    }
  }
}

/// C = start + A B on the calling thread, with the same bits as gemm.
template <Number T>
void gemm_serial(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start = {}) {
  if constexpr (has_packed_gemm<T>) {
    if (is_small_product(a, b)) return gemm_small(c, c_stride, a, b, start);
    const Scratch<T> workspace(gemm_workspace_size<T>(a.rows, b.columns, b.rows));
    gemm_columns(c, c_stride, a, b, 0, b.columns, start, workspace.data());
  } else {
    gemm_begin(c, c_stride, a.rows, 0, b.columns, start);
    gemm_unpacked(c, c_stride, a, b);
  }
}

/// C = start + A B for operands as they are.
template <Number T>
void gemm(T* c, Index c_stride, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start = {}) {
  if constexpr (has_packed_gemm<T>) {
    if (is_small_product(a, b)) return gemm_small(c, c_stride, a, b, start);
    if (a.rows > gemm_tile_rows) {
      const Scratch<T> packed(packed_columns_size<T>(b.rows, b.columns));
      return gemm(c, c_stride, a, pack_columns(packed.data(), b), start);
    }
    const Index chunk = gemm_column_chunk<T>();  // one tile of rows: each column is used once
    const Index grain = grain_for(a.rows * chunk * b.rows / 16) * chunk;
    parallel_chunks(b.columns, grain, [&](Index begin, Index end) {
      const Scratch<T> workspace(gemm_workspace_size<T>(a.rows, end - begin, b.rows));
      gemm_columns(c, c_stride, a, b, begin, end, start, workspace.data());
    });
  } else {
    gemm_begin(c, c_stride, a.rows, 0, b.columns, start);
    gemm_unpacked(c, c_stride, a, b);
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
