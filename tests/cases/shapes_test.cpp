// Faults of attention's shapes that users of other libraries met: A10, A12, A14, A15, A18, A19, A23.

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "attensor/layers/embedding.hpp"
#include "attensor/layers/feed_forward.hpp"
#include "attensor/layers/norm.hpp"
#include "attensor/ops/softmax.hpp"
#include "cases/attended.hpp"

using namespace attensor;

namespace {

template <Scalar T>
constexpr double loose = std::is_same_v<T, float> ? 2e-5 : 1e-12;

}  // namespace

TEST_CASE_TEMPLATE("A10: causal with fewer queries than keys follows the alignment that it names", T, float, double) {
  const CaseFile file("A10_2x5");
  const auto in = AttentionInput<T>::of(file);
  const double tolerance = file.tolerance<T>();
  for (const bool bottom_right : {false, true}) {
    const std::string name = bottom_right ? "bottom_right" : "top_left";
    CAPTURE(name);
    AttentionOptions<T> causal, masked;
    causal.causal = bottom_right ? Causal::bottom_right : Causal::top_left;
    masked.mask = file.input<bool, 4>("keep_" + name);
    for (const auto& given : {causal, masked}) {
      for_all_kernels(given, [&](const AttentionOptions<T>& options) {
        const auto got = in.attend(options);
        CHECK_NEAR(got.result.output, file.expected<T, 4>(name + ".out"), tolerance);
        CHECK_NEAR(got.result.logsumexp, file.expected<T, 3>(name + ".lse"), tolerance);
        CHECK_NEAR(got.grads.query, file.expected<T, 4>(name + ".dq"), tolerance);
        CHECK_NEAR(got.grads.key, file.expected<T, 4>(name + ".dk"), tolerance);
        CHECK_NEAR(got.grads.value, file.expected<T, 4>(name + ".dv"), tolerance);
      });
    }
  }
}

TEST_CASE_TEMPLATE("A10, drawn at random: bottom-right lets the last query see the last key, and no key gives zeros", T,
                   float, double) {
  for_random_cases(60, [](Rng& rng) {
    const Index queries = random_between(rng, 1, 40), keys = random_between(rng, 1, 40);
    AttentionCase c{normal<double>({1, 2, queries, 8}, rng),
                    normal<double>({1, 2, keys, 8}, rng),
                    normal<double>({1, 2, keys, 5}, rng),
                    {}};
    c.options.causal = Causal::bottom_right;
    INFO(text_of(c));
    const auto in = AttentionInput<T>::random(c, rng);
    for_all_kernels(options_for<T>(c.options), [&](const AttentionOptions<T>& options) {
      const auto got = in.attend(options);
      CHECK(got.is_finite());
      for (Index i = 0; i < queries; ++i) {
        const Index visible = std::clamp<Index>(i + 1 + keys - queries, 0, keys);
        for (Index j = 0; j < keys; ++j) REQUIRE((got.weights(0, 1, i, j) != 0) == (j < visible));
        if (visible > 0) continue;
        CHECK(all_zero(got.result.output[0][1][i]));
        CHECK(all_zero(got.grads.query[0][1][i]));
        CHECK(got.result.logsumexp(0, 1, i) == -static_cast<T>(infinity));
      }
    });
  });
}

TEST_CASE_TEMPLATE("A10: one query against a full cache sees every key", T, float, double) {
  Rng rng(1);
  const auto query = normal<T>({1, 1, 1, 4}, rng), key = normal<T>({1, 1, 9, 4}, rng),
             value = normal<T>({1, 1, 9, 4}, rng);
  AttentionOptions<T> bottom_right;
  bottom_right.causal = Causal::bottom_right;
  for_all_kernels(bottom_right, [&](AttentionOptions<T> options) {
    const auto cached = scaled_dot_product_attention(query, key, value, options);
    options.causal = Causal::none;
    CHECK_NEAR(cached.output, scaled_dot_product_attention(query, key, value, options).output, loose<T>);
  });
}

TEST_CASE_TEMPLATE("A12: windows are inclusive on both sides", T, float, double) {
  const CaseFile file("A12");
  const auto in = AttentionInput<T>::of(file, false);
  const double tolerance = file.tolerance<T>();
  for (const auto& [left, right] : {std::pair<Index, Index>{2, 0}, {1, 1}, {5, 0}}) {
    const std::string name = "left" + std::to_string(left) + "_right" + std::to_string(right);
    CAPTURE(name);
    AttentionOptions<T> window;
    window.window_left = left;
    window.window_right = right;
    for_all_kernels(window, [&](const AttentionOptions<T>& options) {
      const auto got = in.attend(options);
      CHECK_NEAR(got.result.output, file.expected<T, 4>("out_" + name), tolerance);
      const auto keep = file.expected<T, 2>("keep_" + name);
      for (Index i = 0; i < 6; ++i) {
        for (Index j = 0; j < 6; ++j) CHECK((got.weights(0, 0, i, j) != 0) == (keep(i, j) != 0));
      }
      if (left == 2)
        CHECK(!difference(got.result.output, file.faulty<T, 4>("out_left2_right0@one_too_many"), tolerance).empty());
    });
  }
}

TEST_CASE_TEMPLATE("A12: left L-1 and right 0 are causal, and no right side is no limit when there are more queries", T,
                   float, double) {
  const CaseFile file("A12");
  const auto in = AttentionInput<T>::of(file, false);
  AttentionOptions<T> window, causal;
  window.window_left = 5;
  window.window_right = 0;
  causal.causal = Causal::top_left;
  for_all_kernels(window, [&](const AttentionOptions<T>& options) {
    causal.kernel = options.kernel;
    CHECK(in.attend(options) == in.attend(causal));
  });
  AttentionInput<T> fewer_keys = in;
  fewer_keys.key = contiguous(slice(in.key, 2, 0, 4));
  fewer_keys.value = contiguous(slice(in.value, 2, 0, 4));
  for (const Index left : {Index{-1}, Index{5}, std::numeric_limits<Index>::max()}) {
    AttentionOptions<T> wide;
    wide.window_left = left;
    for_all_kernels(wide, [&](const AttentionOptions<T>& options) {
      CHECK_NEAR(fewer_keys.attend(options).result.output, file.expected<T, 4>("out_q6_k4_rightInf"),
                 file.tolerance<T>());
    });
  }
}

TEST_CASE_TEMPLATE("A14: the scale is that of the head's key width, and values may be wider", T, float, double) {
  const CaseFile file("A14");
  const auto in = AttentionInput<T>::of(file);
  const double tolerance = file.tolerance<T>();
  for_all_kernels(AttentionOptions<T>{}, [&](const AttentionOptions<T>& options) {
    const auto got = in.attend(options);
    CHECK(got.result.output.extent(3) == 6);
    CHECK_NEAR(got.result.output, file.expected<T, 4>("out"), tolerance);
    CHECK_NEAR(got.result.logsumexp, file.expected<T, 3>("lse"), tolerance);
    CHECK_NEAR(got.grads.query, file.expected<T, 4>("dq"), tolerance);
    CHECK_NEAR(got.grads.key, file.expected<T, 4>("dk"), tolerance);
    CHECK_NEAR(got.grads.value, file.expected<T, 4>("dv"), tolerance);
    for (const char* fault : {"out@scale_model_dim", "out@scale_dv"}) {
      CHECK(!difference(got.result.output, file.faulty<T, 4>(fault), tolerance).empty());
    }
  });
}

TEST_CASE_TEMPLATE("A15: query head h uses key head h / group, whose gradients are sums over the group", T, float,
                   double) {
  const CaseFile file("A15");
  const auto in = AttentionInput<T>::of(file);
  const double tolerance = file.tolerance<T>();
  for_all_kernels(AttentionOptions<T>{}, [&](const AttentionOptions<T>& options) {
    const auto got = in.attend(options);
    CHECK_NEAR(got.result.output, file.expected<T, 4>("out"), tolerance);
    CHECK_NEAR(got.grads.query, file.expected<T, 4>("dq"), tolerance);
    CHECK_NEAR(got.grads.key, file.expected<T, 4>("dk"), tolerance);
    CHECK_NEAR(got.grads.value, file.expected<T, 4>("dv"), tolerance);
    CHECK(!difference(got.result.output, file.faulty<T, 4>("out@tiled"), tolerance).empty());
    CHECK(!difference(got.grads.key, file.faulty<T, 4>("dk@last_head_only"), tolerance).empty());
    CHECK(!difference(got.grads.value, file.faulty<T, 4>("dv@last_head_only"), tolerance).empty());
  });
  CHECK_THROWS_WITH_AS(
      scaled_dot_product_attention(zeros<T>({1, 3, 2, 2}), zeros<T>({1, 2, 2, 2}), zeros<T>({1, 2, 2, 2})),
      "scaled_dot_product_attention: query [1,3,2,2] has 3 in dim 1; expected a multiple of 2, the heads of key "
      "[1,2,2,2]",
      ShapeError);
}

TEST_CASE_TEMPLATE("A18: heads of any width", T, float, double) {
  const CaseFile file("A18");
  const double tolerance = file.tolerance<T>();
  const Index length = 9;
  for (const Index width : {1, 2, 3, 5, 7, 12, 17, 31, 33, 63, 65, 100}) {
    const std::string name = "D" + std::to_string(width) + ".";
    CAPTURE(width);
    // Memory of exactly this size, so that a sanitizer sees any step beyond; float(f(i)) as in the case.
    const auto numbers = [&](auto&& f) {
      std::vector<T> all(static_cast<std::size_t>(length * width));
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<T>(static_cast<float>(f(static_cast<double>(i))));
      return all;
    };
    const auto q = numbers([](double i) { return std::sin(0.37 * i + 0.1); });
    const auto k = numbers([](double i) { return std::cos(0.23 * i); });
    const auto v = numbers([](double i) { return std::sin(0.11 * i + 0.5); });
    const auto dout = numbers([](double i) { return std::cos(0.3 * i); });
    const auto view = [&](const std::vector<T>& all) {
      return View<const T, 4>(all.data(), Shape<4>{1, 1, length, width});
    };
    AttentionOptions<T> causal;
    causal.causal = Causal::top_left;
    for_all_kernels(causal, [&](const AttentionOptions<T>& options) {
      const auto result = scaled_dot_product_attention(view(q), view(k), view(v), options);
      const auto grads = scaled_dot_product_attention_backward(view(dout), view(q), view(k), view(v), result, options);
      CHECK_NEAR(result.output[0][0][8], file.expected<T, 1>(name + "out_last_row"), tolerance);
      CHECK_NEAR(result.logsumexp[0][0], file.expected<T, 1>(name + "lse"), tolerance);
      CHECK_NEAR(grads.query[0][0][8], file.expected<T, 1>(name + "dq_last_row"), tolerance);
      CHECK_NEAR(grads.key[0][0][0], file.expected<T, 1>(name + "dk_row0"), tolerance);
      CHECK_NEAR(grads.value[0][0][0], file.expected<T, 1>(name + "dv_row0"), tolerance);
      double sum = 0;
      for (Index i = 0; i < result.output.size(); ++i) sum += static_cast<double>(result.output.data()[i]);
      CHECK_NEAR(sum, file.expected_number(name + "out_sum"), tolerance);
    });
  }
}

TEST_CASE_TEMPLATE("A19: nothing in, nothing out", T, float, double) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for_all_kernels(AttentionOptions<T>{}, [&](const AttentionOptions<T>& options) {
      const auto attend = [&](const Shape<4>& q, const Shape<4>& k) {
        Rng rng(1);
        return AttentionInput<T>{normal<T>(q, rng), normal<T>(k, rng), normal<T>(k, rng), normal<T>(q, rng)}.attend(
            options);
      };
      const auto no_batch = attend({0, 2, 3, 4}, {0, 2, 5, 4});
      CHECK(no_batch.result.output.shape() == Shape{0, 2, 3, 4});
      CHECK(no_batch.grads.key.shape() == Shape{0, 2, 5, 4});
      const auto no_queries = attend({1, 2, 0, 4}, {1, 2, 5, 4});
      CHECK(no_queries.result.output.shape() == Shape{1, 2, 0, 4});
      CHECK(bitwise_equal(no_queries.grads.key, zeros<T>({1, 2, 5, 4})));
      CHECK(bitwise_equal(no_queries.grads.value, zeros<T>({1, 2, 5, 4})));
      const auto no_keys = attend({1, 2, 3, 4}, {1, 2, 0, 4});
      CHECK(bitwise_equal(no_keys.result.output, zeros<T>({1, 2, 3, 4})));
      CHECK(bitwise_equal(no_keys.grads.query, zeros<T>({1, 2, 3, 4})));
      CHECK(bitwise_equal(no_keys.result.logsumexp, full<T>({1, 2, 3}, -static_cast<T>(infinity))));
    });
    Rng rng(2);
    const Tensor<T, 3> nothing(Shape{2, 0, 8});
    CHECK(softmax(nothing).shape() == nothing.shape());
    CHECK(gelu(nothing).shape() == nothing.shape());
    CHECK(LayerNorm<T>(8).forward(nothing).shape() == nothing.shape());
    CHECK(FeedForward<T>({.embed_dim = 8}, rng).forward(nothing).shape() == nothing.shape());
    CHECK(Embedding<T>({.vocab_size = 3, .embed_dim = 8}, rng).forward(Tensor<std::int64_t, 2>(Shape{2, 0})).shape() ==
          nothing.shape());
    CHECK(softmax(Tensor<T, 2>(Shape{3, 0})).shape() == Shape{3, 0});
    typename LayerNorm<T>::Saved saved;
    LayerNorm<T> norm(8);
    (void)norm.forward(nothing, &saved);
    CHECK(norm.backward(nothing, saved).shape() == nothing.shape());
    CHECK(bitwise_equal(norm.weight.grad, zeros<T>({8})));
    typename FeedForward<T>::Saved saved_network;
    FeedForward<T> network({.embed_dim = 8, .hidden_dim = 5}, rng);
    (void)network.forward(nothing, nullptr, &saved_network);
    CHECK(network.backward(nothing, saved_network).shape() == nothing.shape());
    CHECK(bitwise_equal(network.linear1.weight.grad, zeros<T>({5, 8})));
  }
  set_num_threads(0);
}

TEST_CASE_TEMPLATE("A23: a bias that was broadcast gets its gradient in its own shape", T, float, double) {
  const CaseFile file("A23");
  const auto in = AttentionInput<T>::of(file);
  const double tolerance = file.tolerance<T>();
  for (const char* shape : {"1x1x3x4", "1x2x3x4", "2x1x1x4"}) {
    CAPTURE(shape);
    AttentionOptions<T> biased;
    biased.bias = file.input<T, 4>(std::string("bias_") + shape);
    for_all_kernels(biased, [&](const AttentionOptions<T>& options) {
      const auto got = in.attend(options);
      CHECK_NEAR(got.result.output, file.expected<T, 4>(std::string("out_") + shape), tolerance);
      CHECK_NEAR(got.grads.bias, file.expected<T, 4>(std::string("dbias_") + shape), tolerance);
    });
  }
}
