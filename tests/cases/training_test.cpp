// Faults of optimizers that users of other libraries met: H01.

#include <doctest/doctest.h>

#include "attensor/optim/adam.hpp"
#include "support/case_file.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE_TEMPLATE("H01: Adam and AdamW, step by step", T, float, double) {
  const CaseFile file("H01");
  const double tolerance = file.tolerance<T>();
  const auto grads = file.input<T, 2>("grads");
  const auto path = [&](const AdamOptions& options) {
    auto parameter = file.input<T, 1>("p0");
    AdamMoments<T> moments;
    auto steps = empty_like(grads);
    for (Index step = 0; step < grads.extent(0); ++step) {
      adam_update(parameter, contiguous(grads[step]), moments, options);
      std::copy_n(parameter.data(), 4, steps[step].data());
    }
    return steps;
  };
  const auto plain = path({.learning_rate = 0.1});
  const auto eps = path({.learning_rate = 0.1, .eps = 1e-3});
  const auto coupled = path({.learning_rate = 0.1, .weight_decay = 0.1});
  const auto decoupled = path({.learning_rate = 0.1, .weight_decay = 0.1, .decoupled_decay = true});
  CHECK_NEAR(plain, file.expected<T, 2>("adam"), tolerance);
  CHECK_NEAR(eps, file.expected<T, 2>("adam_eps1e-3"), tolerance);
  CHECK_NEAR(coupled, file.expected<T, 2>("adam_l2_0.1"), tolerance);
  CHECK_NEAR(decoupled, file.expected<T, 2>("adamw_0.1"), tolerance);
  CHECK(!difference(plain, file.faulty<T, 2>("adam@no_bias_correction"), tolerance).empty());
  CHECK(!difference(eps, file.faulty<T, 2>("adam_eps1e-3@eps_before_correction"), tolerance).empty());
  CHECK(!difference(coupled, file.faulty<T, 2>("adam_l2_0.1@decoupled"), tolerance).empty());
  CHECK(!difference(decoupled, file.faulty<T, 2>("adamw_0.1@coupled"), tolerance).empty());
  CHECK(plain(3, 2) == T(2));         // its gradient was zero from the start
  CHECK(plain(2, 0) != plain(1, 0));  // a zero gradient after others moves it on
}

TEST_CASE_TEMPLATE("H01, drawn at random: the update is that of the formula for gradients of any size", T, float,
                   double) {
  for_random_cases(60, [](Rng& rng, Index size) {
    const double rate = 0.01, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, decay = rng.below(2) == 0 ? 0 : 0.1;
    const bool decoupled = rng.below(2) == 0;
    auto parameter = normal<T>({size}, rng);
    auto p = to<double>(parameter), m = zeros<double>({size}), v = zeros<double>({size});
    AdamMoments<T> moments;
    for (int t = 1; t <= 6; ++t) {
      auto grad = normal<T>({size}, rng);
      for (Index i = 0; i < size; ++i) grad(i) *= static_cast<T>(std::pow(10.0, static_cast<double>(i % 9 - 5)));
      grad(0) = 0;
      adam_update(parameter, grad, moments,
                  {.learning_rate = rate,
                   .beta1 = beta1,
                   .beta2 = beta2,
                   .eps = eps,
                   .weight_decay = decay,
                   .decoupled_decay = decoupled});
      for (Index i = 0; i < size; ++i) {
        double g = static_cast<double>(grad(i));
        if (decoupled) p(i) -= rate * decay * p(i);
        if (!decoupled) g += decay * p(i);
        m(i) = beta1 * m(i) + (1 - beta1) * g;
        v(i) = beta2 * v(i) + (1 - beta2) * g * g;
        p(i) -= rate * (m(i) / (1 - std::pow(beta1, t))) / (std::sqrt(v(i) / (1 - std::pow(beta2, t))) + eps);
      }
    }
    CHECK_NEAR(parameter, p, std::is_same_v<T, float> ? 1e-5 : 1e-12);
  });
}
