// Mirrors include/attensor/attention/attention.hpp: the derivatives of attention with respect to everything that can be
// learned.

#include <doctest/doctest.h>

#include "attensor/attention/attention.hpp"
#include "attention/random_attention.hpp"
#include "support/complex_step.hpp"
#include "support/gradient_check.hpp"

using namespace attensor;

namespace {

/// What may be learned besides query, key and value; empty where the case does not have it.
template <Number T>
struct Learned {
  Tensor<T, 4> bias;
  Tensor<T, 1> slopes;
  Tensor<T, 2> table;
  Tensor<T, 1> sinks;
};

Learned<double> learned(const AttentionOptions<double>& options) {
  Learned<double> all;
  if (options.bias) all.bias = *options.bias;
  if (options.alibi_slopes) all.slopes = *options.alibi_slopes;
  if (options.relative_bias) all.table = *options.relative_bias.table;
  if (options.sinks) all.sinks = *options.sinks;
  return all;
}

/// The options of a case with other learned numbers in them.
template <Number T>
AttentionOptions<T> with(const AttentionOptions<double>& from, const Tensor<T, 4>& bias, const Tensor<T, 1>& slopes,
                         const Tensor<T, 2>& table, const Tensor<T, 1>& sinks) {
  auto options = options_for<T>(from);
  if (options.bias) options.bias = bias;
  if (options.alibi_slopes) options.alibi_slopes = slopes;
  if (options.relative_bias) options.relative_bias.table = table;
  if (options.sinks) options.sinks = sinks;
  return options;
}

/// Output and, where asked for, log-sum-exp as one row of numbers; -infinity, which depends on nothing, as 0.
template <Number T>
Tensor<T, 1> as_row(const AttentionResult<T>& result, bool with_logsumexp) {
  Tensor<T, 1> row(Shape{result.output.size() + (with_logsumexp ? result.logsumexp.size() : 0)});
  T* next = std::copy_n(result.output.data(), result.output.size(), row.data());
  for (Index i = 0; with_logsumexp && i < result.logsumexp.size(); ++i) {
    const T value = result.logsumexp.data()[i];
    *next++ = std::real(value) == -infinity ? T(0) : value;
  }
  return row;
}

struct GradientCase {
  AttentionCase problem;
  bool with_logsumexp;
  std::uint64_t dropout_seed;

  /// The forward pass of any learned numbers; the same dropout mask each time.
  auto forward() const {
    return [this]<class... X>(const X&... x) { return as_row(run(x...), with_logsumexp); };
  }
  auto backward() const {
    return [this](const Tensor<double, 1>& dy, const auto& query, const auto& key, const auto& value, const auto& bias,
                  const auto& slopes, const auto& table, const auto& sinks) {
      const auto result = run(query, key, value, bias, slopes, table, sinks);
      Tensor<double, 4> grad_output(result.output.shape());
      std::copy_n(dy.data(), grad_output.size(), grad_output.data());
      Tensor<double, 3> grad_logsumexp(result.logsumexp.shape());
      if (with_logsumexp) std::copy_n(dy.data() + grad_output.size(), grad_logsumexp.size(), grad_logsumexp.data());
      auto grads = scaled_dot_product_attention_backward(grad_output, query, key, value, result,
                                                         with(problem.options, bias, slopes, table, sinks),
                                                         with_logsumexp ? &grad_logsumexp : nullptr);
      return std::tuple{std::move(grads.query), std::move(grads.key),          std::move(grads.value),
                        std::move(grads.bias),  std::move(grads.alibi_slopes), std::move(grads.relative_bias),
                        std::move(grads.sinks)};
    };
  }

 private:
  template <Number T>
  AttentionResult<T> run(const Tensor<T, 4>& query, const Tensor<T, 4>& key, const Tensor<T, 4>& value,
                         const Tensor<T, 4>& bias, const Tensor<T, 1>& slopes, const Tensor<T, 2>& table,
                         const Tensor<T, 1>& sinks) const {
    auto options = with(problem.options, bias, slopes, table, sinks);
    Rng rng(dropout_seed);
    options.rng = &rng;
    return scaled_dot_product_attention(query, key, value, options);
  }
};

void check(const AttentionCase& problem, bool with_logsumexp, std::uint64_t dropout_seed) {
  INFO(text_of(problem), with_logsumexp ? ", with a gradient of the log-sum-exp" : "");
  for (const Kernel kernel : all_kernels) {
    GradientCase c{problem, with_logsumexp, dropout_seed};
    c.problem.options.kernel = kernel;
    auto l = learned(problem.options);
    check_gradients(c.forward(), c.backward(), problem.query, problem.key, problem.value, l.bias, l.slopes, l.table,
                    l.sinks);
  }
}

AttentionCase small_case(Rng& rng, Index queries = 4, Index keys = 5) {
  return {normal<double>({2, 4, queries, 3}, rng),
          normal<double>({2, 2, keys, 3}, rng),
          normal<double>({2, 2, keys, 2}, rng),
          {}};
}

/// All 16 shapes that broadcast to the scores.
template <class Body>
void for_each_broadcast(const Shape<4>& scores, Body&& body) {
  for (unsigned pattern = 0; pattern < 16; ++pattern) {
    Shape<4> shape = scores;
    for (std::size_t d = 0; d < 4; ++d) shape[d] = (pattern >> d & 1) ? 1 : shape[d];
    body(shape);
  }
}

}  // namespace

TEST_CASE("attention: gradients match finite differences over a random cross of all options") {
  for_random_cases(150, [](Rng& rng) {
    const auto problem = random_attention(rng, {.longest = 9, .widest = 8, .batch = 2, .bias_may_hide = false});
    const bool with_logsumexp = rng.below(2) == 0;
    check(problem, with_logsumexp, rng.next64());
  });
}

TEST_CASE("attention: gradients match finite differences at head dims of 1, 3, 40, 80 and lengths of 1 to 65") {
  for_random_cases(1, [](Rng& rng) {
    for (const Index width : {1, 3, 40, 80}) {
      for (const Index keys : {1, 2, 17, 65}) {
        const AttentionCase problem{normal<double>({1, 1, 3, width}, rng),
                                    normal<double>({1, 1, keys, width}, rng),
                                    normal<double>({1, 1, keys, width}, rng),
                                    {}};
        check(problem, false, 0);
      }
    }
  });
}

TEST_CASE("attention: a bias has its gradient in its own shape, however it is broadcast") {
  for_random_cases(1, [](Rng& rng) {
    for_each_broadcast({2, 4, 4, 5}, [&](const Shape<4>& shape) {
      auto problem = small_case(rng);
      problem.options.bias = normal<double>(shape, rng);
      problem.options.causal = Causal::bottom_right;
      check(problem, true, 0);
    });
  });
}

TEST_CASE("attention: gradients match finite differences under a mask, however it is broadcast") {
  for_random_cases(1, [](Rng& rng) {
    for_each_broadcast({2, 4, 4, 5}, [&](const Shape<4>& shape) {
      auto problem = small_case(rng);
      problem.options.mask = random_mask(shape, rng, 0.6);
      if (rng.below(2) == 0) problem.options.sinks = normal<double>({4}, rng);
      check(problem, true, 0);
    });
  });
}

TEST_CASE("attention: each option alone has the right gradient") {
  for_random_cases(2, [](Rng& rng) {
    const auto one = [&](auto&& set) {
      auto problem = small_case(rng);
      set(problem.options);
      check(problem, true, rng.next64());
    };
    one([](auto&) {});
    one([](auto& o) { o.causal = Causal::top_left; });
    one([](auto& o) { o.causal = Causal::bottom_right; });
    one([](auto& o) { o.scale = -0.7; });
    one([](auto& o) { o.scale = 0; });
    one([](auto& o) { o.key_lengths = {0, 3}; });
    one([](auto& o) { o.query_lengths = {2, 0}; });
    one([](auto& o) { o.window_left = 1; });
    one([](auto& o) { o.window_right = 0; });
    one([](auto& o) { o.softcap = 0.8; });
    one([&](auto& o) { o.alibi_slopes = uniform<double>({4}, rng); });
    one([&](auto& o) { o.relative_bias = {normal<double>({6, 4}, rng), true, 5}; });
    one([&](auto& o) { o.relative_bias = {normal<double>({5, 4}, rng), false, 4}; });
    one([&](auto& o) { o.sinks = normal<double>({4}, rng); });
    one([](auto& o) { o.dropout = 0.4; });
    one([](auto& o) { o.dropout = 1; });
  });
}

TEST_CASE("attention: more queries than keys under bottom-right causal leave the first rows without a gradient") {
  Rng rng(1);
  auto problem = small_case(rng, 7, 3);
  problem.options.causal = Causal::bottom_right;
  check(problem, true, 0);
  const auto result = scaled_dot_product_attention(problem.query, problem.key, problem.value, problem.options);
  const auto grads = scaled_dot_product_attention_backward(result.output, problem.query, problem.key, problem.value,
                                                           result, problem.options);
  for (Index i = 0; i < 4; ++i) {
    CHECK(bitwise_equal(grads.query[0][0][i], zeros<double>({3})));
    CHECK(result.logsumexp(0, 0, i) == -infinity);
  }
}

TEST_CASE("attention: gradients match complex steps over a random cross of all options") {
  for_random_cases(40, [](Rng& rng) {
    GradientCase c{random_attention(rng, {.longest = 7, .widest = 5, .batch = 2, .bias_may_hide = false}), true, 0};
    c.problem.options.dropout = 0;  // masks are drawn for real numbers alone
    INFO(text_of(c.problem));
    const auto l = learned(c.problem.options);
    check_complex_step(c.forward(), c.backward(), rng, c.problem.query, c.problem.key, c.problem.value, l.bias,
                       l.slopes, l.table, l.sinks);
  });
}

TEST_CASE("attention: gradients that were not asked for are empty") {
  Rng rng(1);
  const auto problem = small_case(rng);
  const auto result = scaled_dot_product_attention(problem.query, problem.key, problem.value);
  const auto grads =
      scaled_dot_product_attention_backward(result.output, problem.query, problem.key, problem.value, result);
  CHECK(grads.bias.empty());
  CHECK(grads.alibi_slopes.empty());
  CHECK(grads.sinks.empty());
  CHECK(grads.relative_bias.empty());
}

TEST_CASE("attention: float gradients are as near to double's as float can be") {
  for_random_cases(60, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 33, .widest = 40});
    c.options.scale = {};
    INFO(text_of(c));
    const auto dy = normal<double>({c.query.extent(0), c.query.extent(1), c.query.extent(2), c.value.extent(3)}, rng);
    const auto seed = rng.next64();
    const auto run = [&]<class T>(T) {
      auto options = options_for<T>(c.options);
      Rng mask_rng(seed);
      options.rng = &mask_rng;
      const auto q = to<T>(c.query), k = to<T>(c.key), v = to<T>(c.value);
      const auto result = scaled_dot_product_attention(q, k, v, options);
      return scaled_dot_product_attention_backward(to<T>(dy), q, k, v, result, options);
    };
    const auto got = run(float{});
    const auto want = run(double{});
    CHECK_NEAR(got.query, want.query, 1e-4);
    CHECK_NEAR(got.key, want.key, 1e-4);
    CHECK_NEAR(got.value, want.value, 1e-4);
    CHECK_NEAR(got.bias, want.bias, 1e-4);
    CHECK_NEAR(got.relative_bias, want.relative_bias, 1e-3);
    CHECK_NEAR(got.alibi_slopes, want.alibi_slopes, 1e-2);  // multiplied by distances
    CHECK_NEAR(got.sinks, want.sinks, 1e-4);
  });
}
