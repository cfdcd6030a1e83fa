#pragma once
/// \file
/// The embedding layer. Formulas: ops/embedding.hpp.

#include "attensor/layers/parameter.hpp"
#include "attensor/ops/embedding.hpp"
#include "attensor/ops/linear.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct EmbeddingLayerOptions {
  Index vocab_size = 0;
  Index embed_dim = 0;
  Index padding_idx = -1;  ///< this id's row starts as zeros and gets no gradient; -1: none
};

/// Parameters: weight [vocab_size, embed_dim], N(0, 1) at first.
template <Scalar T>
struct Embedding {
  Parameter<T, 2> weight;
  Index padding_idx = -1;

  /// What backward needs: the ids, as one row.
  struct Saved {
    Tensor<std::int64_t, 1> ids;
  };

  Embedding() = default;
  /// \throws ValueError for an extent below 1, or a padding_idx that is no id
  Embedding(const EmbeddingLayerOptions& options, Rng& rng) : padding_idx(options.padding_idx) {
    detail::check_value(options.vocab_size >= 1, "Embedding", "vocab_size", options.vocab_size, "1 or more");
    detail::check_value(options.embed_dim >= 1, "Embedding", "embed_dim", options.embed_dim, "1 or more");
    detail::check_value(padding_idx >= -1 && padding_idx < options.vocab_size, "Embedding", "padding_idx", padding_idx,
                        "an id below vocab_size " + std::to_string(options.vocab_size) + ", or -1 for none");
    weight.value = normal<T>(Shape{options.vocab_size, options.embed_dim}, rng);
    if (padding_idx >= 0) std::fill_n(weight.value[padding_idx].data(), options.embed_dim, T(0));
  }

  /// [...] -> [..., embed_dim]. \throws ValueError for an id out of range
  template <TensorLike Ids>
  auto forward(const Ids& ids, Saved* saved = nullptr) const {
    auto y = embedding(ids, weight.value);
    if (saved) saved->ids = contiguous(ids).reshape(Shape{read(ids).size()});
    return y;
  }

  /// Adds to the grad of weight. \throws ShapeError if dy does not fit the ids that were saved
  template <TensorLike DY>
  void backward(const DY& dy, const Saved& saved) {
    const Index dim = weight.value.extent(1);
    const detail::RowMatrix<T> grad(dy);
    const View<const T, 2> rows(grad.view().data, Shape{grad.view().rows, grad.view().columns},
                                Strides<2>{grad.view().row_stride, 1});
    detail::check_extent("Embedding::backward", "dy", rows, 1, dim, "the width of weight", weight.value);
    const auto gradient = embedding_backward(rows, saved.ids, weight.value.extent(0), {.padding_idx = padding_idx});
    T* to = detail::grad_of(weight).data();
    for (Index i = 0; i < gradient.size(); ++i) to[i] += gradient.data()[i];
  }
};

template <InstanceOf<Embedding> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "weight", self.weight);
}

}  // namespace attensor::inline ATTENSOR_ISA
