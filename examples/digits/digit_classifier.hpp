#pragma once
/// \file
/// A classifier of small images, built from the library's layers: the rows of an image are its tokens.
///
///     logits = classifier(mean over rows of encoder(embedding(rows) + positions))

#include "attensor/layers/encoder.hpp"
#include "attensor/layers/linear.hpp"
#include "attensor/layers/positional_encoding.hpp"

namespace example {

struct DigitClassifierOptions {
  attensor::Index rows = 8, columns = 8, classes = 10;
  attensor::Index embed_dim = 64, num_heads = 4, num_layers = 2, hidden_dim = 128;
  double dropout = 0.1;
};

template <attensor::Scalar T>
struct DigitClassifier {
  attensor::Linear<T> embedding;
  attensor::LearnedPositionalEncoding<T> positions;
  attensor::Encoder<T> encoder;
  attensor::Linear<T> classifier;

  struct Saved {
    typename attensor::Linear<T>::Saved embedding, classifier;
    typename attensor::Encoder<T>::Saved encoder;
    attensor::Shape<3> encoded{};
  };

  DigitClassifier(const DigitClassifierOptions& options, attensor::Rng& rng)
      : embedding({.in_dim = options.columns, .out_dim = options.embed_dim}, rng),
        positions({.max_length = options.rows, .dim = options.embed_dim}, rng),
        encoder({.layer = {.embed_dim = options.embed_dim,
                           .num_heads = options.num_heads,
                           .hidden_dim = options.hidden_dim,
                           .activation = attensor::Activation::gelu,
                           .dropout = options.dropout},
                 .num_layers = options.num_layers},
                rng),
        classifier({.in_dim = options.embed_dim, .out_dim = options.classes}, rng) {}

  /// images [B, rows, columns] -> logits [B, classes]. Dropout is active where there is a generator.
  attensor::Tensor<T, 2> forward(const attensor::Tensor<T, 3>& images, attensor::Rng* rng = nullptr,
                                 Saved* saved = nullptr) const {
    const auto x = positions.forward(embedding.forward(images, saved ? &saved->embedding : nullptr));
    const auto encoded = encoder.forward(x, {.rng = rng}, saved ? &saved->encoder : nullptr);
    attensor::Tensor<T, 2> pooled(attensor::Shape{encoded.extent(0), encoded.extent(2)});
    for_pooled(encoded.shape(), [&](attensor::Index b, attensor::Index s, attensor::Index j, T share) {
      pooled(b, j) += share * encoded(b, s, j);
    });
    if (saved) saved->encoded = encoded.shape();
    return classifier.forward(pooled, saved ? &saved->classifier : nullptr);
  }

  /// Adds to the parameters' gradients.
  void backward(const attensor::Tensor<T, 2>& dlogits, const Saved& saved) {
    const auto dpooled = classifier.backward(dlogits, saved.classifier);
    auto dencoded = attensor::empty<T>(saved.encoded);
    for_pooled(saved.encoded, [&](attensor::Index b, attensor::Index s, attensor::Index j, T share) {
      dencoded(b, s, j) = share * dpooled(b, j);
    });
    const auto dx = encoder.backward(dencoded, saved.encoder);
    positions.backward(dx);
    embedding.backward(dx, saved.embedding);
  }

 private:
  template <class Visit>
  static void for_pooled(const attensor::Shape<3>& shape, Visit&& visit) {
    for (attensor::Index b = 0; b < shape[0]; ++b) {
      for (attensor::Index s = 0; s < shape[1]; ++s) {
        for (attensor::Index j = 0; j < shape[2]; ++j) visit(b, s, j, T(1) / static_cast<T>(shape[1]));
      }
    }
  }
};

/// The names of a PyTorch module with the same members.
template <attensor::InstanceOf<DigitClassifier> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const attensor::ParameterPath& path = {}) {
  visit_parameters(self.embedding, visit, path / "embedding");
  visit_parameters(self.positions, visit, path / "positions");
  visit_parameters(self.encoder, visit, path / "encoder");
  visit_parameters(self.classifier, visit, path / "classifier");
}

}  // namespace example
