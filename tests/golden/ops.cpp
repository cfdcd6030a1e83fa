// Golden cases of single operations.

#include "attensor/layers/positional_encoding.hpp"
#include "attensor/ops/activation.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/ops/embedding.hpp"
#include "attensor/ops/layer_norm.hpp"
#include "attensor/ops/linear.hpp"
#include "attensor/ops/rms_norm.hpp"
#include "attensor/ops/softmax.hpp"
#include "golden/golden_case.hpp"
#include "golden/options.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace {

template <Scalar T, std::size_t Rank>
void run_softmax(GoldenCase& c) {
  const auto x = c.input<T, Rank>("x"), dy = c.input<T, Rank>("grad_output");
  const auto y = softmax(x);
  c.check("output", y);
  c.check("dx", softmax_backward(dy, y));
}

template <Scalar T>
void run_layer_norm(GoldenCase& c) {
  const auto x = c.input<T, 3>("x"), dy = c.input<T, 3>("grad_output");
  const auto weight = c.input<T, 1>("weight"), bias = c.input<T, 1>("bias");
  LayerNormSaved<T> saved;
  c.check("output", layer_norm(x, weight, bias, {.eps = c.number("eps", 1e-5)}, &saved));
  const auto grads = layer_norm_backward(dy, x, weight, saved);
  c.check("dx", grads.x);
  c.check("dweight", grads.weight);
  c.check("dbias", grads.bias);
}

template <Scalar T>
void run_rms_norm(GoldenCase& c) {
  const auto x = c.input<T, 3>("x"), dy = c.input<T, 3>("grad_output");
  const auto weight = c.input<T, 1>("weight");
  RmsNormSaved<T> saved;
  c.check("output", rms_norm(x, weight, {.eps = c.number("eps", 1e-5)}, &saved));
  const auto grads = rms_norm_backward(dy, x, weight, saved);
  c.check("dx", grads.x);
  c.check("dweight", grads.weight);
}

template <Scalar T>
void run_activation(GoldenCase& c) {
  const auto x = c.input<T, 2>("x"), dy = c.input<T, 2>("grad_output");
  const Activation kind = activation_of(c.text("kind", "relu"));
  c.check("output", activation(x, kind));
  c.check("dx", activation_backward(dy, x, kind));
}

template <Scalar T>
void run_linear(GoldenCase& c) {
  const auto x = c.input<T, 3>("x"), dy = c.input<T, 3>("grad_output");
  const auto weight = c.input<T, 2>("weight");
  c.check("output", c.has("bias") ? linear(x, weight, c.input<T, 1>("bias")) : linear(x, weight));
  const auto grads = linear_backward(dy, x, weight);
  c.check("dx", grads.x);
  c.check("dweight", grads.weight);
  c.check("dbias", grads.bias);
}

template <Scalar T>
void run_embedding(GoldenCase& c) {
  const auto ids = c.input<std::int64_t, 2>("ids");
  const auto weight = c.input<T, 2>("weight");
  const auto dy = c.input<T, 3>("grad_output");
  c.check("output", embedding(ids, weight));
  c.check("dweight", embedding_backward(dy, ids, weight.extent(0), {.padding_idx = c.integer("padding_idx", -1)}));
}

template <Scalar T>
void run_cross_entropy(GoldenCase& c) {
  const auto logits = c.input<T, 2>("logits");
  const auto targets = c.input<std::int64_t, 1>("targets");
  const CrossEntropyOptions options{.ignore_index = c.integer("ignore_index", -100),
                                    .label_smoothing = c.number("label_smoothing", 0)};
  c.check_number("loss", cross_entropy(logits, targets, options));
  c.check("dlogits", cross_entropy_backward(logits, targets, options));
}

template <Scalar T>
void run_positional_encoding(GoldenCase& c) {
  const auto x = c.input<T, 3>("x");
  const std::string kind = c.text("kind", "sinusoidal");
  if (kind != "sinusoidal") throw_error<ValueError>({"option kind is ", kind, "; expected sinusoidal"});
  const SinusoidalPositionalEncoding<T> layer(x.extent(2), c.integer("max_len", 512));
  c.check("output", layer.forward(x));
}

}  // namespace

bool run_op_case(GoldenCase& c) {
  const std::string& op = c.operation();
  const auto run = [&](auto body) {
    run_in_both(c, body);
    return true;
  };
  if (op == "softmax") {
    return run([&]<class T>(T) { c.rank("x") == 2 ? run_softmax<T, 2>(c) : run_softmax<T, 3>(c); });
  }
  if (op == "layer_norm") return run([&]<class T>(T) { run_layer_norm<T>(c); });
  if (op == "rms_norm") return run([&]<class T>(T) { run_rms_norm<T>(c); });
  if (op == "activation") return run([&]<class T>(T) { run_activation<T>(c); });
  if (op == "linear") return run([&]<class T>(T) { run_linear<T>(c); });
  if (op == "embedding") return run([&]<class T>(T) { run_embedding<T>(c); });
  if (op == "cross_entropy") return run([&]<class T>(T) { run_cross_entropy<T>(c); });
  if (op == "positional_encoding") return run([&]<class T>(T) { run_positional_encoding<T>(c); });
  return false;
}

}  // namespace attensor::inline ATTENSOR_ISA
