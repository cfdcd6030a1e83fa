#pragma once
/// \file
/// A stack of encoder layers, one behind the other, with a norm at the end where asked for.

#include <vector>

#include "attensor/layers/encoder_layer.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct EncoderOptions {
  EncoderLayerOptions layer;
  Index num_layers = 1;
  bool final_norm = false;  ///< what a pre-norm stack usually ends with; off by default, as in PyTorch
};

/// Parameters as in nn.TransformerEncoder: layers.0.*, layers.1.*, ..., and norm.* with a final norm.
template <Scalar T>
struct Encoder {
  std::vector<EncoderLayer<T>> layers;
  LayerNorm<T> norm;
  bool final_norm = false;

  struct Saved {
    std::vector<typename EncoderLayer<T>::Saved> layers;
    typename LayerNorm<T>::Saved norm;
  };

  Encoder() = default;
  /// Each layer is initialised on its own. \throws ValueError for a negative num_layers, or as EncoderLayer does
  Encoder(const EncoderOptions& options, Rng& rng) : final_norm(options.final_norm) {
    detail::check_value(options.num_layers >= 0, "Encoder", "num_layers", options.num_layers, "0 or more");
    for (Index i = 0; i < options.num_layers; ++i) layers.emplace_back(options.layer, rng);
    if (final_norm) norm = LayerNorm<T>(options.layer.embed_dim, options.layer.eps);
  }

  /// As Linear::pack and unpack.
  void pack() {
    for (auto& layer : layers) layer.pack();
  }
  void unpack() {
    for (auto& layer : layers) layer.unpack();
  }

  /// x [B, S, E] -> [B, S, E]; every layer gets the same options.
  template <TensorLike<3> X>
  Tensor<T, 3> forward(const X& x, const AttentionOptions<T>& options = {}, Saved* saved = nullptr) const {
    if (saved) saved->layers.resize(layers.size());
    Tensor<T, 3> y;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      auto* const saved_layer = saved ? &saved->layers[i] : nullptr;
      y = i == 0 ? layers[i].forward(x, options, saved_layer) : layers[i].forward(y, options, saved_layer);
    }
    if (layers.empty()) y = contiguous(x);
    return final_norm ? norm.forward(y, saved ? &saved->norm : nullptr) : std::move(y);
  }

  /// Gradient of x; adds to the parameters' grad. \throws ShapeError if dy does not fit what was saved
  template <TensorLike<3> DY>
  Tensor<T, 3> backward(const DY& dy, const Saved& saved) {
    detail::check_value(saved.layers.size() == layers.size(), "Encoder::backward", "the number of saved layers",
                        saved.layers.size(),
                        [&] { return std::to_string(layers.size()) + ", as forward of this encoder saves"; });
    Tensor<T, 3> d = final_norm ? norm.backward(dy, saved.norm) : contiguous(dy);
    for (std::size_t i = layers.size(); i-- > 0;) d = layers[i].backward(d, saved.layers[i]);
    return d;
  }
};

template <InstanceOf<Encoder> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  const ParameterPath layers = path / "layers";
  for (std::size_t i = 0; i < self.layers.size(); ++i)
    visit_parameters(self.layers[i], visit, layers / static_cast<Index>(i));
  if (self.final_norm) visit_parameters(self.norm, visit, path / "norm");
}

}  // namespace attensor::inline ATTENSOR_ISA
