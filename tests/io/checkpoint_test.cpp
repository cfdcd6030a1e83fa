// Mirrors include/attensor/io/checkpoint.hpp.

#include "attensor/io/checkpoint.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>

#include "attensor/models/text_classifier.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/optim/adam.hpp"
#include "attensor/optim/clip_grad_norm.hpp"
#include "attensor/optim/schedule.hpp"
#include "attensor/optim/sgd.hpp"
#include "optim/two_parameters.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

/// A folder that goes with the test.
struct TemporaryFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "attensor_checkpoint_test";

  TemporaryFolder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

/// Steps that depend on everything a checkpoint holds: the parameters, the random numbers and the order of the data.
/// The vector has no gradient in the first two steps.
template <class Module, class Optimizer>
void train(Module& module, Optimizer& optimizer, TrainingState& state, int steps) {
  for (int i = 0; i < steps; ++i) {
    if (state.position == state.order.size()) {
      state.order = Tensor<std::int64_t, 1>(Shape{5});
      std::iota(state.order.data(), state.order.data() + 5, 0);
      for (Index left = 5; left > 1; --left) std::swap(state.order(left - 1), state.order(state.rng.below(left)));
      state.position = 0;
      ++state.epoch;
    }
    using T = scalar_t<decltype(module.matrix.value)>;
    module.matrix.grad = normal<T>({2, 3}, state.rng);
    for (Index k = 0; k < 6; ++k) module.matrix.grad.data()[k] += module.matrix.value.data()[k];
    if (state.step >= 2) {
      const auto example = static_cast<double>(state.order(state.position));
      module.vector.grad = full<T>({4}, static_cast<T>(example + static_cast<double>(state.rng.next_mask())));
    }
    optimizer.step(module);
    ++state.position;
    ++state.step;
  }
}

template <class Module, class Optimizer>
void check_same(const Module& a, const Optimizer& a_optimizer, const TrainingState& a_state, const Module& b,
                const Optimizer& b_optimizer, const TrainingState& b_state) {
  CHECK(bitwise_equal(a.matrix.value, b.matrix.value));
  CHECK(bitwise_equal(a.vector.value, b.vector.value));
  CHECK(a_optimizer.moments.size() == b_optimizer.moments.size());
  CHECK(a_state.step == b_state.step);
  CHECK(a_state.epoch == b_state.epoch);
  CHECK(a_state.position == b_state.position);
  CHECK(bitwise_equal(a_state.order, b_state.order));
  CHECK(a_state.rng.state() == b_state.rng.state());
}

}  // namespace

TEST_CASE_TEMPLATE("checkpoint: resumed at any step equals uninterrupted, to the bit", Optimizer, Adam<float>,
                   Adam<double>, Sgd<float>) {
  using T = std::conditional_t<std::is_same_v<Optimizer, Adam<double>>, double, float>;
  const TemporaryFolder folder;
  const Optimizer start = [] {
    Optimizer optimizer;
    optimizer.options.learning_rate = 0.05;
    if constexpr (std::is_same_v<Optimizer, Sgd<float>>) optimizer.options.momentum = 0.9;
    return optimizer;
  }();
  for (const int interrupted : {0, 1, 2, 3, 5, 7, 12}) {
    TwoParameters<T> module, resumed;
    Optimizer optimizer = start, resumed_optimizer = start;
    TrainingState state{.rng = Rng(0xFEDCBA9876543210)}, resumed_state;
    train(module, optimizer, state, interrupted);
    save_checkpoint(folder.file("run"), module, optimizer, state);
    train(module, optimizer, state, 12);

    resumed.matrix.value = normal<T>({2, 3}, resumed_state.rng);
    load_checkpoint(folder.file("run"), resumed, resumed_optimizer, resumed_state);
    train(resumed, resumed_optimizer, resumed_state, 12);
    check_same(module, optimizer, state, resumed, resumed_optimizer, resumed_state);
  }
}

TEST_CASE("checkpoint: a classifier with dropout, clipping and a schedule resumes to the bit") {
  const TemporaryFolder folder;
  Rng data_rng(5);
  Tensor<std::int64_t, 2> ids(Shape{24, 6});
  Tensor<std::int64_t, 1> labels(Shape{24});
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = data_rng.below(11);
  for (Index i = 0; i < 24; ++i) labels(i) = data_rng.below(3);
  const TextClassifierOptions options{.vocab_size = 11,
                                      .embed_dim = 8,
                                      .num_heads = 2,
                                      .num_layers = 2,
                                      .num_classes = 3,
                                      .hidden_dim = 12,
                                      .dropout = 0.2,
                                      .pooling = Pooling::mean};
  const auto steps = [&](TextClassifier<float>& model, AdamW<float>& optimizer, TrainingState& state, Index last) {
    TextClassifier<float>::Saved saved;
    for (; state.step < last; ++state.step) {
      zero_grad(model);
      const auto logits = model.forward(ids, {.rng = &state.rng}, &saved);
      model.backward(cross_entropy_backward(logits, labels), saved);
      (void)clip_grad_norm(model, {.max_norm = 0.5});
      optimizer.options.learning_rate =
          cosine_schedule(state.step, {.learning_rate = 1e-2, .warmup_steps = 5, .total_steps = 40});
      optimizer.step(model);
    }
  };
  TrainingState state{.rng = Rng(1)}, resumed_state;
  TextClassifier<float> model(options, state.rng), resumed(options, resumed_state.rng);
  AdamW<float> optimizer, resumed_optimizer;
  steps(model, optimizer, state, 17);
  save_checkpoint(folder.file("run"), model, optimizer, state);
  steps(model, optimizer, state, 40);
  load_checkpoint(folder.file("run"), resumed, resumed_optimizer, resumed_state);
  steps(resumed, resumed_optimizer, resumed_state, 40);

  std::vector<Tensor<float, 1>> want;
  const auto flat = [](const auto& parameter) {
    return contiguous(parameter.value.reshape(Shape{parameter.value.size()}));
  };
  visit_parameters(model, [&](const ParameterPath&, const auto& parameter) { want.push_back(flat(parameter)); });
  std::size_t next = 0;
  visit_parameters(resumed, [&](const ParameterPath& path, const auto& parameter) {
    INFO(path.str());
    CHECK(bitwise_equal(flat(parameter), want[next++]));
  });
  CHECK(state.rng.state() == resumed_state.rng.state());
}

TEST_CASE("checkpoint: its parameters are a state dict, and moments have PyTorch's names") {
  const TemporaryFolder folder;
  TwoParameters<float> module, other;
  Adam<float> optimizer;
  TrainingState state;
  train(module, optimizer, state, 4);
  save_checkpoint(folder.file("run"), module, optimizer, state);
  load_safetensors(folder.file("run"), other, {.prefix = "model."});
  CHECK(bitwise_equal(module.matrix.value, other.matrix.value));
  SafetensorsFile file(folder.file("run"));
  CHECK(bitwise_equal(file.read<float, 1>("optimizer.vector.exp_avg_sq"), optimizer.moments[1].second));
  CHECK(file.read<std::int64_t, 1>("optimizer.matrix.step")(0) == 4);
  CHECK(file.read<std::int64_t, 1>("optimizer.vector.step")(0) == 2);
}

TEST_CASE("checkpoint: one that does not fit changes nothing and says why") {
  const TemporaryFolder folder;
  const std::string path = folder.file("run");
  TwoParameters<float> module;
  Adam<float> optimizer;
  TrainingState state;
  train(module, optimizer, state, 4);
  save_checkpoint(path, module, optimizer, state);
  train(module, optimizer, state, 1);
  const auto before = module;
  const auto before_optimizer = optimizer;
  const auto before_state = state;

  SUBCASE("another optimizer") {
    Sgd<float> sgd;
    CHECK_THROWS_WITH_AS(
        load_checkpoint(path, module, sgd, state),
        ("load_checkpoint: " + path + " has 11 tensors; expected 5, those of this model and optimizer").c_str(),
        IoError);
  }
  SUBCASE("another scalar type") {
    TwoParameters<double> wide;
    Adam<double> adam;
    CHECK_THROWS_WITH_AS(load_checkpoint(path, wide, adam, state),
                         ("load_checkpoint: " + path + " has model.matrix in F32; expected F64").c_str(), IoError);
  }
  SUBCASE("another shape") {
    module.matrix.value = zeros<float>({3, 3});
    CHECK_THROWS_AS(load_checkpoint(path, module, optimizer, state), IoError);
    module.matrix.value = zeros<float>({3, 2});  // as many elements
    CHECK_THROWS_AS(load_checkpoint(path, module, optimizer, state), IoError);
    CHECK(bitwise_equal(module.matrix.value, zeros<float>({3, 2})));
    module.matrix.value = before.matrix.value;
  }
  SUBCASE("parameters alone") {
    save_safetensors(path, module);
    CHECK_THROWS_WITH_AS(
        load_checkpoint(path, module, optimizer, state),
        ("load_checkpoint: " + path + " is not a checkpoint; expected a file of save_checkpoint, version 1").c_str(),
        IoError);
  }
  SUBCASE("moments in part") {
    SafetensorsWriter writer;
    writer.set_metadata("attensor_checkpoint", "1");
    writer.add("model.matrix", module.matrix.value);
    writer.add("model.vector", module.vector.value);
    writer.add("optimizer.matrix.exp_avg", optimizer.moments[0].first);
    writer.write(path);
    CHECK_THROWS_WITH_AS(load_checkpoint(path, module, optimizer, state),
                         ("load_checkpoint: " + path +
                          " has no tensor optimizer.matrix.exp_avg_sq; expected the checkpoint of "
                          "the same model and optimizer")
                             .c_str(),
                         IoError);
  }
  SUBCASE("a file that ends early") {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
    CHECK_THROWS_AS(load_checkpoint(path, module, optimizer, state), IoError);
  }
  SUBCASE("no file") { CHECK_THROWS_AS(load_checkpoint(path + "x", module, optimizer, state), IoError); }
  check_same(module, optimizer, state, before, before_optimizer, before_state);
}
