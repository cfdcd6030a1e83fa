// Faults of masks that users of other libraries met: A01, A03, A06, A11.

#include <doctest/doctest.h>

#include "attensor/attention/mask.hpp"
#include "cases/attended.hpp"

using namespace attensor;

TEST_CASE_TEMPLATE("A01: a query whose keys are all masked gives exact zeros, and gradients of zero", T, float,
                   double) {
  const CaseFile file("A01");
  const auto in = AttentionInput<T>::of(file);
  const double tolerance = file.tolerance<T>();
  AttentionOptions<T> masked;
  masked.mask = file.input<bool, 4>("keep");
  for_all_kernels(masked, [&](const AttentionOptions<T>& options) {
    const auto got = in.attend(options);
    CHECK_NEAR(got.result.output, file.expected<T, 4>("out"), tolerance);
    CHECK_NEAR(got.result.logsumexp, file.expected<T, 3>("lse"), tolerance);
    CHECK_NEAR(got.grads.query, file.expected<T, 4>("dq"), tolerance);
    CHECK_NEAR(got.grads.key, file.expected<T, 4>("dk"), tolerance);
    CHECK_NEAR(got.grads.value, file.expected<T, 4>("dv"), tolerance);
    CHECK(all_zero(got.result.output[0][0][1]));
    CHECK(all_zero(got.weights[0][0][1]));
    CHECK(all_zero(got.grads.query[0][0][1]));
    CHECK(!difference(file.faulty<T, 4>("out@nan"), file.expected<T, 4>("out"), tolerance).empty());
    CHECK(!difference(got.result.output, file.faulty<T, 4>("out@mean_of_v"), tolerance).empty());
  });
}

TEST_CASE_TEMPLATE("A01, drawn at random: whatever hides all keys of a query", T, float, double) {
  int hidden = 0;
  for_random_cases(150, [&](Rng& rng) {
    auto c = random_attention(rng, {.longest = 17, .widest = 17, .may_be_empty = false});
    c.options.sinks = {};
    if (rng.below(2) == 0) {
      const Shape<4> scores{c.query.extent(0), c.query.extent(1), c.query.extent(2), c.key.extent(2)};
      c.options.mask = random_mask(random_broadcast(rng, scores), rng, 0.3);
    }
    INFO(text_of(c));
    const auto in = AttentionInput<T>::random(c, rng);
    for_all_kernels(options_for<T>(c.options), [&](const AttentionOptions<T>& options) {
      const auto got = in.attend(options);
      CHECK(got.is_finite());
      for (Index b = 0; b < c.query.extent(0); ++b) {
        for (Index h = 0; h < c.query.extent(1); ++h) {
          for (Index i = 0; i < c.query.extent(2); ++i) {
            if (got.result.logsumexp(b, h, i) != -static_cast<T>(infinity)) continue;
            ++hidden;
            CHECK(all_zero(got.result.output[b][h][i]));
            CHECK(all_zero(got.weights[b][h][i]));
            CHECK(all_zero(got.grads.query[b][h][i]));
          }
        }
      }
    });
  });
  CHECK(hidden > 100);
}

TEST_CASE_TEMPLATE("A03: NaN and infinity in keys and values that are masked reach nothing", T, float, double) {
  const CaseFile file("A03");
  auto in = AttentionInput<T>::of(file, false);
  AttentionOptions<T> masked, shorter;
  masked.mask = key_mask(file.input<bool, 2>("keep_keys"));
  shorter.key_lengths = {2};
  for (const AttentionOptions<T>& hides : {masked, shorter}) {
    for_all_kernels(hides, [&](const AttentionOptions<T>& options) {
      auto clean = in, poisoned = in;
      std::fill_n(clean.key[0][0][2].data(), 4, T(0));
      std::fill_n(clean.value[0][0][2].data(), 4, T(0));
      std::fill_n(poisoned.key[0][0][2].data(), 4, static_cast<T>(not_a_number));
      const std::array values = {not_a_number, infinity, -infinity, 3e38};
      for (Index d = 0; d < 4; ++d) poisoned.value(0, 0, 2, d) = static_cast<T>(values[static_cast<std::size_t>(d)]);
      const auto got = poisoned.attend(options);
      CHECK_NEAR(got.result.output, file.expected<T, 4>("out"), file.tolerance<T>());
      CHECK(got.is_finite());
      CHECK(got == clean.attend(options));
      CHECK(all_zero(got.grads.key[0][0][2]));
      CHECK(all_zero(got.grads.value[0][0][2]));
    });
  }
}

TEST_CASE_TEMPLATE("A03, drawn at random: poison in what a mask, lengths, causal or a window hide from all", T, float,
                   double) {
  for_random_cases(150, [](Rng& rng) {
    const auto c = random_attention(rng, {.longest = 33, .widest = 33, .may_be_empty = false});
    INFO(text_of(c));
    const auto in = AttentionInput<T>::random(c, rng);
    for_all_kernels(options_for<T>(c.options), [&](const AttentionOptions<T>& options) {
      const auto weights_of_clean = in.attend(options).weights;
      auto poisoned = in;
      auto clean = in;
      const Index group = c.query.extent(1) / c.key.extent(1);
      for (Index b = 0; b < c.key.extent(0); ++b) {
        for (Index h = 0; h < c.key.extent(1); ++h) {
          for (Index j = 0; j < c.key.extent(2); ++j) {
            bool seen = false;
            for (Index q = h * group; q < (h + 1) * group; ++q) {
              for (Index i = 0; i < c.query.extent(2); ++i) seen = seen || weights_of_clean(b, q, i, j) != 0;
            }
            if (seen) continue;
            std::fill_n(clean.key[b][h][j].data(), c.key.extent(3), T(0));
            std::fill_n(clean.value[b][h][j].data(), c.value.extent(3), T(0));
            std::fill_n(poisoned.key[b][h][j].data(), c.key.extent(3),
                        static_cast<T>(rng.below(2) == 0 ? infinity : not_a_number));
            std::fill_n(poisoned.value[b][h][j].data(), c.value.extent(3),
                        static_cast<T>(rng.below(2) == 0 ? infinity : not_a_number));
          }
        }
      }
      const auto got = poisoned.attend(options);
      CHECK(got.is_finite());
      CHECK(got == clean.attend(options));
    });
  });
}

TEST_CASE_TEMPLATE("A06: a bias of numbers is added, and one of -infinity masks like a boolean", T, float, double) {
  const CaseFile file("A06");
  const auto in = AttentionInput<T>::of(file, false);
  const double tolerance = file.tolerance<T>();
  const Tensor<T, 4> bias = file.input<T, 2>("key_bias").reshape(Shape{2, 1, 1, 3});
  AttentionOptions<T> biased;
  biased.bias = bias;
  for_all_kernels(biased, [&](AttentionOptions<T> options) {
    const auto got = in.attend(options);
    CHECK_NEAR(got.result.output, file.expected<T, 4>("out"), tolerance);
    CHECK(!difference(got.result.output, file.faulty<T, 4>("out@ignored"), tolerance).empty());
    CHECK(!difference(got.result.output, file.faulty<T, 4>("out@as_bool_nonzero_masks"), tolerance).empty());
    CHECK(got.is_finite());

    auto finite = bias;
    finite(1, 0, 0, 2) = 5;
    options.bias = finite;
    options.mask = key_mask(Tensor<bool, 2>{{true, true, true}, {true, true, false}});
    const auto with_mask = in.attend(options);
    CHECK(with_mask == got);
    CHECK(got.grads.bias(1, 0, 0, 2) == 0);
  });
}

TEST_CASE_TEMPLATE("A06, drawn at random: a boolean mask and a bias of 0 and -infinity are the same", T, float,
                   double) {
  for_random_cases(100, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 17, .widest = 17, .may_be_empty = false});
    c.options.bias = {};
    const Shape<4> scores{c.query.extent(0), c.query.extent(1), c.query.extent(2), c.key.extent(2)};
    const auto mask = random_mask(random_broadcast(rng, scores), rng, 0.6);
    INFO(text_of(c));
    const auto in = AttentionInput<T>::random(c, rng);
    for_all_kernels(options_for<T>(c.options), [&](AttentionOptions<T> options) {
      options.mask = mask;
      const auto masked = in.attend(options);
      auto bias = zeros<T>(mask.shape());
      for (Index i = 0; i < bias.size(); ++i) bias.data()[i] = mask.data()[i] ? T(0) : -static_cast<T>(infinity);
      options.mask = {};
      options.bias = bias;
      const auto biased = in.attend(options);
      CHECK(biased.is_finite());
      CHECK_NEAR(biased.result.output, masked.result.output, 1e-5);
      CHECK_NEAR(biased.result.logsumexp, masked.result.logsumexp, 1e-5);
      CHECK_NEAR(biased.weights, masked.weights, 1e-5);
      CHECK_NEAR(biased.grads.query, masked.grads.query, 1e-4);
      CHECK_NEAR(biased.grads.key, masked.grads.key, 1e-4);
      CHECK_NEAR(biased.grads.value, masked.grads.value, 1e-4);
    });
  });
}

TEST_CASE_TEMPLATE("A11: causal and padding hold together", T, float, double) {
  const CaseFile file("A11");
  const auto in = AttentionInput<T>::of(file);
  const double tolerance = file.tolerance<T>();
  AttentionOptions<T> both;
  both.causal = Causal::top_left;
  both.mask = key_mask(file.input<bool, 2>("key_keep"));
  for_all_kernels(both, [&](AttentionOptions<T> options) {
    const auto got = in.attend(options);
    CHECK_NEAR(got.result.output, file.expected<T, 4>("out"), tolerance);
    CHECK_NEAR(got.result.logsumexp, file.expected<T, 3>("lse"), tolerance);
    CHECK_NEAR(got.grads.query, file.expected<T, 4>("dq"), tolerance);
    CHECK_NEAR(got.grads.key, file.expected<T, 4>("dk"), tolerance);
    CHECK_NEAR(got.grads.value, file.expected<T, 4>("dv"), tolerance);
    for (const Index row : {0, 1}) {
      CHECK(all_zero(got.result.output[1][0][row]));
      CHECK(all_zero(got.grads.query[1][0][row]));
    }
    CHECK(!difference(got.result.output, file.faulty<T, 4>("out@causal_only"), tolerance).empty());
    CHECK(!difference(got.result.output, file.faulty<T, 4>("out@padding_only"), tolerance).empty());

    options.causal = Causal::none;  // the same as two masks
    options.mask = *options.mask & causal_mask(4);
    CHECK_NEAR(in.attend(options).result.output, got.result.output, tolerance);
  });
}

TEST_CASE_TEMPLATE("A11, drawn at random: causal, window, lengths and mask are one conjunction", T, float, double) {
  for_random_cases(100, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 17, .widest = 8, .may_be_empty = false});
    INFO(text_of(c));
    const auto in = AttentionInput<T>::random(c, rng);
    for_all_kernels(options_for<T>(c.options), [&](AttentionOptions<T> options) {
      // What is hidden has weight exactly 0, and each condition alone hides a part of it.
      const auto weights = in.attend(options).weights;
      const auto hides = [&](const AttentionOptions<T>& part) {
        const auto seen = attention_weights(in.query, in.key, part);
        for (Index i = 0; i < seen.size(); ++i) REQUIRE((seen.data()[i] != 0 || weights.data()[i] == 0));
      };
      AttentionOptions<T> alone;
      alone.kernel = options.kernel;
      alone.mask = options.mask;
      hides(alone);
      alone.mask = {};
      alone.key_lengths = options.key_lengths;
      alone.query_lengths = options.query_lengths;
      hides(alone);
      alone.causal = options.causal;
      hides(alone);
      alone.window_left = options.window_left;
      alone.window_right = options.window_right;
      hides(alone);
    });
  });
}
