// Mirrors include/attensor/optim/sgd.hpp.

#include "attensor/optim/sgd.hpp"

#include <doctest/doctest.h>

#include "attensor/core/parallel.hpp"
#include "optim/two_parameters.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE_TEMPLATE("sgd: follows the formula, written out in plain numbers", T, float, double) {
  for_random_cases(20, [](Rng& rng, Index size) {
    const SgdOptions options{
        .learning_rate = 0.1, .momentum = rng.below(2) ? 0.9 : 0.0, .weight_decay = rng.below(2) ? 0.1 : 0.0};
    for (const bool nesterov : {false, true}) {
      if (nesterov && options.momentum == 0) continue;
      SgdOptions used = options;
      used.nesterov = nesterov;
      auto got = normal<T>({size}, rng);
      auto want = to<double>(got);
      auto m = zeros<double>({size});
      SgdMoments<T> moments;
      for (int step = 0; step < 5; ++step) {
        const auto grad = normal<T>({size}, rng);
        sgd_update(got, grad, moments, used);
        for (Index i = 0; i < size; ++i) {
          const double g = static_cast<double>(grad(i)) + used.weight_decay * want(i);
          m(i) = used.momentum * m(i) + g;
          want(i) -= used.learning_rate * (nesterov ? g + used.momentum * m(i) : m(i));
        }
      }
      CHECK_NEAR(got, want, (std::is_same_v<T, float> ? 1e-5 : 1e-13));
    }
  });
}

TEST_CASE("sgd: PyTorch's values, with momentum, decay and Nesterov") {
  // torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True), gradients 1 and then -0.5
  Tensor<double, 1> p = {1, -2};
  SgdMoments<double> moments;
  const SgdOptions options{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true};
  sgd_update(p, {1, 1}, moments, options);
  sgd_update(p, {-0.5, -0.5}, moments, options);
  CHECK_NEAR(p, (Tensor<double, 1>{0.7818709999999999, -2.080912}), 1e-14);
}

TEST_CASE("sgd: a parameter without a gradient stays, and one that gets it later starts then") {
  TwoParameters<float> module;
  const auto before = module;
  Sgd<float> optimizer({.learning_rate = 0.5, .momentum = 0.9});
  module.matrix.grad = ones<float>({2, 3});
  optimizer.step(module);
  CHECK(bitwise_equal(module.vector.value, before.vector.value));
  CHECK(optimizer.moments[1].momentum.empty());
  module.vector.grad = ones<float>({4});
  optimizer.step(module);
  CHECK_NEAR(module.vector.value(0), before.vector.value(0) - 0.5f, 1e-7);
  CHECK_NEAR(module.matrix.value(0, 0), before.matrix.value(0, 0) - 0.5f - 0.5f * 1.9f, 1e-6);
}

TEST_CASE("sgd: options that make no sense are refused") {
  CHECK_THROWS_WITH_AS(Sgd<float>({.learning_rate = -1}), "Sgd: learning_rate is -1; expected 0 or more", ValueError);
  CHECK_THROWS_WITH_AS(Sgd<float>({.momentum = not_a_number}), "Sgd: momentum is nan; expected 0 or more", ValueError);
  CHECK_THROWS_WITH_AS(Sgd<float>({.nesterov = true}), "Sgd: nesterov is true; expected a momentum above 0 with it",
                       ValueError);
}

TEST_CASE("sgd: shapes that do not belong together are named") {
  Tensor<float, 2> p(Shape{2, 3});
  SgdMoments<float> moments;
  CHECK_THROWS_WITH_AS(sgd_update(p, zeros<float>({2, 4}), moments, {}),
                       "sgd_update: grad [2,4] has 4 in dim 1; expected 3, the same as value [2,3]", ShapeError);
  moments.momentum = zeros<float>({5});
  CHECK_THROWS_WITH_AS(sgd_update(p, zeros<float>({2, 3}), moments, {.momentum = 0.5}),
                       "sgd_update: moments [5] has 5 in dim 0; expected 6, the size of value [2,3]", ShapeError);
}

TEST_CASE("sgd: the same bits at any number of threads") {
  Rng rng(1);
  const auto start = normal<float>({300, 301}, rng), grad = normal<float>({300, 301}, rng);
  Tensor<float, 2> first;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    auto p = start;
    SgdMoments<float> moments;
    for (int step = 0; step < 3; ++step) sgd_update(p, grad, moments, {.momentum = 0.9, .nesterov = true});
    if (threads == 1) first = p;
    CHECK(bitwise_equal(p, first));
  }
  set_num_threads(0);
}
