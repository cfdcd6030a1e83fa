// Handwritten digits, read as sequences: each row of an image of 8 x 8 pixels is a token.

#include <fstream>
#include <iostream>

#include "../support/batches.hpp"
#include "../support/command_line.hpp"
#include "../support/progress.hpp"
#include "attensor/core/build_info.hpp"
#include "attensor/core/layout.hpp"
#include "attensor/io/safetensors_module.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/optim/adam.hpp"
#include "digit_classifier.hpp"

using namespace attensor;

namespace {

constexpr Index side = 8, classes = 10, training_count = 1437, count = 1797, batch_size = 64;

struct Data {
  Tensor<float, 3> images{Shape{count, side, side}};  // pixels in -1 .. 1
  Tensor<std::int64_t, 1> labels{Shape{count}};

  explicit Data(const std::string& path) {
    std::ifstream file(path);
    char comma = 0;
    for (Index i = 0; i < count; ++i) {
      for (Index pixel = 0; pixel < side * side; ++pixel) {
        float value = 0;
        file >> value >> comma;
        images.data()[i * side * side + pixel] = value / 8 - 1;
      }
      file >> labels(i);
    }
    if (!file) throw IoError("digits: " + path + " cannot be read; expected 1797 lines of 64 pixels and a label");
  }
};

void train(example::DigitClassifier<float>& model, const Data& data, Index epochs, double learning_rate, Rng& rng) {
  AdamW<float> optimizer({.learning_rate = learning_rate, .weight_decay = 0.01});
  example::DigitClassifier<float>::Saved saved;
  example::Progress progress(epochs, training_count);
  for (Index epoch = 0; epoch < epochs; ++epoch) {
    const auto order = example::shuffled(training_count, rng);
    example::for_batches(training_count, batch_size, [&](Index begin, Index end) {
      const auto images = example::pick(data.images, order, begin, end);
      const auto labels = example::pick(data.labels, order, begin, end);
      zero_grad(model);
      const auto logits = model.forward(images, &rng, &saved);
      model.backward(cross_entropy_backward(logits, labels), saved);
      optimizer.step(model);
      progress.step(end - begin, static_cast<double>(cross_entropy(logits, labels)));
    });
  }
  progress.finish();
}

void run(int argc, char** argv) {
  example::DigitClassifierOptions options;
  Index epochs = 30;
  std::uint64_t seed = 1;
  int threads = 0;
  double learning_rate = 2e-3;
  std::string save, load, path = ATTENSOR_EXAMPLES_DIR "/digits/digits.csv";
  example::CommandLine line("digits", "Learns to read handwritten digits.");
  line.option("--epochs", epochs, "passes over the 1,437 images");
  line.option("--seed", seed, "of parameters, order and dropout");
  line.option("--threads", threads, "0: all processors; results do not depend on it");
  line.option("--heads", options.num_heads, "of each layer, a divisor of --dim");
  line.option("--dim", options.embed_dim, "width of the embedding");
  line.option("--layers", options.num_layers, "of the encoder");
  line.option("--dropout", options.dropout, "probability");
  line.option("--lr", learning_rate, "learning rate of AdamW");
  line.option("--save", save, "write the model to this safetensors file");
  line.option("--load", load, "start with the model in this file; with --epochs 0 it is only tested");
  line.option("--data", path, "the images");
  line.parse(argc, argv);

  set_num_threads(threads);
  std::cout << to_string(build_info()) << '\n';
  const Data data(path);
  Rng rng(seed);
  example::DigitClassifier<float> model(options, rng);
  if (!load.empty()) load_safetensors(load, model);
  std::cout << count_parameters(model) << " parameters\n";
  train(model, data, epochs, learning_rate, rng);

  const auto test_images = contiguous(slice(data.images, 0, training_count, count));
  const auto test_labels = contiguous(slice(data.labels, 0, training_count, count));
  std::cout << "test accuracy " << example::accuracy(model.forward(test_images), test_labels) << '\n';
  if (!save.empty()) save_safetensors(save, model);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run([&] { run(argc, argv); });
}
