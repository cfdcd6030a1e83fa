#pragma once
/// \file
/// A classifier of token sequences:
///
///     logits = classifier(pool(encoder(embedding(ids) + positions)))
///
/// Padding is hidden from attention and from pooling.

#include "attensor/layers/embedding.hpp"
#include "attensor/layers/encoder.hpp"
#include "attensor/layers/positional_encoding.hpp"

namespace attensor::inline ATTENSOR_ISA {

enum class Pooling {
  first,  ///< the first token stands for the sequence
  mean    ///< the mean of its real tokens; zeros for a sequence of padding
};

struct TextClassifierOptions {
  Index vocab_size = 0;
  Index embed_dim = 0;
  Index num_heads = 1;
  Index num_layers = 1;
  Index num_classes = 2;
  Index hidden_dim = 0;  ///< of the feed-forward networks; 0: 4 * embed_dim
  double dropout = 0;
  Index max_length = 512;  ///< positions that are made ahead; longer sequences work too
  Index padding_idx = 0;   ///< the id that is padding; -1: none
  Pooling pooling = Pooling::first;
};

/// Parameters: embedding.weight, encoder.layers.I.*, classifier.weight, classifier.bias.
template <Scalar T>
struct TextClassifier {
  Embedding<T> embedding;
  SinusoidalPositionalEncoding<T> positions;
  Encoder<T> encoder;
  Linear<T> classifier;
  Pooling pooling = Pooling::first;

  struct Saved {
    typename Embedding<T>::Saved embedding;
    typename Encoder<T>::Saved encoder;
    typename Linear<T>::Saved classifier;
    Tensor<std::int64_t, 2> ids;
    Shape<3> encoded{};
  };

  TextClassifier() = default;
  /// \throws ValueError as the layers do
  TextClassifier(const TextClassifierOptions& options, Rng& rng)
      : embedding(
            {.vocab_size = options.vocab_size, .embed_dim = options.embed_dim, .padding_idx = options.padding_idx},
            rng),
        positions(options.embed_dim, options.max_length),
        encoder({.layer = {.embed_dim = options.embed_dim,
                           .num_heads = options.num_heads,
                           .hidden_dim = options.hidden_dim,
                           .dropout = options.dropout},
                 .num_layers = options.num_layers},
                rng),
        classifier({.in_dim = options.embed_dim, .out_dim = options.num_classes}, rng),
        pooling(options.pooling) {}

  /// As Linear::pack and unpack.
  void pack() { encoder.pack(), classifier.pack(); }
  void unpack() { encoder.unpack(), classifier.unpack(); }

  /// ids [B, S] -> logits [B, num_classes]. Dropout is active where the options carry an Rng; a mask in the options
  /// joins that of the padding. \throws ValueError for an id out of range; ShapeError for sequences without a first
  /// token to pool
  template <TensorLike<2> Ids>
  Tensor<T, 2> forward(const Ids& ids, const AttentionOptions<T>& options = {}, Saved* saved = nullptr) const {
    if (ids.shape()[1] == 0 && pooling == Pooling::first) [[unlikely]] {
      throw_error<ShapeError>({"TextClassifier: ids ", shape_text(ids.shape()),
                               " has 0 in dim 1; expected 1 or more, since the first token is pooled"});
    }
    AttentionOptions<T> own = options;
    if (embedding.padding_idx >= 0) {
      auto mask = padding_mask(ids, embedding.padding_idx);
      own.mask = options.mask ? *options.mask & mask : std::move(mask);
    }
    const auto x = positions.forward(embedding.forward(ids, saved ? &saved->embedding : nullptr));
    const auto encoded = encoder.forward(x, own, saved ? &saved->encoder : nullptr);
    if (saved) {
      saved->ids = contiguous(ids);
      saved->encoded = encoded.shape();
    }
    return classifier.forward(pool(ids, encoded), saved ? &saved->classifier : nullptr);
  }

  /// Adds to the parameters' grad. \throws ShapeError if dlogits does not fit what was saved
  template <TensorLike<2> DL>
  void backward(const DL& dlogits, const Saved& saved) {
    const Tensor<T, 2> dpooled = classifier.backward(dlogits, saved.classifier);
    Tensor<T, 3> dencoded = zeros<T>(saved.encoded);
    for_pooled(saved.ids, [&](Index b, Index s, T share) {
      for (Index j = 0; j < dpooled.extent(1); ++j) dencoded(b, s, j) = share * dpooled(b, j);
    });
    embedding.backward(encoder.backward(dencoded, saved.encoder), saved.embedding);
  }

 private:
  /// visit(sequence, position, share) for each position that is pooled.
  template <TensorLike<2> Ids, class Visit>
  void for_pooled(const Ids& ids, Visit&& visit) const {
    for (Index b = 0; b < ids.shape()[0]; ++b) {
      if (pooling == Pooling::first) {
        visit(b, 0, T(1));
        continue;
      }
      const auto is_real = [&](Index s) { return ids(b, s) != embedding.padding_idx; };
      Index count = 0;
      for (Index s = 0; s < ids.shape()[1]; ++s) count += is_real(s);
      for (Index s = 0; s < ids.shape()[1]; ++s) {
        if (is_real(s)) visit(b, s, T(1) / static_cast<T>(count));
      }
    }
  }
  template <TensorLike<2> Ids>
  Tensor<T, 2> pool(const Ids& ids, const Tensor<T, 3>& encoded) const {
    auto pooled = zeros<T>({encoded.extent(0), encoded.extent(2)});
    for_pooled(ids, [&](Index b, Index s, T share) {
      for (Index j = 0; j < pooled.extent(1); ++j) pooled(b, j) += share * encoded(b, s, j);
    });
    return pooled;
  }
};

template <InstanceOf<TextClassifier> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit_parameters(self.embedding, visit, path / "embedding");
  visit_parameters(self.encoder, visit, path / "encoder");
  visit_parameters(self.classifier, visit, path / "classifier");
}

}  // namespace attensor::inline ATTENSOR_ISA
