#pragma once
/// \file Layers that add positions to embeddings: sinusoidal ones, for any length, and learned ones, for as many as
/// there are.

#include "attensor/layers/linear.hpp"
#include "attensor/ops/sinusoidal_encoding.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// y [B, S, D] = x + table rows [0, S)
template <Scalar T>
void add_positions(Tensor<T, 3>& y, Index begin, const Tensor<T, 2>& table, Index rows) {
  for (Index b = 0; b < y.extent(0); ++b)
    add_to(rows * y.extent(2), table.data(), y.data() + (b * y.extent(1) + begin) * y.extent(2));
}

}  // namespace detail

/// x + PE. No parameters; the backward pass is the identity. Positions beyond the table are computed when they are met.
template <Scalar T>
struct SinusoidalPositionalEncoding {
  Tensor<T, 2> table;  ///< [max_length, D], made once

  SinusoidalPositionalEncoding() = default;
  /// \throws ValueError for a width below 1
  explicit SinusoidalPositionalEncoding(Index dim, Index max_length = 512) {
    detail::check_value(dim >= 1, "SinusoidalPositionalEncoding", "dim", dim, "1 or more");
    table = sinusoidal_encoding<T>(max_length, dim);
  }

  /// [B, S, D] -> [B, S, D]. \throws ShapeError if the width of x is not D
  template <TensorLike<3> X>
  Tensor<T, 3> forward(const X& x) const {
    detail::check_extent("SinusoidalPositionalEncoding", "x", x, 2, table.extent(1), "the width of the encoding");
    Tensor<T, 3> y = contiguous(x);
    const Index length = y.extent(1), known = std::min(length, table.extent(0));
    detail::add_positions(y, 0, table, known);
    if (known < length) {
      detail::add_positions(y, known, sinusoidal_encoding<T>(length - known, table.extent(1), known), length - known);
    }
    return y;
  }
};

struct LearnedPositionalEncodingOptions {
  Index max_length = 0;
  Index dim = 0;
};

/// x + weight rows. Parameters: weight [max_length, D], N(0, 1) at first.
template <Scalar T>
struct LearnedPositionalEncoding {
  Parameter<T, 2> weight;

  LearnedPositionalEncoding() = default;
  /// \throws ValueError for an extent below 1
  LearnedPositionalEncoding(const LearnedPositionalEncodingOptions& options, Rng& rng) {
    detail::check_value(options.max_length >= 1, "LearnedPositionalEncoding", "max_length", options.max_length,
                        "1 or more");
    detail::check_value(options.dim >= 1, "LearnedPositionalEncoding", "dim", options.dim, "1 or more");
    weight.value = normal<T>(Shape{options.max_length, options.dim}, rng);
  }

  Index max_length() const { return weight.value.extent(0); }

  /// [B, S, D] -> [B, S, D] with positions [0, S).
  /// \throws ShapeError if the width of x is not D, or S exceeds max_length: there is nothing learned to add
  template <TensorLike<3> X>
  Tensor<T, 3> forward(const X& x) const {
    detail::check_extent("LearnedPositionalEncoding", "x", x, 2, weight.value.extent(1), "the width of weight",
                         weight.value);
    if (x.shape()[1] > max_length()) [[unlikely]] {
      throw_error<ShapeError>({"LearnedPositionalEncoding: x ", shape_text(x.shape()), " has ",
                               std::to_string(x.shape()[1]), " in dim 1; expected at most ",
                               std::to_string(max_length()),
                               ", the positions that were learned (resize makes room for more)"});
    }
    Tensor<T, 3> y = contiguous(x);
    detail::add_positions(y, 0, weight.value, y.extent(1));
    return y;
  }

  /// The row of one position. \throws ValueError unless 0 <= position < max_length
  View<const T, 1> at(Index position) const {
    detail::check_value(position >= 0 && position < max_length(), "LearnedPositionalEncoding::at", "position", position,
                        [&] { return "a position in [0, " + std::to_string(max_length()) + ")"; });
    return weight.value[position];
  }

  /// Adds to the grad of weight; the gradient of x is dy itself. \throws ShapeError if dy does not fit
  template <TensorLike<3> DY>
  void backward(const DY& dy) {
    detail::check_extent("LearnedPositionalEncoding::backward", "dy", dy, 2, weight.value.extent(1),
                         "the width of weight", weight.value);
    detail::check_value(dy.shape()[1] <= max_length(), "LearnedPositionalEncoding::backward", "the length of dy",
                        dy.shape()[1], [&] { return "at most max_length " + std::to_string(max_length()); });
    T* to = detail::grad_of(weight).data();
    const auto rows = detail::rows(read(dy));
    const Index length = dy.shape()[1], width = rows.length();
    for (Index row = 0; row < rows.count(); ++row) {
      for (Index j = 0; j < width; ++j) to[row % length * width + j] += rows[row][j];
    }
  }

  /// Another number of positions. The first ones stay as they are; new ones are drawn from N(0, stddev) with the spread
  /// of the old ones. The gradient starts anew. \throws ValueError for a length below 1
  void resize(Index length, Rng& rng) {
    detail::check_value(length >= 1, "LearnedPositionalEncoding::resize", "length", length, "1 or more");
    const Tensor<T, 2> old = std::move(weight.value);
    double squares = 0;
    for (Index i = 0; i < old.size(); ++i)
      squares += static_cast<double>(old.data()[i]) * static_cast<double>(old.data()[i]);
    const double spread = std::sqrt(squares / static_cast<double>(std::max<Index>(1, old.size())));
    weight.value = normal<T>(Shape{length, old.extent(1)}, rng, {.stddev = spread});
    std::copy_n(old.data(), std::min(old.size(), weight.value.size()), weight.value.data());
    weight.grad = {};
  }
};

template <InstanceOf<SinusoidalPositionalEncoding> Self, class Visit>
void visit_parameters(Self&, Visit&&, const ParameterPath& = {}) {}

template <InstanceOf<LearnedPositionalEncoding> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "weight", self.weight);
}

}  // namespace attensor::inline ATTENSOR_ISA
