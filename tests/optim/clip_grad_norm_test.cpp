// Mirrors include/attensor/optim/clip_grad_norm.hpp.

#include "attensor/optim/clip_grad_norm.hpp"

#include <doctest/doctest.h>

#include "optim/two_parameters.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE_TEMPLATE("clip_grad_norm: one factor for all gradients, and the norm that they had", T, float, double) {
  TwoParameters<T> module;
  module.matrix.grad = full<T>({2, 3}, 2);  // 24
  module.vector.grad = {0, 0, -1, 0};       // 1
  CHECK_NEAR(clip_grad_norm(module, {.max_norm = 1}), 5.0, 1e-14);
  CHECK_NEAR(module.matrix.grad, (full<T>({2, 3}, T(2 / (5 + 1e-6)))), 1e-7);
  CHECK_NEAR(module.vector.grad(2), -1 / (5 + 1e-6), 1e-7);
  CHECK_NEAR(grad_norm(module), 1.0, 1e-6);
  CHECK(grad_norm(module) <= 1.0);
}

TEST_CASE("clip_grad_norm: short gradients, absent gradients and zeros keep their bits") {
  TwoParameters<float> module;
  CHECK(clip_grad_norm(module) == 0);
  CHECK(module.matrix.grad.empty());
  module.vector.grad = {0.1f, 0.2f, -0.3f, 0};
  const auto before = module.vector.grad;
  CHECK_NEAR(clip_grad_norm(module, {.max_norm = 0.5}), std::sqrt(0.14), 1e-7);
  CHECK(bitwise_equal(module.vector.grad, before));
  module.vector.grad = zeros<float>({4});
  CHECK(clip_grad_norm(module, {.max_norm = 0}) == 0);
  CHECK(bitwise_equal(module.vector.grad, zeros<float>({4})));
}

TEST_CASE("clip_grad_norm: squares that float cannot hold") {
  TwoParameters<float> module;
  module.vector.grad = {3e30f, 0, 4e30f, 0};
  CHECK_NEAR(clip_grad_norm(module, {.max_norm = 10}), 5e30, 1e-6);
  CHECK_NEAR(module.vector.grad, (Tensor<float, 1>{6, 0, 8, 0}), 1e-6);
}

TEST_CASE("clip_grad_norm: with a NaN or an infinity the gradients stay, and the norm says so") {
  for (const double bad : {not_a_number, infinity, -infinity}) {
    TwoParameters<float> module;
    module.matrix.grad = full<float>({2, 3}, 7);
    module.vector.grad = {0, static_cast<float>(bad), 0, 0};
    const auto before = module;
    CHECK_FALSE(std::isfinite(clip_grad_norm(module)));
    CHECK(bitwise_equal(module.matrix.grad, before.matrix.grad));
    CHECK(bitwise_equal(module.vector.grad, before.vector.grad));
  }
  TwoParameters<float> module;
  module.vector.grad = {0, static_cast<float>(infinity), 0, 0};
  CHECK_THROWS_WITH_AS(clip_grad_norm(module, {.error_if_nonfinite = true}),
                       "clip_grad_norm: the norm of the gradients is inf; expected a finite number", ValueError);
  CHECK_THROWS_WITH_AS(clip_grad_norm(module, {.max_norm = -1}), "clip_grad_norm: max_norm is -1; expected 0 or more",
                       ValueError);
}

TEST_CASE("clip_grad_norm: the same bits at any number of threads") {
  Rng rng(5);
  TwoParameters<float> start;
  start.matrix.grad = normal<float>({311, 313}, rng);
  start.vector.grad = normal<float>({50'001}, rng);
  TwoParameters<float> first;
  double first_norm = 0;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    auto module = start;
    const double norm = clip_grad_norm(module);
    if (threads == 1) {
      first = module;
      first_norm = norm;
    }
    CHECK(norm == first_norm);
    CHECK(bitwise_equal(module.matrix.grad, first.matrix.grad));
    CHECK(bitwise_equal(module.vector.grad, first.vector.grad));
  }
  set_num_threads(0);
}
