// Faults of memory and layout that users of other libraries met: I01, I02, I04.

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "attensor/attention/attention.hpp"
#include "attensor/core/layout.hpp"
#include "attensor/layers/linear.hpp"
#include "attensor/ops/activation.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/ops/embedding.hpp"
#include "attensor/ops/layer_norm.hpp"
#include "attensor/ops/rms_norm.hpp"
#include "support/case_file.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE_TEMPLATE("I01: a result may take the place of what it was made from", T, float, double) {
  const CaseFile file("I01");
  auto a = file.input<T, 2>("a");
  a = transpose(a, 0, 1);
  CHECK(bitwise_equal(a, file.expected<T, 2>("a_transposed")));
  CHECK(!bitwise_equal(a, file.faulty<T, 2>("a_transposed")));

  auto x = file.input<T, 2>("x");
  x = linear(x, transpose(file.input<T, 2>("w"), 0, 1));
  CHECK_NEAR(x, file.expected<T, 2>("x_times_w"), file.tolerance<T>());

  Tensor<T, 1> s = {1, 2, 3, 4};
  const auto first = contiguous(slice(s, 0, 0, 3));
  matrix(s).rightCols(3) = matrix(first);
  CHECK(bitwise_equal(s, file.expected<T, 1>("shift_right_overlap")));
}

TEST_CASE_TEMPLATE("I01: layers and ops applied in place of their input", T, float, double) {
  for_random_cases(20, [](Rng& rng, Index size) {
    const auto before = normal<T>({3, size}, rng);
    auto x = before;
    x = softmax(x);
    CHECK(bitwise_equal(x, softmax(before)));
    x = before;
    x = gelu(x);
    CHECK(bitwise_equal(x, gelu(before)));
    const Linear<T> layer({.in_dim = size, .out_dim = size}, rng);
    x = before;
    x = layer.forward(x);
    CHECK(bitwise_equal(x, layer.forward(before)));
    x = contiguous(slice(x, 0, 1, 2));  // a part of itself
    CHECK(bitwise_equal(x[0], layer.forward(before)[1]));
  });
}

TEST_CASE_TEMPLATE("I02: rows come first, also in Eigen's eyes", T, float, double) {
  const CaseFile file("I02");
  auto flat = file.input<T, 1>("data"), square_flat = file.input<T, 1>("square");
  const auto t = flat.reshape(Shape{2, 3});
  CHECK(t(1, 0) == static_cast<T>(file.expected_number("t_1_0")));
  CHECK(t(0, 2) == static_cast<T>(file.expected_number("t_0_2")));
  CHECK(matrix(t)(1, 0) == t(1, 0));
  CHECK(matrix(t)(0, 2) == t(0, 2));
  const auto square = square_flat.reshape(Shape{2, 2});
  CHECK(square(0, 1) == static_cast<T>(file.expected_number("square_0_1")));
  CHECK(matrix(square)(0, 1) == square(0, 1));
  CHECK(square(0, 1) != file.faulty<T, 0>("square_0_1")());
  const Eigen::Matrix<T, 2, 2> copy = matrix(square);  // column-major, by Eigen's default
  CHECK(copy(0, 1) == square(0, 1));
}

namespace {

/// A copy of x that begins `offset` elements behind an aligned address, in memory of its own.
template <Scalar T, std::size_t Rank>
struct Shifted {
  std::vector<T> memory;
  View<const T, Rank> view;

  Shifted(const Tensor<T, Rank>& x, Index offset) : memory(static_cast<std::size_t>(x.size() + 32)) {
    auto* aligned = memory.data();
    while (reinterpret_cast<std::uintptr_t>(aligned) % 64 != 0) ++aligned;
    std::copy_n(x.data(), x.size(), aligned + offset);
    view = View<const T, Rank>(aligned + offset, x.shape());
  }
};

}  // namespace

TEST_CASE_TEMPLATE("I04: every op gives the same bits on memory that is not aligned", T, float, double) {
  for_random_cases(15, [](Rng& rng, Index size) {
    const auto x = normal<T>({3, size}, rng), dy = normal<T>({3, size}, rng), weight = normal<T>({5, size}, rng);
    const auto gain = normal<T>({size}, rng), bias = normal<T>({size}, rng);
    const auto query = normal<T>({1, 2, 3, size}, rng), key = normal<T>({1, 2, 4, size}, rng);
    const Tensor<std::int64_t, 1> ids = {0, 2, 1}, targets = {0, 0, 0};
    for (Index offset = 1; offset < 16; offset += 1 + rng.below(5)) {
      const Shifted<T, 2> x_there(x, offset), dy_there(dy, (offset * 3) % 16), weight_there(weight, (offset * 5) % 16);
      const Shifted<T, 1> gain_there(gain, (offset * 7) % 16), bias_there(bias, (offset * 9) % 16);
      const Shifted<T, 4> query_there(query, offset), key_there(key, (offset * 11) % 16);
      const auto &xs = x_there.view, &dys = dy_there.view, &ws = weight_there.view;

      CHECK(bitwise_equal(softmax(xs), softmax(x)));
      CHECK(bitwise_equal(log_softmax(xs), log_softmax(x)));
      CHECK(bitwise_equal(softmax_backward(dys, xs), softmax_backward(dy, x)));
      for (const Activation kind : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
        CHECK(bitwise_equal(activation(xs, kind), activation(x, kind)));
        CHECK(bitwise_equal(activation_backward(dys, xs, kind), activation_backward(dy, x, kind)));
      }
      LayerNormSaved<T> saved, saved_there;
      CHECK(bitwise_equal(layer_norm(xs, gain_there.view, bias_there.view, {}, &saved_there),
                          layer_norm(x, gain, bias, {}, &saved)));
      const auto norm = layer_norm_backward(dy, x, gain, saved),
                 norm_there = layer_norm_backward(dys, xs, gain_there.view, saved_there);
      CHECK(bitwise_equal(norm.x, norm_there.x));
      CHECK(bitwise_equal(norm.weight, norm_there.weight));
      RmsNormSaved<T> rms, rms_there;
      CHECK(bitwise_equal(rms_norm(xs, gain_there.view, {}, &rms_there), rms_norm(x, gain, {}, &rms)));
      CHECK(bitwise_equal(rms_norm_backward(dys, xs, gain_there.view, rms_there).x,
                          rms_norm_backward(dy, x, gain, rms).x));
      CHECK(bitwise_equal(linear(xs, ws), linear(x, weight)));
      CHECK(bitwise_equal(linear_backward(linear(xs, ws), xs, ws).weight,
                          linear_backward(linear(x, weight), x, weight).weight));
      CHECK(bitwise_equal(embedding(ids, ws), embedding(ids, weight)));
      CHECK(bitwise_equal(embedding_backward(dys, ids, 3), embedding_backward(dy, ids, 3)));
      CHECK(bitwise_equal(cross_entropy(xs, targets), cross_entropy(x, targets)));
      CHECK(bitwise_equal(cross_entropy_backward(xs, targets), cross_entropy_backward(x, targets)));

      const auto attended = scaled_dot_product_attention(query, key, key);
      const auto attended_there = scaled_dot_product_attention(query_there.view, key_there.view, key_there.view);
      CHECK(bitwise_equal(attended.output, attended_there.output));
      const auto grads = scaled_dot_product_attention_backward(query, query, key, key, attended);
      const auto grads_there = scaled_dot_product_attention_backward(query_there.view, query_there.view, key_there.view,
                                                                     key_there.view, attended_there);
      CHECK(bitwise_equal(grads.query, grads_there.query));
      CHECK(bitwise_equal(grads.key, grads_there.key));
      CHECK(bitwise_equal(grads.value, grads_there.value));
    }
  });
}

TEST_CASE("I04: tensors and layers live in containers and shared pointers") {
  Rng rng(1);
  std::vector<Linear<float>> layers;
  for (int i = 0; i < 20; ++i) layers.emplace_back(LinearOptions{.in_dim = 3, .out_dim = 5}, rng);
  const auto shared = std::make_shared<Linear<float>>(layers[7]);
  CHECK(bitwise_equal(shared->weight.value, layers[7].weight.value));
  CHECK(reinterpret_cast<std::uintptr_t>(shared->weight.value.data()) % 64 == 0);
}
