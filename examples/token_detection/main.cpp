// Does token 5 occur in a sequence of eight? A small transformer learns it from 1,000 examples, and its attention shows
// how.

#include <iostream>

#include "../support/batches.hpp"
#include "../support/command_line.hpp"
#include "../support/progress.hpp"
#include "attensor/core/build_info.hpp"
#include "attensor/io/heatmap.hpp"
#include "attensor/io/safetensors_module.hpp"
#include "attensor/models/text_classifier.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/optim/adam.hpp"

using namespace attensor;

namespace {

constexpr Index vocabulary = 32, length = 8, wanted = 5, batch_size = 64;  // token 0 is padding

struct Data {
  Tensor<std::int64_t, 2> ids;     // [count, length], in 1 .. 31
  Tensor<std::int64_t, 1> labels;  // [count], 1 where `wanted` occurs

  Data(Index count, Rng& rng) : ids(Shape{count, length}), labels(Shape{count}) {
    for (Index i = 0; i < ids.size(); ++i) {
      ids.data()[i] = 1 + rng.below(vocabulary - 1);
      if (ids.data()[i] == wanted) labels(i / length) = 1;
    }
  }
};

void train(TextClassifier<float>& model, const Data& data, Index epochs, double learning_rate, Rng& rng) {
  Adam<float> optimizer({.learning_rate = learning_rate});
  TextClassifier<float>::Saved saved;
  const Index count = data.labels.size();
  example::Progress progress(epochs, count);
  for (Index epoch = 0; epoch < epochs; ++epoch) {
    const auto order = example::shuffled(count, rng);
    example::for_batches(count, batch_size, [&](Index begin, Index end) {
      const auto ids = example::pick(data.ids, order, begin, end);
      const auto labels = example::pick(data.labels, order, begin, end);
      zero_grad(model);
      const auto logits = model.forward(ids, {.rng = &rng}, &saved);
      model.backward(cross_entropy_backward(logits, labels), saved);
      optimizer.step(model);
      progress.step(end - begin, static_cast<double>(cross_entropy(logits, labels)));
    });
  }
  progress.finish();
}

/// What each head of the first layer looks at, in the first sequence that holds the wanted token.
void show_attention(const TextClassifier<float>& model, const Data& data, const std::string& svg) {
  const Index count = data.labels.size();
  const Index chosen = std::find(data.labels.data(), data.labels.data() + count, 1) - data.labels.data();
  if (chosen == count || model.encoder.layers.empty()) return;
  const auto ids = contiguous(slice(data.ids, 0, chosen, chosen + 1));
  const auto x = model.positions.forward(model.embedding.forward(ids));
  const auto weights = model.encoder.layers[0].self_attn.weights(x);

  std::vector<std::string> tokens;
  for (Index i = 0; i < length; ++i) tokens.push_back(std::to_string(ids(0, i)));
  const HeatmapOptions options{.title = "Attention of the first layer", .row_labels = tokens, .column_labels = tokens};
  std::cout << '\n';
  print_heatmap(std::cout, weights[0], options);
  if (svg.empty()) return;
  save_heatmap(svg, weights[0], options);
  std::cout << "also in " << svg << '\n';
}

void run(int argc, char** argv) {
  Index epochs = 30, heads = 4, dim = 32, layers = 2;
  std::uint64_t seed = 1;
  int threads = 0;
  double dropout = 0.1, learning_rate = 1e-3;
  std::string save, load, svg = "token_detection_attention.svg";
  example::CommandLine line("token_detection", "Learns whether token 5 occurs in a sequence of eight.");
  line.option("--epochs", epochs, "passes over the 1,000 sequences");
  line.option("--seed", seed, "of data, parameters and dropout");
  line.option("--threads", threads, "0: all processors; results do not depend on it");
  line.option("--heads", heads, "of each layer, a divisor of --dim");
  line.option("--dim", dim, "width of the embedding");
  line.option("--layers", layers, "of the encoder");
  line.option("--dropout", dropout, "probability");
  line.option("--lr", learning_rate, "learning rate of Adam");
  line.option("--save", save, "write the model to this safetensors file");
  line.option("--load", load, "start with the model in this file; with --epochs 0 it is only tested");
  line.option("--svg", svg, "write the attention to this file");
  line.parse(argc, argv);

  set_num_threads(threads);
  std::cout << to_string(build_info()) << '\n';
  Rng rng(seed);
  const Data training(1000, rng), test(200, rng);
  TextClassifier<float> model({.vocab_size = vocabulary,
                               .embed_dim = dim,
                               .num_heads = heads,
                               .num_layers = layers,
                               .hidden_dim = 4 * dim,
                               .dropout = dropout},
                              rng);
  if (!load.empty()) load_safetensors(load, model);
  std::cout << count_parameters(model) << " parameters\n";
  train(model, training, epochs, learning_rate, rng);
  std::cout << "test accuracy " << example::accuracy(model.forward(test.ids), test.labels) << '\n';
  if (!save.empty()) save_safetensors(save, model);
  show_attention(model, test, svg);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run([&] { run(argc, argv); });
}
