// Faults of layers that users of other libraries met: A01 through multi-head attention, A07, F03, G05, G08.

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "attensor/attention/mask.hpp"
#include "attensor/core/layout.hpp"
#include "attensor/io/safetensors_module.hpp"
#include "attensor/layers/encoder.hpp"
#include "attensor/layers/positional_encoding.hpp"
#include "attention/random_attention.hpp"
#include "support/case_file.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

/// The encoder layer of G05, with its weights in T.
template <Scalar T>
EncoderLayer<T> given_layer(bool norm_first) {
  Rng rng(1);
  EncoderLayer<T> layer(
      {.embed_dim = 8, .num_heads = 2, .hidden_dim = 12, .activation = Activation::gelu, .norm_first = norm_first},
      rng);
  load_safetensors(std::string(ATTENSOR_TESTS_DIR) + "/cases/data/layers_f64.safetensors", layer,
                   {.prefix = "encoder."});
  return layer;
}

template <Scalar T>
Encoder<T> given_encoder(Index num_layers) {
  Encoder<T> encoder;
  for (Index i = 0; i < num_layers; ++i) encoder.layers.push_back(given_layer<T>(i % 2 == 1));
  return encoder;
}

Tensor<bool, 4> hides(const std::vector<std::vector<int>>& keep) {
  Tensor<bool, 4> mask(Shape<4>{static_cast<Index>(keep.size()), 1, 1, static_cast<Index>(keep[0].size())});
  bool* next = mask.data();
  for (const auto& row : keep) next = std::transform(row.begin(), row.end(), next, [](int k) { return k != 0; });
  return mask;
}

template <Scalar T>
AttentionOptions<T> with_mask(const Tensor<bool, 4>& mask, Kernel kernel) {
  AttentionOptions<T> options;
  options.mask = mask;
  options.kernel = kernel;
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE(
    "A01: multi-head attention gives the output bias where a query sees nothing, with and without weights", T, float,
    double) {
  for_random_cases(20, [](Rng& rng) {
    const Index heads = random_between(rng, 1, 3), width = heads * random_between(rng, 1, 9),
                length = random_between(rng, 1, 9);
    MultiHeadAttention<T> attention({.embed_dim = width, .num_heads = heads}, rng);
    attention.out_proj.bias.value = normal<T>({width}, rng);
    const auto x = normal<T>({2, length, width}, rng);
    auto mask = random_mask(Shape<4>{2, 1, length, length}, rng, 0.7);
    const Index blind = rng.below(length);
    for (Index j = 0; j < length; ++j) mask(1, 0, blind, j) = false;
    for (const Kernel kernel : all_kernels) {
      const auto options = with_mask<T>(mask, kernel);
      typename MultiHeadAttention<T>::Saved saved;
      const auto y = attention.forward(x, options, &saved);
      CHECK(bitwise_equal(y, attention.forward(x, options)));
      CHECK(bitwise_equal(y[1][blind], attention.out_proj.bias.value));
      const auto weights = attention.weights(x, options);
      CHECK(all_finite(weights));
      for (Index h = 0; h < heads; ++h) CHECK(bitwise_equal(weights[1][h][blind], zeros<T>({length})));
      CHECK(all_finite(attention.backward(normal<T>({2, length, width}, rng), saved)));
      visit_parameters(attention,
                       [](const ParameterPath&, const auto& parameter) { CHECK(all_finite(parameter.grad)); });
    }
  });
}

TEST_CASE_TEMPLATE("A07: padding changes neither the shape of the output nor a bit of the visible rows", T, float,
                   double) {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  const auto encoder = given_encoder<T>(3);
  const auto x = normal<T>({2, 6, 8}, rng);
  for (const Kernel kernel : all_kernels) {
    const auto y = encoder.forward(x, with_mask<T>(hides({{1, 1, 1, 1, 0, 0}, {1, 1, 1, 1, 0, 0}}), kernel));
    CHECK(y.shape() == Shape{2, 6, 8});
    AttentionOptions<T> plain;
    plain.kernel = kernel;
    const auto unpadded = encoder.forward(contiguous(slice(x, 1, 0, 4)), plain);
    CHECK(bitwise_equal(slice(y, 1, 0, 4), unpadded));
  }
}

TEST_CASE_TEMPLATE("A07: padding at the left, in the middle and at the right equals the sequence without it", T, float,
                   double) {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  const auto encoder = given_encoder<T>(2);
  const auto x = normal<T>({1, 4, 8}, rng);
  for (const std::vector<int>& keep :
       {std::vector{0, 1, 0, 1}, {0, 0, 1, 1}, {1, 0, 0, 1}, {1, 1, 1, 0}, {0, 0, 0, 1}}) {
    const Index kept = std::accumulate(keep.begin(), keep.end(), Index{0});
    Tensor<T, 3> without(Shape{1, kept, 8});
    Index next = 0;
    for (Index i = 0; i < 4; ++i) {
      if (keep[static_cast<std::size_t>(i)]) std::copy_n(x[0][i].data(), 8, without[0][next++].data());
    }
    for (const Kernel kernel : all_kernels) {
      const auto y = encoder.forward(x, with_mask<T>(hides({keep}), kernel));
      const auto want = encoder.forward(without);
      next = 0;
      for (Index i = 0; i < 4; ++i) {
        if (keep[static_cast<std::size_t>(i)])
          CHECK_NEAR(y[0][i], want[0][next++], std::is_same_v<T, float> ? 2e-6 : 1e-13);
      }
    }
  }
}

TEST_CASE_TEMPLATE("A07: a sequence has the same bits whatever is in its padding and beside it", T, float, double) {
  for_random_cases(20, [](Rng& rng) {
    const auto encoder = given_encoder<T>(2);
    const Index batch = random_between(rng, 1, 4), length = random_between(rng, 1, 30);
    auto x = normal<T>({batch, length, 8}, rng);
    auto mask = random_mask(Shape<4>{batch, 1, 1, length}, rng, 0.6);
    for (const Kernel kernel : all_kernels) {
      const auto y = encoder.forward(x, with_mask<T>(mask, kernel));
      const Index one = rng.below(batch);
      auto other = normal<T>({batch, length, 8}, rng, {.stddev = 100});
      for (Index s = 0; s < length; ++s) {
        if (mask(one, 0, 0, s)) {
          std::copy_n(x[one][s].data(), 8, other[one][s].data());
        } else {
          std::fill_n(other[one][s].data(), 8, static_cast<T>(rng.below(2) == 0 ? not_a_number : infinity));
        }
      }
      const auto again = encoder.forward(other, with_mask<T>(mask, kernel));
      const auto alone = encoder.forward(contiguous(slice(x, 0, one, one + 1)),
                                         with_mask<T>(contiguous(slice(mask, 0, one, one + 1)), kernel));
      for (Index s = 0; s < length; ++s) {
        if (!mask(one, 0, 0, s)) continue;
        CHECK(bitwise_equal(again[one][s], y[one][s]));
        CHECK(bitwise_equal(alone[0][s], y[one][s]));
      }
    }
  });
}

TEST_CASE_TEMPLATE("F03: learned positions end where they end", T, float, double) {
  Rng rng(1);
  LearnedPositionalEncoding<T> positions({.max_length = 4, .dim = 3}, rng);
  CHECK(bitwise_equal(positions.at(3), positions.weight.value[3]));
  CHECK_THROWS_WITH_AS(positions.at(4), "LearnedPositionalEncoding::at: position is 4; expected a position in [0, 4)",
                       ValueError);
  CHECK_THROWS_WITH_AS(positions.at(-1), "LearnedPositionalEncoding::at: position is -1; expected a position in [0, 4)",
                       ValueError);
  const auto full = positions.forward(zeros<T>({2, 4, 3}));
  CHECK(bitwise_equal(full[1], positions.weight.value));
  CHECK_THROWS_WITH_AS(positions.forward(zeros<T>({2, 5, 3})),
                       "LearnedPositionalEncoding: x [2,5,3] has 5 in dim 1; expected at most 4, the positions that "
                       "were learned (resize "
                       "makes room for more)",
                       ShapeError);
  const auto before = positions.weight.value;
  positions.resize(6, rng);
  CHECK(positions.forward(zeros<T>({1, 6, 3})).shape() == Shape{1, 6, 3});
  CHECK(bitwise_equal(slice(positions.weight.value, 0, 0, 4), before));
}

TEST_CASE_TEMPLATE("F03: sinusoidal positions have no end", T, float, double) {
  const SinusoidalPositionalEncoding<T> positions(5, 3);
  CHECK(bitwise_equal(positions.forward(zeros<T>({1, 9, 5}))[0], sinusoidal_encoding<T>(9, 5)));
}

TEST_CASE_TEMPLATE("G05: encoder layers, post-norm and pre-norm, masked, with all gradients", T, float, double) {
  const CaseFile file("G05");
  const double tolerance = file.tolerance<T>();
  const auto x = file.input<T, 3>("x"), dy = file.input<T, 3>("dy");
  const auto keep = file.input<bool, 2>("key_keep");
  const auto mask = contiguous(keep).reshape(Shape<4>{2, 1, 1, 4});
  for (const bool norm_first : {false, true}) {
    const std::string name = norm_first ? "encoder_pre." : "encoder_post.";
    CAPTURE(name);
    for (const Kernel kernel : all_kernels) {
      Encoder<T> encoder;
      encoder.layers.push_back(given_layer<T>(norm_first));
      typename Encoder<T>::Saved saved;
      const auto y = encoder.forward(x, with_mask<T>(mask, kernel), &saved);
      CHECK_NEAR(y, file.expected<T, 3>(name + "y"), tolerance);
      CHECK_NEAR(encoder.backward(dy, saved), file.expected<T, 3>(name + "dx"), tolerance);
      visit_parameters(encoder.layers[0], [&](const ParameterPath& path, const auto& parameter) {
        constexpr std::size_t rank = rank_v<decltype(parameter.grad)>;
        const std::string parameter_name = path.str();
        CAPTURE(parameter_name);
        CHECK_NEAR(parameter.grad, file.expected<T, rank>(name + "d_" + parameter_name), tolerance);
      });
      if (norm_first) CHECK(!difference(y, file.faulty<T, 3>("encoder_pre.y@residual_from_normed"), tolerance).empty());

      AttentionOptions<T> plain;
      plain.kernel = kernel;
      const auto alone = encoder.forward(contiguous(slice(slice(x, 0, 1, 2), 1, 0, 2)), plain);
      CHECK(bitwise_equal(alone, slice(slice(y, 0, 1, 2), 1, 0, 2)));
    }
  }
}

TEST_CASE_TEMPLATE("G05: a stack ends with a norm where asked for, and with none where not", T, float, double) {
  Rng rng(1);
  const auto x = normal<T>({2, 4, 8}, rng);
  auto encoder = given_encoder<T>(2);
  CHECK(!encoder.final_norm);
  CHECK(bitwise_equal(encoder.forward(x), encoder.layers[1].forward(encoder.layers[0].forward(x))));
  const auto before = encoder.forward(x);
  encoder.final_norm = true;
  encoder.norm = LayerNorm<T>(8);
  CHECK(bitwise_equal(encoder.forward(x), encoder.norm.forward(before)));
}

TEST_CASE_TEMPLATE("G08: queries, keys and values are split before heads, and heads merged side by side", T, float,
                   double) {
  const CaseFile file("G08");
  const double tolerance = file.tolerance<T>();
  Rng rng(1);
  MultiHeadAttention<T> attention({.embed_dim = 4, .num_heads = 2}, rng);
  visit_parameters(attention, [&](const ParameterPath& path, auto& parameter) {
    parameter.value = file.input<T, rank_v<decltype(parameter.value)>>(path.str());
  });
  const auto x = file.input<T, 3>("x"), dy = file.input<T, 3>("dy");
  for (const Kernel kernel : all_kernels) {
    AttentionOptions<T> options;
    options.kernel = kernel;
    typename MultiHeadAttention<T>::Saved saved;
    zero_grad(attention);
    const auto y = attention.forward(x, options, &saved);
    CHECK_NEAR(y, file.expected<T, 3>("y"), tolerance);
    CHECK_NEAR(attention.weights(x, options), file.expected<T, 4>("weights"), tolerance);
    CHECK_NEAR(attention.backward(dy, saved), file.expected<T, 3>("dx"), tolerance);
    visit_parameters(attention, [&](const ParameterPath& path, const auto& parameter) {
      CHECK_NEAR(parameter.grad, file.expected<T, rank_v<decltype(parameter.grad)>>("d_" + path.str()), tolerance);
    });
    for (const char* fault : {"y@merge_without_permute", "y@split_per_head_first"}) {
      CHECK(!difference(y, file.faulty<T, 3>(fault), tolerance).empty());
    }
  }
  CHECK_THROWS_WITH_AS((MultiHeadAttention<T>({.embed_dim = 4, .num_heads = 3}, rng)),
                       "MultiHeadAttention: num_heads is 3; expected a divisor of embed_dim 4", ValueError);
  CHECK_THROWS_WITH_AS((MultiHeadAttention<T>({.embed_dim = 4, .num_heads = 0}, rng)),
                       "MultiHeadAttention: num_heads is 0; expected a divisor of embed_dim 4", ValueError);
}
