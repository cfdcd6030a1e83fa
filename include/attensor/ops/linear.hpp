#pragma once
/// \file
/// The affine map of the last dimension, in PyTorch's layout, and its derivative. With x as [rows, in]:
///
///     y = x W^T + b           W [out, in], b [out]
///
///     dx = dy W               dW = dy^T x               db = sum over rows of dy
///
/// Complex numbers are mapped as they are, never conjugated.

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/gemm.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {

template <Number T, std::size_t Rank>
struct LinearGrads {
  Tensor<T, Rank> x;    ///< shape of x
  Tensor<T, 2> weight;  ///< [out, in]
  Tensor<T, 1> bias;    ///< [out]
};

/// A weight [out, in] laid out once for products with few rows, which would spend most of their time on laying it out.
/// It is a copy: what happens to the weight that it was made from does not reach it. Products have the same bits either
/// way.
template <Scalar T>
class PackedWeight {
 public:
  PackedWeight() = default;
  template <TensorLike<2> W>
  explicit PackedWeight(const W& weight) : out_dim_(weight.shape()[0]), in_dim_(weight.shape()[1]) {
    static_assert(std::same_as<scalar_t<W>, T>);
    const detail::MatrixView<T> columns =
        detail::MatrixView<T>{weight.data(), out_dim_, in_dim_, weight.strides()[0], 1}.transposed();
    if constexpr (detail::has_packed_gemm<T>) {
      elements_ = attensor::empty<T>({detail::packed_columns_size<T>(in_dim_, out_dim_)});
      detail::pack_columns(elements_.data(), columns);
    } else {
      elements_ = contiguous(weight).reshape(Shape{out_dim_ * in_dim_});
    }
  }

  Index out_dim() const { return out_dim_; }
  Index in_dim() const { return in_dim_; }
  bool empty() const { return elements_.empty(); }

  /// The weight again, [out, in], to the bit.
  Tensor<T, 2> unpack() const {
    auto weight = attensor::empty<T>({out_dim_, in_dim_});
    for (Index j = 0; j < out_dim_; ++j) {
      for (Index l = 0; l < in_dim_; ++l) {
        if constexpr (detail::has_packed_gemm<T>) {
          weight(j, l) = detail::packed_element(columns(), l, j);
        } else {
          weight(j, l) = elements_(j * in_dim_ + l);
        }
      }
    }
    return weight;
  }

  /// y [x.rows, out] = x W^T + bias, its rows y_stride apart.
  void multiply(const detail::MatrixView<T>& x, const T* bias, T* y, Index y_stride) const {
    if constexpr (detail::has_packed_gemm<T>) {
      detail::gemm(y, y_stride, x, columns(), detail::GemmStart<T>{bias, false});
    } else {
      const detail::MatrixView<T> weight{elements_.data(), out_dim_, in_dim_, in_dim_, 1};
      detail::gemm(y, y_stride, x, weight.transposed(), detail::GemmStart<T>{bias, false});
    }
  }

 private:
  detail::PackedColumns<T> columns() const { return {elements_.data(), in_dim_, out_dim_}; }

  Tensor<T, 1> elements_;
  Index out_dim_ = 0, in_dim_ = 0;
};

namespace detail {

/// All rows of a tensor as one matrix: in place where rows lie at equal steps, else as a copy that this object keeps.
template <Number T>
class RowMatrix {
 public:
  template <TensorLike X>
  explicit RowMatrix(const X& x) {
    const auto all = rows(read(x));
    view_ = {x.data(), all.count(), all.length(), all.row_stride(), 1};
    if (all.is_uniform()) return;
    copy_ = reshape_flat(contiguous(x));
    view_.data = copy_.data();
    view_.row_stride = all.length();
  }
  const MatrixView<T>& view() const { return view_; }

 private:
  template <std::size_t Rank>
  static Tensor<T, 1> reshape_flat(Tensor<T, Rank>&& x) {
    const Shape<1> shape{x.size()};
    return std::move(x).reshape(shape);
  }
  Tensor<T, 1> copy_;
  MatrixView<T> view_;
};

template <Number T, TensorLike<2> W>
MatrixView<T> matrix_view(const W& w) {
  return {w.data(), w.shape()[0], w.shape()[1], w.strides()[0], 1};
}

/// y [rows, out] = x W^T + bias
template <Number T>
void linear_kernel(const MatrixView<T>& x, const MatrixView<T>& weight, const T* bias, T* y) {
  gemm(y, weight.rows, x, weight.transposed(), GemmStart<T>{bias, false});
}

/// dx [rows, in] = dy W, or dx += dy W
template <Number T>
void linear_backward_x(const MatrixView<T>& dy, const MatrixView<T>& weight, T* dx, bool accumulate = false) {
  gemm(dx, weight.columns, dy, weight, GemmStart<T>{nullptr, accumulate});
}

/// dweight [out, in] += dy^T x
template <Number T>
void linear_backward_weight(const MatrixView<T>& dy, const MatrixView<T>& x, T* dweight) {
  gemm(dweight, x.columns, dy.transposed(), x, GemmStart<T>{nullptr, true});
}

/// dbias [out] += sum over rows of dy
template <Number T>
void linear_backward_bias(const MatrixView<T>& dy, T* dbias) {
  parallel_row_sums(dy.rows, dy.columns, dbias, [&](Index row, T* partial) {
    const T* d = dy.data + row * dy.row_stride;
    for_row<T>(dy.columns, [&](auto at) { at.store(partial, at.load(partial) + at.load(d)); });
  });
}

}  // namespace detail

/// y = x W^T + b for each row of x.
///
/// \param x       [..., in], any rank
/// \param weight  [out, in]
/// \param bias    [out], or left out
/// \return        [..., out]
/// \throws ShapeError if the extents do not fit
/// rows * in * out multiply-adds. A row has the same bits whatever other rows there are.
template <TensorLike X, TensorLike<2> W, TensorLike<1> B>
  requires Number<scalar_t<X>>
auto linear(const X& x, const W& weight, const B& bias) {
  require_same_scalar<X, W>();
  require_same_scalar<X, B>();
  using T = scalar_t<X>;
  constexpr std::size_t last = rank_v<X> - 1;
  detail::check_extent("linear", "x", x, last, weight.shape()[1], "the input width of weight", weight);
  if (bias.size() > 0)
    detail::check_extent("linear", "bias", bias, 0, weight.shape()[0], "the output width of weight", weight);
  auto shape = x.shape();
  shape[last] = weight.shape()[0];
  auto y = empty<T>(shape);
  const detail::RowMatrix<T> in(x);
  detail::linear_kernel(in.view(), detail::matrix_view<T>(weight), bias.size() > 0 ? bias.data() : nullptr, y.data());
  return y;
}
template <TensorLike X, TensorLike<2> W>
auto linear(const X& x, const W& weight) {
  return linear(x, weight, Tensor<scalar_t<W>, 1>{});
}

/// The same with a weight packed ahead, and the same bits. An empty bias is none.
template <TensorLike X, TensorLike<1> B>
auto linear(const X& x, const PackedWeight<scalar_t<X>>& weight, const B& bias) {
  require_same_scalar<X, B>();
  using T = scalar_t<X>;
  constexpr std::size_t last = rank_v<X> - 1;
  detail::check_extent("linear", "x", x, last, weight.in_dim(), "the input width of the packed weight");
  if (bias.size() > 0)
    detail::check_extent("linear", "bias", bias, 0, weight.out_dim(), "the output width of the packed weight");
  auto shape = x.shape();
  shape[last] = weight.out_dim();
  auto y = empty<T>(shape);
  const detail::RowMatrix<T> in(x);
  weight.multiply(in.view(), bias.size() > 0 ? bias.data() : nullptr, y.data(), weight.out_dim());
  return y;
}

/// The derivative of sum(linear(x, weight, bias) * dy) with respect to x, weight and bias. Fresh tensors; nothing is
/// added to anything. Sums over rows have a fixed order.
///
/// \param dy  [..., out]
/// \throws ShapeError if the extents do not fit
template <TensorLike DY, TensorLike X, TensorLike<2> W>
  requires Number<scalar_t<X>>
auto linear_backward(const DY& dy, const X& x, const W& weight) {
  require_same_scalar<X, DY>();
  require_same_scalar<X, W>();
  static_assert(rank_v<DY> == rank_v<X>);
  using T = scalar_t<X>;
  constexpr std::size_t last = rank_v<X> - 1;
  detail::check_extent("linear_backward", "x", x, last, weight.shape()[1], "the input width of weight", weight);
  detail::check_extent("linear_backward", "dy", dy, last, weight.shape()[0], "the output width of weight", weight);
  for (std::size_t d = 0; d < last; ++d)
    detail::check_extent("linear_backward", "dy", dy, d, x.shape()[d], "as in x", x);
  const detail::RowMatrix<T> in(x), grad(dy);
  LinearGrads<T, rank_v<X>> grads{empty_like(x), zeros_like(weight), zeros<T>({weight.shape()[0]})};
  detail::linear_backward_x(grad.view(), detail::matrix_view<T>(weight), grads.x.data());
  detail::linear_backward_weight(grad.view(), in.view(), grads.weight.data());
  detail::linear_backward_bias(grad.view(), grads.bias.data());
  return grads;
}

}  // namespace attensor::inline ATTENSOR_ISA
