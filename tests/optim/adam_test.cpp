// Mirrors include/attensor/optim/adam.hpp.

#include "attensor/optim/adam.hpp"

#include <doctest/doctest.h>

#include "attensor/core/parallel.hpp"
#include "optim/two_parameters.hpp"
#include "support/case_file.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

namespace {

/// The parameters after each step, [steps, n].
template <Scalar T>
Tensor<T, 2> path_of(Tensor<T, 1> p, const Tensor<T, 2>& grads, const AdamOptions& options) {
  Tensor<T, 2> path(grads.shape());
  AdamMoments<T> moments;
  for (Index step = 0; step < grads.extent(0); ++step) {
    adam_update(p, contiguous(grads[step]), moments, options);
    std::copy_n(p.data(), p.size(), path[step].data());
  }
  return path;
}

}  // namespace

TEST_CASE_TEMPLATE("adam: case H01, steps from 1, eps after the correction, coupled and decoupled decay", T, float,
                   double) {
  const CaseFile file("H01");
  const auto start = contiguous((file.input<T, 1>("p0")));
  const auto grads = file.input<T, 2>("grads");
  const auto check = [&](const std::string& name, const AdamOptions& options) {
    INFO(name);
    CHECK_NEAR(path_of<T>(start, grads, options), (file.expected<T, 2>(name)), file.tolerance<T>());
  };
  check("adam", {.learning_rate = 0.1});
  check("adam_eps1e-3", {.learning_rate = 0.1, .eps = 1e-3});
  check("adam_l2_0.1", {.learning_rate = 0.1, .weight_decay = 0.1});
  check("adamw_0.1", {.learning_rate = 0.1, .weight_decay = 0.1, .decoupled_decay = true});
}

TEST_CASE_TEMPLATE("adam: follows the formula, written out in plain numbers", T, float, double) {
  for_random_cases(20, [](Rng& rng, Index size) {
    const AdamOptions o{.learning_rate = 0.01,
                        .beta1 = rng.below(2) ? 0.9 : 0.5,
                        .beta2 = rng.below(2) ? 0.999 : 0.95,
                        .eps = 1e-6,
                        .weight_decay = rng.below(2) ? 0.1 : 0.0,
                        .decoupled_decay = rng.below(2) == 1};
    auto got = normal<T>({size}, rng);
    auto p = to<double>(got);
    auto m = zeros<double>({size}), v = zeros<double>({size});
    AdamMoments<T> moments;
    for (int t = 1; t <= 6; ++t) {
      const auto grad = normal<T>({size}, rng);
      adam_update(got, grad, moments, o);
      for (Index i = 0; i < size; ++i) {
        double g = static_cast<double>(grad(i));
        if (o.decoupled_decay) {
          p(i) -= o.learning_rate * o.weight_decay * p(i);
        } else {
          g += o.weight_decay * p(i);
        }
        m(i) = o.beta1 * m(i) + (1 - o.beta1) * g;
        v(i) = o.beta2 * v(i) + (1 - o.beta2) * g * g;
        const double corrected = std::sqrt(v(i) / (1 - std::pow(o.beta2, t)));
        p(i) -= o.learning_rate * (m(i) / (1 - std::pow(o.beta1, t))) / (corrected + o.eps);
      }
    }
    CHECK_NEAR(got, p, (std::is_same_v<T, float> ? 2e-6 : 1e-13));
    CHECK(moments.steps == 6);
  });
}

TEST_CASE("adam: gradients that were always zero leave a parameter as it is, one after another still moves it") {
  Tensor<float, 1> p = {2, 2};
  AdamMoments<float> moments;
  adam_update(p, {0, 1}, moments, {.learning_rate = 0.1});
  const float after_one = p(1);
  adam_update(p, {0, 0}, moments, {.learning_rate = 0.1});
  CHECK(p(0) == 2);
  CHECK(p(1) < after_one);
}

TEST_CASE("adam: a parameter without a gradient stays, and counts its own steps once it has one") {
  TwoParameters<double> module;
  const auto before = module;
  Adam<double> optimizer({.learning_rate = 0.25});
  module.matrix.grad = ones<double>({2, 3});
  for (int step = 0; step < 3; ++step) optimizer.step(module);
  CHECK(bitwise_equal(module.vector.value, before.vector.value));
  module.vector.grad = ones<double>({4});
  optimizer.step(module);
  CHECK(optimizer.moments[0].steps == 4);
  CHECK(optimizer.moments[1].steps == 1);
  CHECK_NEAR(module.vector.value(0), before.vector.value(0) - 0.25, 1e-7);  // a first step is as long as the rate
}

TEST_CASE("adam: AdamW is Adam with decoupled decay of 0.01") {
  TwoParameters<double> a, b;
  a.matrix.grad = b.matrix.grad = full<double>({2, 3}, 0.3);
  AdamW<double> adamw({.learning_rate = 2e-3});
  Adam<double> adam({.learning_rate = 2e-3, .weight_decay = 0.01, .decoupled_decay = true});
  for (int step = 0; step < 3; ++step) {
    adamw.step(a);
    adam.step(b);
  }
  CHECK(bitwise_equal(a.matrix.value, b.matrix.value));
}

TEST_CASE("adam: a copy is a snapshot that goes on with the same bits") {
  Rng rng(3);
  TwoParameters<float> module;
  Adam<float> optimizer({.learning_rate = 0.1});
  const auto gradient = [&] { module.matrix.grad = normal<float>({2, 3}, rng); };
  gradient();
  optimizer.step(module);
  auto other_module = module;
  auto other = optimizer;
  gradient();
  other_module.matrix.grad = module.matrix.grad;
  optimizer.step(module);
  other.step(other_module);
  CHECK(bitwise_equal(module.matrix.value, other_module.matrix.value));
}

TEST_CASE("adam: options that make no sense are refused, at the start and when changed") {
  CHECK_THROWS_WITH_AS(Adam<float>({.beta1 = 1}), "Adam: beta1 is 1; expected 0 or more, and below 1", ValueError);
  CHECK_THROWS_WITH_AS(Adam<float>({.beta2 = -0.5}), "Adam: beta2 is -0.5; expected 0 or more, and below 1",
                       ValueError);
  CHECK_THROWS_WITH_AS(AdamW<float>({.weight_decay = not_a_number}), "Adam: weight_decay is nan; expected 0 or more",
                       ValueError);
  TwoParameters<float> module;
  module.matrix.grad = ones<float>({2, 3});
  Adam<float> optimizer;
  optimizer.options.learning_rate = -2;
  CHECK_THROWS_WITH_AS(optimizer.step(module), "Adam: learning_rate is -2; expected 0 or more", ValueError);
}

TEST_CASE("adam: shapes that do not belong together are named") {
  Tensor<float, 2> p(Shape{2, 3});
  AdamMoments<float> moments{zeros<float>({5}), zeros<float>({5}), 1};
  CHECK_THROWS_WITH_AS(adam_update(p, zeros<float>({3, 3}), moments, {}),
                       "adam_update: grad [3,3] has 3 in dim 0; expected 2, the same as value [2,3]", ShapeError);
  CHECK_THROWS_WITH_AS(adam_update(p, zeros<float>({2, 3}), moments, {}),
                       "adam_update: moments [5] has 5 in dim 0; expected 6, the size of value [2,3]", ShapeError);
}

TEST_CASE("adam: the same bits at any number of threads") {
  Rng rng(1);
  const auto start = normal<float>({300, 301}, rng), grad = normal<float>({300, 301}, rng);
  Tensor<float, 2> first;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    auto p = start;
    AdamMoments<float> moments;
    for (int step = 0; step < 3; ++step) adam_update(p, grad, moments, {.weight_decay = 0.01, .decoupled_decay = true});
    if (threads == 1) first = p;
    CHECK(bitwise_equal(p, first));
  }
  set_num_threads(0);
}
