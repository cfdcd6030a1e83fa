// Handwritten digits, read as sequences: each row of an image of 8 x 8 pixels is a token.
//
// The learning rate warms up and falls along a cosine, and labels are smoothed. With --schedule constant --smoothing 0
// it is the plain recipe: about 1 point less on the test images, and more spread from seed to seed.

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
#include "attensor/optim/schedule.hpp"
#include "digit_classifier.hpp"

using namespace attensor;

namespace {

constexpr Index side = 8, training_count = 1437, count = 1797, batch_size = 64;

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

struct TrainingOptions {
  Index epochs = 30;
  double learning_rate = 2e-3, smoothing = 0.1;
  std::string schedule = "cosine";
};

void train(example::DigitClassifier<float>& model, const Data& data, const TrainingOptions& options, Rng& rng) {
  if (options.schedule != "cosine" && options.schedule != "constant") {
    throw ValueError("digits: --schedule is " + options.schedule + "; expected cosine or constant");
  }
  AdamW<float> optimizer({.learning_rate = options.learning_rate, .weight_decay = 0.01});
  const Index epoch_steps = (training_count + batch_size - 1) / batch_size;
  const ScheduleOptions rates{.learning_rate = options.learning_rate,
                              .warmup_steps = 2 * epoch_steps,
                              .total_steps = std::max<Index>(3, options.epochs) * epoch_steps};
  const CrossEntropyOptions loss{.label_smoothing = options.smoothing};
  example::DigitClassifier<float>::Saved saved;
  example::Progress progress(options.epochs, training_count);
  Index step = 0;
  for (Index epoch = 0; epoch < options.epochs; ++epoch) {
    const auto order = example::shuffled(training_count, rng);
    example::for_batches(training_count, batch_size, [&](Index begin, Index end) {
      const auto images = example::pick(data.images, order, begin, end);
      const auto labels = example::pick(data.labels, order, begin, end);
      if (options.schedule == "cosine") optimizer.options.learning_rate = cosine_schedule(step++, rates);
      zero_grad(model);
      const auto logits = model.forward(images, &rng, &saved);
      model.backward(cross_entropy_backward(logits, labels, loss), saved);
      optimizer.step(model);
      progress.step(end - begin, static_cast<double>(cross_entropy(logits, labels, loss)));
    });
  }
  progress.finish();
}

void run(int argc, char** argv) {
  example::DigitClassifierOptions options;
  TrainingOptions training;
  std::uint64_t seed = 1;
  int threads = 0;
  std::string save, load, path = ATTENSOR_EXAMPLES_DIR "/digits/digits.csv";
  example::CommandLine line("digits", "Learns to read handwritten digits.");
  line.option("--epochs", training.epochs, "passes over the 1,437 images");
  line.option("--seed", seed, "of parameters, order and dropout");
  line.option("--threads", threads, "0: all processors; results do not depend on it");
  line.option("--heads", options.num_heads, "of each layer, a divisor of --dim");
  line.option("--dim", options.embed_dim, "width of the embedding");
  line.option("--layers", options.num_layers, "of the encoder");
  line.option("--dropout", options.dropout, "probability");
  line.option("--lr", training.learning_rate, "learning rate of AdamW, the largest");
  line.option("--schedule", training.schedule, "of the learning rate, cosine or constant");
  line.option("--smoothing", training.smoothing, "of the labels");
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
  train(model, data, training, rng);

  const auto test_images = contiguous(slice(data.images, 0, training_count, count));
  const auto test_labels = contiguous(slice(data.labels, 0, training_count, count));
  std::cout << "test accuracy " << example::accuracy(model.forward(test_images), test_labels) << '\n';
  if (!save.empty()) save_safetensors(save, model);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run([&] { run(argc, argv); });
}
