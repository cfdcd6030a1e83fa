#pragma once
/// \file
/// The affine layer y = x W^T + b. Formulas: ops/linear.hpp.

#include "attensor/layers/parameter.hpp"
#include "attensor/ops/linear.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct LinearOptions {
  Index in_dim = 0;
  Index out_dim = 0;
  bool bias = true;
};

namespace detail {

/// U(-1 / sqrt(in), 1 / sqrt(in)), what PyTorch initialises both parts of nn.Linear with.
template <Scalar T, std::size_t Rank>
Tensor<T, Rank> uniform_for_linear(const Shape<Rank>& shape, Index in_dim, Rng& rng) {
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<Index>(in_dim, 1)));
  return uniform<T>(shape, rng, {.low = -bound, .high = bound});
}

inline void check_unpacked(const char* function, bool is_packed) {
  if (is_packed) [[unlikely]] {
    throw_error<ValueError>({function,
                             ": the layer is packed for inference and has no weights to change, load or save; expected "
                             "one that is not (call unpack() first)"});
  }
}

template <Scalar T>
void add_to(Index n, const T* x, T* y) {
  parallel_chunks(n, 16384, [&](Index begin, Index end) {
    for_row<T>(end - begin, [&](auto at) { at.store(y + begin, at.load(y + begin) + at.load(x + begin)); });
  });
}

}  // namespace detail

/// Parameters: weight [out, in], bias [out] (empty without bias).
template <Scalar T>
struct Linear {
  Parameter<T, 2> weight;
  Parameter<T, 1> bias;

  /// What backward needs: the input, as rows.
  struct Saved {
    Tensor<T, 2> x;  ///< [rows, in]
  };

  Linear() = default;
  /// \throws ValueError for a width below 1
  Linear(const LinearOptions& options, Rng& rng) {
    detail::check_value(options.in_dim >= 1, "Linear", "in_dim", options.in_dim, "1 or more");
    detail::check_value(options.out_dim >= 1, "Linear", "out_dim", options.out_dim, "1 or more");
    weight.value = detail::uniform_for_linear<T>(Shape{options.out_dim, options.in_dim}, options.in_dim, rng);
    if (options.bias) bias.value = detail::uniform_for_linear<T>(Shape{options.out_dim}, options.in_dim, rng);
  }

  Index in_dim() const { return is_packed() ? packed_.in_dim() : weight.value.extent(1); }
  Index out_dim() const { return is_packed() ? packed_.out_dim() : weight.value.extent(0); }

  /// For inference with few rows: lays the weight out once. The weight moves: until unpack() there is none to train, to
  /// load or to save, so none can differ from what forward uses. Results keep their bits.
  void pack() {
    if (is_packed()) return;
    packed_ = PackedWeight<T>(weight.value);
    weight = {};
  }
  void unpack() {
    if (!is_packed()) return;
    weight.value = packed_.unpack();
    packed_ = {};
  }
  bool is_packed() const { return !packed_.empty(); }

  /// [..., in] -> [..., out]. \throws ShapeError if the width of x is not in_dim
  template <TensorLike X>
  auto forward(const X& x, Saved* saved = nullptr) const {
    auto y = is_packed() ? linear(x, packed_, bias.value) : linear(x, weight.value, bias.value);
    if (saved) saved->x = contiguous(x).reshape(Shape{detail::rows(read(x)).count(), in_dim()});
    return y;
  }

  /// Gradient of the input, [..., in]; adds to the parameters' grad. \throws ShapeError if dy does not fit what was
  /// saved
  template <TensorLike DY>
  auto backward(const DY& dy, const Saved& saved) {
    detail::check_unpacked("Linear::backward", is_packed());
    constexpr std::size_t last = rank_v<DY> - 1;
    const detail::RowMatrix<T> grad(dy);
    detail::check_extent("Linear::backward", "dy", dy, last, out_dim(), "the output width of weight", weight.value);
    require_same_scalar<DY, Tensor<T, 2>>();
    detail::check_extent("Linear::backward", "saved.x", saved.x, 0, grad.view().rows, "the number of rows of dy", dy);
    detail::check_extent("Linear::backward", "saved.x", saved.x, 1, in_dim(), "the input width of weight",
                         weight.value);
    const auto x = detail::matrix_view<T>(saved.x);
    detail::linear_backward_weight(grad.view(), x, detail::grad_of(weight).data());
    if (!bias.value.empty()) detail::linear_backward_bias(grad.view(), detail::grad_of(bias).data());
    auto shape = dy.shape();
    shape[last] = in_dim();
    auto dx = empty<T>(shape);
    detail::linear_backward_x(grad.view(), detail::matrix_view<T>(weight.value), dx.data());
    return dx;
  }

 private:
  PackedWeight<T> packed_;
};

template <InstanceOf<Linear> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  detail::check_unpacked("visit_parameters", self.is_packed());
  visit(path / "weight", self.weight);
  if (!self.bias.value.empty()) visit(path / "bias", self.bias);
}

}  // namespace attensor::inline ATTENSOR_ISA
