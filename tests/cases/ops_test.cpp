// Faults of single operations that users of other libraries met: B01, C02, C03, C04, D01, E01, G09, G10.

#include <doctest/doctest.h>

#include "attensor/layers/linear.hpp"
#include "attensor/layers/norm.hpp"
#include "attensor/ops/activation.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/ops/embedding.hpp"
#include "attensor/ops/sinusoidal_encoding.hpp"
#include "support/case_file.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE_TEMPLATE("B01: softmax of extreme rows", T, float, double) {
  const CaseFile file("B01");
  const double tolerance = file.tolerance<T>();
  const auto x = file.input<T, 2>("x"), dy = file.input<T, 2>("dy");
  const auto y = softmax(x), dx = softmax_backward(dy, y), log_y = log_softmax(x);
  CHECK_NEAR(y, file.expected<T, 2>("y"), tolerance);
  CHECK_NEAR(dx, file.expected<T, 2>("dx"), tolerance);
  const auto want = file.expected<double, 2>("y");
  for (Index i = 0; i < x.extent(0); ++i) {
    double sum = 0;
    for (Index j = 0; j < 4; ++j) {
      sum += static_cast<double>(y(i, j));
      if (std::isinf(x(i, j))) {
        CHECK(bitwise_equal(y(i, j), T(0)));
        CHECK(dx(i, j) == 0);
        CHECK(log_y(i, j) == -static_cast<T>(infinity));
      } else if (want(i, j) > 1e-30) {
        CHECK_NEAR(log_y(i, j), std::log(want(i, j)), tolerance);
      }
    }
    CHECK_NEAR(sum, 1.0, tolerance);
  }
  for (const char* fault : {"y@no_max_shift", "y@max_seed_zero"})
    CHECK(!difference(y, file.faulty<T, 2>(fault), tolerance).empty());
}

TEST_CASE_TEMPLATE("B01, drawn at random: any finite row sums to 1, NaN stays in its row, only -infinity gives zeros",
                   T, float, double) {
  for_random_cases(60, [](Rng& rng, Index size) {
    auto x = normal<T>({5, size}, rng,
                       {.mean = std::pow(10.0, static_cast<double>(random_between(rng, -3, 5))), .stddev = 100});
    std::fill_n(x[1].data(), size, -static_cast<T>(infinity));
    x(2, rng.below(size)) = static_cast<T>(not_a_number);
    std::fill_n(x[3].data(), size, std::numeric_limits<T>::lowest());
    const auto y = softmax(x);
    for (const Index row : {0, 3, 4}) {
      double sum = 0;
      for (Index j = 0; j < size; ++j) sum += static_cast<double>(y(row, j));
      CHECK_NEAR(sum, 1.0, 1e-5);
    }
    CHECK(bitwise_equal(y[1], zeros<T>({size})));
    for (Index j = 0; j < size; ++j) CHECK(std::isnan(y(2, j)));
    CHECK(bitwise_equal(y[0], softmax(x[0])));
  });
}

TEST_CASE_TEMPLATE("C02: layer norm of constant rows, and of rows of one", T, float, double) {
  const CaseFile file("C02");
  const double tolerance = file.tolerance<T>();
  for (const std::string width : {"", "_width1"}) {
    CAPTURE(width);
    const auto x = file.input<T, 2>("x" + width), dy = file.input<T, 2>("dy" + width);
    const auto weight = file.input<T, 1>("gamma" + width), bias = file.input<T, 1>("beta" + width);
    LayerNormSaved<T> saved;
    const auto y = layer_norm(x, weight, bias, {}, &saved);
    const auto grads = layer_norm_backward(dy, x, weight, saved);
    CHECK_NEAR(y, file.expected<T, 2>("y" + width), tolerance);
    CHECK_NEAR(grads.x, file.expected<T, 2>("dx" + width), tolerance);
    CHECK_NEAR(grads.bias, file.expected<T, 1>("dbeta" + width), tolerance);
    CHECK(bitwise_equal(grads.weight, zeros_like(weight)));
    for (Index i = 0; i < x.extent(0); ++i) CHECK(bitwise_equal(y[i], bias));
  }
}

TEST_CASE_TEMPLATE("C02, drawn at random: constant rows of any value give the bias and no gradient of the gain", T,
                   float, double) {
  for_random_cases(60, [](Rng& rng, Index size) {
    const T value = static_cast<T>(rng.normal() * std::pow(10.0, static_cast<double>(random_between(rng, -30, 30))));
    const auto x = full<T>({3, size}, value);
    const auto weight = normal<T>({size}, rng), bias = normal<T>({size}, rng);
    LayerNormSaved<T> saved;
    const auto y = layer_norm(x, weight, bias, {.eps = rng.below(2) == 0 ? 1e-5 : 1e-12}, &saved);
    for (Index i = 0; i < 3; ++i) CHECK(bitwise_equal(y[i], bias));
    const auto grads = layer_norm_backward(normal<T>({3, size}, rng), x, weight, saved);
    CHECK(all_finite(grads.x));
    for (Index j = 0; j < size; ++j) CHECK(grads.weight(j) == 0);
  });
}

TEST_CASE_TEMPLATE("C03: layer norm has the biased variance, and eps inside the root", T, float, double) {
  const CaseFile file("C03");
  const double tolerance = file.tolerance<T>();
  const auto x = file.input<T, 2>("x");
  for (const auto& [name, eps] : {std::pair{"y_eps1e-5", 1e-5}, std::pair{"y_eps1e-12", 1e-12}}) {
    CHECK_NEAR(layer_norm(x, ones<T>({4}), zeros<T>({4}), {.eps = eps}), file.expected<T, 2>(name), tolerance);
    LayerNorm<T> layer(4, eps);
    CHECK_NEAR(layer.forward(x), file.expected<T, 2>(name), tolerance);
  }
  const auto y = layer_norm(x, ones<T>({4}), zeros<T>({4}));
  CHECK(!difference(y, file.faulty<T, 2>("y_eps1e-5@unbiased"), tolerance).empty());
  CHECK(!difference(y, file.faulty<T, 2>("y_eps1e-5@eps_outside"), tolerance).empty());
  CHECK(!difference(file.expected<T, 2>("y_eps1e-12"), file.faulty<T, 2>("y_eps1e-12@wrong_eps"), tolerance).empty());
}

TEST_CASE_TEMPLATE("C04: the gradient of layer norm has both means, each once, with the gain inside", T, float,
                   double) {
  const CaseFile file("C04");
  const double tolerance = file.tolerance<T>();
  const auto x = file.input<T, 2>("x"), dy = file.input<T, 2>("dy");
  const auto weight = file.input<T, 1>("gamma"), bias = file.input<T, 1>("beta");
  LayerNormSaved<T> saved;
  CHECK_NEAR(layer_norm(x, weight, bias, {}, &saved), file.expected<T, 2>("y"), tolerance);
  const auto grads = layer_norm_backward(dy, x, weight, saved);
  CHECK_NEAR(grads.x, file.expected<T, 2>("dx"), tolerance);
  CHECK_NEAR(grads.weight, file.expected<T, 1>("dgamma"), tolerance);
  CHECK_NEAR(grads.bias, file.expected<T, 1>("dbeta"), tolerance);
  for (const char* fault : {"dx@no_xhat_term", "dx@mean_twice", "dx@gamma_outside"}) {
    CHECK(!difference(grads.x, file.faulty<T, 2>(fault), tolerance).empty());
  }
}

TEST_CASE_TEMPLATE("C04, drawn at random: rows of the gradient sum to 0, and a constant dy gives none", T, float,
                   double) {
  for_random_cases(60, [](Rng& rng, Index size) {
    const auto x = normal<T>({4, size}, rng), dy = normal<T>({4, size}, rng);
    const auto weight = normal<T>({size}, rng);
    LayerNormSaved<T> saved;
    (void)layer_norm(x, weight, weight, {}, &saved);
    const auto dx = layer_norm_backward(dy, x, weight, saved).x;
    for (Index i = 0; i < 4; ++i) {
      double sum = 0, magnitude = 0;
      for (Index j = 0; j < size; ++j) {
        sum += static_cast<double>(dx(i, j));
        magnitude += std::abs(static_cast<double>(dx(i, j)));
      }
      CHECK(std::abs(sum) <= 1e-5 * magnitude + 1e-3);
    }
    const auto flat = layer_norm_backward(full<T>({4, size}, T(3)), x, ones<T>({size}), saved).x;
    CHECK_NEAR(flat, zeros_like(flat), 1e-3);
  });
}

TEST_CASE("C04: a layer in front of the norm gets the right gradient through it") {
  for_random_cases(20, [](Rng& rng, Index size) {
    // y = norm(linear(x)); moving x against dx lowers sum(y * dy) by |dx|^2 times the step
    Linear<double> linear({.in_dim = 5, .out_dim = size}, rng);
    LayerNorm<double> norm(size);
    norm.weight.value = normal<double>({size}, rng);
    const auto x = normal<double>({3, 5}, rng), dy = normal<double>({3, size}, rng);
    Linear<double>::Saved saved_linear;
    LayerNorm<double>::Saved saved_norm;
    (void)norm.forward(linear.forward(x, &saved_linear), &saved_norm);
    const auto dx = linear.backward(norm.backward(dy, saved_norm), saved_linear);
    const auto objective = [&](double step) {
      auto moved = x;
      for (Index i = 0; i < x.size(); ++i) moved.data()[i] += step * dx.data()[i];
      const auto y = norm.forward(linear.forward(moved));
      double sum = 0;
      for (Index i = 0; i < y.size(); ++i) sum += y.data()[i] * dy.data()[i];
      return sum;
    };
    double squares = 0;
    for (Index i = 0; i < dx.size(); ++i) squares += dx.data()[i] * dx.data()[i];
    CHECK_NEAR((objective(1e-6) - objective(-1e-6)) / 2e-6, squares, 1e-4);
  });
}

TEST_CASE_TEMPLATE("D01: GELU by erf and by tanh, value and slope", T, float, double) {
  const CaseFile file("D01");
  const double tolerance = file.tolerance<T>();
  const auto x = file.input<T, 1>("x"), dy = ones_like(x);
  CHECK_NEAR(gelu(x), file.expected<T, 1>("erf"), tolerance);
  CHECK_NEAR(gelu_backward(dy, x), file.expected<T, 1>("erf_grad"), tolerance);
  CHECK_NEAR(gelu(x, {.form = GeluForm::tanh}), file.expected<T, 1>("tanh"), tolerance);
  CHECK_NEAR(gelu_backward(dy, x, {.form = GeluForm::tanh}), file.expected<T, 1>("tanh_grad"), tolerance);
  CHECK(!difference(gelu(x), file.expected<T, 1>("tanh"), 1e-4).empty());
}

TEST_CASE_TEMPLATE("D01, beyond the given points: values and slopes up to the largest number", T, float, double) {
  const double largest = static_cast<double>(std::numeric_limits<T>::max());
  for (const Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
    CAPTURE(static_cast<int>(kind));
    for (double x :
         {0.0, 1e-30, 1e-10, 0.1, 0.5, 1.0, 3.0, 8.0, 11.0, 20.0, 50.0, 88.0, 100.0, 700.0, 1e4, 1e10, 1e20, 3e38}) {
      x = std::min(x, largest);
      const auto at = [&](double place) {
        const Tensor<T, 1> in = {static_cast<T>(place)};
        return std::pair{static_cast<double>(activation(in, kind)(0)),
                         static_cast<double>(activation_backward(ones<T>({1}), in, kind)(0))};
      };
      const auto [up, up_slope] = at(x);
      const auto [down, down_slope] = at(-x);
      CAPTURE(x);
      CHECK(std::isfinite(up));
      CHECK(std::isfinite(up_slope));
      CHECK(std::isfinite(down));
      CHECK(std::isfinite(down_slope));
      if (x >= 700) {
        CHECK(std::abs(up - x) <= 1e-6 * x);
        CHECK_NEAR(up_slope, 1.0, 1e-6);
        CHECK(std::abs(down) < 1e-300);
        CHECK(std::abs(down_slope) < 1e-300);
      }
      // f(x) - f(-x) = x and f'(x) + f'(-x) = 1 for all of them
      CHECK(std::abs(up - down - x) <= 1e-6 * x);
      if (x > 0) CHECK_NEAR(up_slope + down_slope, 1.0, 1e-6);
    }
    const Tensor<T, 1> nan = {static_cast<T>(not_a_number)};
    CHECK(std::isnan(activation(nan, kind)(0)));
    if (kind != Activation::relu) CHECK(std::isnan(activation_backward(ones<T>({1}), nan, kind)(0)));
  }
}

TEST_CASE_TEMPLATE("E01: sinusoidal positions of odd width, of width 1, and far out", T, float, double) {
  const CaseFile file("E01");
  const double tolerance = file.tolerance<T>();
  CHECK_NEAR(sinusoidal_encoding<T>(4, 5), file.expected<T, 2>("L4_d5"), tolerance);
  CHECK_NEAR(sinusoidal_encoding<T>(3, 1), file.expected<T, 2>("L3_d1"), tolerance);
  CHECK_NEAR(sinusoidal_encoding<T>(4, 6), file.expected<T, 2>("L4_d6"), tolerance);
  for (const Index position : {9999, 99999}) {
    const auto far = file.expected<T, 1>("d6_pos_" + std::to_string(position));
    CHECK_NEAR(sinusoidal_encoding<T>(1, 6, position)[0], far,
               std::max(tolerance, 1e-11));  // digits of the angle itself
    CHECK(bitwise_equal(sinusoidal_encoding<T>(position + 1, 6)[position], sinusoidal_encoding<T>(1, 6, position)[0]));
  }
  const auto table = sinusoidal_encoding<T>(4, 6);
  CHECK(!difference(table, file.faulty<T, 2>("L4_d6@wrong_exponent"), tolerance).empty());
  CHECK(!difference(table, file.faulty<T, 2>("L4_d6@concatenated"), tolerance).empty());
}

TEST_CASE_TEMPLATE("G09: ids that come twice add up, and the padding row gets nothing", T, float, double) {
  const CaseFile file("G09");
  const double tolerance = file.tolerance<T>();
  const auto weight = file.input<T, 2>("weight");
  const auto ids = file.input<std::int64_t, 2>("ids");
  const auto dy = file.input<T, 3>("dy");
  CHECK_NEAR(embedding(ids, weight), file.expected<T, 3>("y"), tolerance);
  const auto grad = embedding_backward(dy, ids, 5);
  CHECK_NEAR(grad, file.expected<T, 2>("dweight"), tolerance);
  CHECK(bitwise_equal(grad[3], zeros<T>({3})));
  CHECK_NEAR(embedding_backward(dy, ids, 5, {.padding_idx = 0}), file.expected<T, 2>("dweight_padding_idx0"),
             tolerance);
  CHECK(!difference(grad, file.faulty<T, 2>("dweight"), tolerance).empty());
}

TEST_CASE("G09: an id out of range is an error that names it and its place, before anything is read") {
  const auto weight = ones<float>({5, 3});
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1,
                                std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    const Tensor<std::int64_t, 2> ids = {{0, 1, 2}, {3, id, 4}};
    const std::string text =
        "ids [2,3] has " + std::to_string(id) + " at [1,1]; expected an id in [0, 5), the rows of weight";
    CHECK_THROWS_WITH_AS(embedding(ids, weight), ("embedding: " + text).c_str(), ValueError);
    CHECK_THROWS_WITH_AS(embedding_backward(ones<float>({2, 3, 3}), ids, 5), ("embedding_backward: " + text).c_str(),
                         ValueError);
  }
  CHECK_THROWS_AS(embedding(Tensor<std::int64_t, 1>{0}, zeros<float>({0, 3})), ValueError);
}

TEST_CASE("G09, drawn at random: the gradient of each row is the sum over its positions") {
  for_random_cases(40, [](Rng& rng, Index width) {
    const Index rows = random_between(rng, 1, 9), count = random_between(rng, 0, 60),
                padding = random_between(rng, -1, rows - 1);
    Tensor<std::int64_t, 1> ids(Shape{count});
    for (Index i = 0; i < count; ++i) ids(i) = rng.below(rows);
    const auto dy = normal<double>({count, width}, rng);
    auto want = zeros<double>({rows, width});
    for (Index i = 0; i < count; ++i) {
      for (Index j = 0; j < width && ids(i) != padding; ++j) want(ids(i), j) += dy(i, j);
    }
    CHECK(bitwise_equal(embedding_backward(dy, ids, rows, {.padding_idx = padding}), want));
  });
}

TEST_CASE_TEMPLATE("G10: targets that are ignored count neither in the loss nor in its mean", T, float, double) {
  const CaseFile file("G10");
  const double tolerance = file.tolerance<T>();
  const auto logits = file.input<T, 2>("logits");
  const auto targets = file.input<std::int64_t, 1>("targets");
  CHECK_NEAR(cross_entropy(logits, targets), file.expected_number("loss"), tolerance);
  CHECK_NEAR(cross_entropy_backward(logits, targets), file.expected<T, 2>("dlogits"), tolerance);
  CHECK(bitwise_equal(cross_entropy_backward(logits, targets)[1], zeros<T>({4})));
  CHECK(!difference(static_cast<double>(cross_entropy(logits, targets)),
                    static_cast<double>(file.faulty<T, 0>("loss@divided_by_all")()), tolerance)
             .empty());
  const Tensor<std::int64_t, 1> none = {-100, -100, -100};
  CHECK(cross_entropy(logits, none) == 0);
  CHECK(bitwise_equal(cross_entropy_backward(logits, none), zeros_like(logits)));
  CHECK(cross_entropy(Tensor<T, 2>(Shape{0, 4}), Tensor<std::int64_t, 1>(Shape{0})) == 0);
}

TEST_CASE("G10: a target that is no class is an error, and large logits give no infinity") {
  const auto logits = ones<float>({3, 4});
  for (const std::int64_t target : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 32}) {
    const Tensor<std::int64_t, 1> targets = {1, target, 2};
    const std::string text = "targets [3] has " + std::to_string(target) +
                             " at [1]; expected a class id in [0, 4), the columns of logits, or ignore_index -100";
    CHECK_THROWS_WITH_AS(cross_entropy(logits, targets), ("cross_entropy: " + text).c_str(), ValueError);
    CHECK_THROWS_WITH_AS(cross_entropy_backward(logits, targets), ("cross_entropy_backward: " + text).c_str(),
                         ValueError);
  }
  const Tensor<float, 2> extreme = {{1e4f, -1e4f, 0, 3}, {-1e4f, -1e4f, -1e4f, 1e4f}};
  const Tensor<std::int64_t, 1> targets = {1, 3};
  CHECK_NEAR(cross_entropy(extreme, targets), 1e4, 1e-6);
  CHECK(all_finite(cross_entropy_backward(extreme, targets)));
}
