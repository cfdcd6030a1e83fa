// Golden cases of layers and models. Parameters come by PyTorch's names through the visitor.

#include "attensor/models/text_classifier.hpp"

#include "attensor/layers/self_attention.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "golden/options.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace {

/// The parameters of the case in place of the initial ones.
template <class Module>
void read_parameters(GoldenCase& c, Module& module) {
  visit_parameters(module, [&](const ParameterPath& path, auto& parameter) {
    using Value = std::remove_cvref_t<decltype(parameter.value)>;
    auto value = c.input<typename Value::value_type, Value::rank>(path.str());
    if (value.shape() != parameter.value.shape()) {
      throw_error<IoError>({"parameter ", path.str(), " is ", shape_text(value.shape()), " in the case and ",
                            shape_text(parameter.value.shape()), " in the module"});
    }
    parameter.value = std::move(value);
  });
}

template <class Module>
void check_gradients(GoldenCase& c, const Module& module) {
  visit_parameters(
      module, [&](const ParameterPath& path, const auto& parameter) { c.check("grad:" + path.str(), parameter.grad); });
}

template <Scalar T>
AttentionOptions<T> attention_options(GoldenCase& c, Kernel kernel) {
  AttentionOptions<T> options;
  options.kernel = kernel;
  options.causal = causal_of(c.text("causal", "none"));
  if (c.has("mask")) options.mask = c.input<bool, 4>("mask");
  return options;
}

template <Scalar T>
void run_feed_forward(GoldenCase& c) {
  Rng rng;
  const auto x = c.input<T, 3>("x"), dy = c.input<T, 3>("grad_output");
  const auto weight = c.input<T, 2>("linear1.weight");
  FeedForward<T> layer({.embed_dim = x.extent(2),
                        .hidden_dim = weight.extent(0),
                        .activation = activation_of(c.text("activation", "relu"))},
                       rng);
  read_parameters(c, layer);
  typename FeedForward<T>::Saved saved;
  c.check("output", layer.forward(x, nullptr, &saved));
  c.check("dx", layer.backward(dy, saved));
  check_gradients(c, layer);
}

template <Scalar T>
void run_self_attention(GoldenCase& c, Kernel kernel) {
  Rng rng;
  const auto x = c.input<T, 3>("x"), dy = c.input<T, 3>("grad_output");
  SelfAttention<T> layer({.embed_dim = x.extent(2),
                          .key_dim = c.input<T, 2>("W_K.weight").extent(0),
                          .value_dim = c.input<T, 2>("W_V.weight").extent(0),
                          .output_projection = c.has("W_O.weight")},
                         rng);
  read_parameters(c, layer);
  typename SelfAttention<T>::Saved saved;
  const auto run = [&](const auto& mask_or_options) {
    c.check("output", layer.forward(x, mask_or_options, &saved));
    c.check("weights", layer.weights(x, mask_or_options));
  };
  if (!c.has("mask")) {
    AttentionOptions<T> options;
    options.kernel = kernel;
    run(options);
  } else if (c.rank("mask") == 2) {
    run(c.input<bool, 2>("mask"));
  } else {
    run(c.input<bool, 3>("mask"));
  }
  c.check("dx", layer.backward(dy, saved));
  check_gradients(c, layer);
}

template <Scalar T>
void run_multihead_attention(GoldenCase& c, Kernel kernel) {
  Rng rng;
  const auto query = c.input<T, 3>("query"), dy = c.input<T, 3>("grad_output");
  MultiHeadAttention<T> layer({.embed_dim = query.extent(2), .num_heads = c.integer("num_heads", 1)}, rng);
  read_parameters(c, layer);
  const auto options = attention_options<T>(c, kernel);
  typename MultiHeadAttention<T>::Saved saved;
  const auto check_weights = [&](const Tensor<T, 4>& weights) {
    c.check("weights", weights);
    c.check("average_weights", average_weights(weights));
  };
  if (c.has("key")) {
    const auto key = c.input<T, 3>("key"), value = c.input<T, 3>("value");
    c.check("output", layer.forward(query, key, value, options, &saved));
    check_weights(layer.weights(query, key, options));
    const auto grads = layer.backward_cross(dy, saved);
    c.check("dquery", grads.query);
    c.check("dkey", grads.key);
    c.check("dvalue", grads.value);
  } else {
    c.check("output", layer.forward(query, options, &saved));
    check_weights(layer.weights(query, options));
    c.check("dquery", layer.backward(dy, saved));
  }
  check_gradients(c, layer);
}

template <Scalar T, class Layer>
void run_encoder(GoldenCase& c, Layer&& layer, Kernel kernel) {
  const auto x = c.input<T, 3>("x"), dy = c.input<T, 3>("grad_output");
  read_parameters(c, layer);
  typename std::remove_reference_t<Layer>::Saved saved;
  c.check("output", layer.forward(x, attention_options<T>(c, kernel), &saved));
  c.check("dx", layer.backward(dy, saved));
  check_gradients(c, layer);
}

/// \param first  what the names of the first layer begin with
template <Scalar T>
EncoderLayerOptions layer_options(GoldenCase& c, const std::string& first) {
  const auto weight = c.input<T, 2>(first + "linear1.weight");
  return {.embed_dim = weight.extent(1),
          .num_heads = c.integer("num_heads", 1),
          .hidden_dim = weight.extent(0),
          .activation = activation_of(c.text("activation", "relu")),
          .norm_first = c.flag("norm_first"),
          .eps = c.number("eps", 1e-5)};
}

template <Scalar T>
void run_encoder_case(GoldenCase& c, Kernel kernel) {
  Rng rng;
  if (c.operation() == "encoder_layer") {
    return run_encoder<T>(c, EncoderLayer<T>(layer_options<T>(c, ""), rng), kernel);
  }
  const EncoderOptions options{.layer = layer_options<T>(c, "layers.0."),
                               .num_layers = c.integer("num_layers", 1),
                               .final_norm = c.flag("final_norm")};
  run_encoder<T>(c, Encoder<T>(options, rng), kernel);
}

template <Scalar T>
void run_text_classifier(GoldenCase& c, Kernel kernel) {
  Rng rng;
  const auto ids = c.input<std::int64_t, 2>("ids");
  const auto targets = c.input<std::int64_t, 1>("targets");
  const auto table = c.input<T, 2>("embedding.weight");
  const std::string pooling = c.text("pooling", "first");
  if (pooling != "first" && pooling != "mean") throw_error<ValueError>({"option pooling is ", pooling});
  TextClassifier<T> model({.vocab_size = table.extent(0),
                           .embed_dim = table.extent(1),
                           .num_heads = c.integer("num_heads", 1),
                           .num_layers = c.integer("num_layers", 1),
                           .num_classes = c.input<T, 1>("classifier.bias").extent(0),
                           .hidden_dim = c.input<T, 1>("encoder.layers.0.linear1.bias").extent(0),
                           .padding_idx = c.integer("padding_idx", 0),
                           .pooling = pooling == "first" ? Pooling::first : Pooling::mean},
                          rng);
  read_parameters(c, model);
  AttentionOptions<T> options;
  options.kernel = kernel;
  typename TextClassifier<T>::Saved saved;
  const auto logits = model.forward(ids, options, &saved);
  c.check("logits", logits);
  c.check_number("loss", cross_entropy(logits, targets));
  model.backward(cross_entropy_backward(logits, targets), saved);
  check_gradients(c, model);
}

}  // namespace

bool run_layer_case(GoldenCase& c) {
  const std::string& op = c.operation();
  if (op == "feed_forward") {
    run_in_both(c, [&]<class T>(T) { run_feed_forward<T>(c); });
    return true;
  }
  const auto run = [&](auto body) {
    run_kernels<double>(c, [&](Kernel kernel) { body(double{}, kernel); });
    run_kernels<float>(c, [&](Kernel kernel) { body(float{}, kernel); });
    return true;
  };
  if (op == "self_attention") return run([&]<class T>(T, Kernel kernel) { run_self_attention<T>(c, kernel); });
  if (op == "multihead_attention")
    return run([&]<class T>(T, Kernel kernel) { run_multihead_attention<T>(c, kernel); });
  if (op == "encoder_layer" || op == "encoder")
    return run([&]<class T>(T, Kernel kernel) { run_encoder_case<T>(c, kernel); });
  if (op == "text_classifier") return run([&]<class T>(T, Kernel kernel) { run_text_classifier<T>(c, kernel); });
  return false;
}

}  // namespace attensor::inline ATTENSOR_ISA
