// The tests' own tools: they notice what they are there to notice.

#include <doctest/doctest.h>

#include "support/case_file.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

const auto square = [](const auto& x) {
  auto y = to<double>(x);
  for (Index i = 0; i < y.size(); ++i) y.data()[i] *= y.data()[i];
  return y;
};
const auto twice_x_dy = [](const auto& dy, const auto& x) {
  auto dx = to<double>(x);
  for (Index i = 0; i < dx.size(); ++i) dx.data()[i] *= 2 * dy.data()[i];
  return dx;
};

/// A layer of one parameter: y = weight * x.
template <Scalar T>
struct Gain {
  Parameter<T, 1> weight;
};
template <InstanceOf<Gain> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "weight", self.weight);
}
const auto gain = [](const auto& layer, const auto& x) {
  auto y = to<double>(x);
  for (Index i = 0; i < y.size(); ++i) y.data()[i] *= layer.weight.value(i);
  return y;
};

}  // namespace

TEST_CASE("near: the tolerance is relative for large numbers and absolute for small ones") {
  CHECK(is_near(1e6 + 1, 1e6, 1e-5));
  CHECK(is_near(1e-6, 0, 1e-5));
  CHECK(!is_near(1 + 3e-5, 1, 1e-5));
}

TEST_CASE("near: a NaN is near nothing, an infinity near itself alone") {
  CHECK(!is_near(not_a_number, 0, 1));
  CHECK(!is_near(0, not_a_number, 1));
  CHECK(!is_near(not_a_number, not_a_number, 1));
  CHECK(is_near(-infinity, -infinity, 0));
  CHECK(!is_near(infinity, -infinity, 1));
  CHECK(!is_near(infinity, 1e308, 1));
  CHECK(!is_near(1e308, infinity, 1));
}

TEST_CASE("near: says where it differs, and compares shapes") {
  const Tensor<float, 2> got = {{1, 2, 3}, {4, 5, 7}}, want = {{1, 2, 3}, {4, 5, 6}};
  CHECK(difference(got, want, 1e-6) ==
        "1 of 6 elements of [2,3], first at (1, 2) got 7, want 6, difference 1, tolerance "
        "9.9999999999999995e-07 * (1 + |want|)");
  CHECK(difference(got, want, 0.2).empty());
  CHECK(difference(got, zeros<float>({3, 2}), 1) == "got shape [2,3], want [3,2]");
  CHECK(difference(zeros<float>({0, 3}), zeros<double>({0, 3}), 0).empty());
}

TEST_CASE("bitwise_equal: tells 0 from -0, and equal NaNs are equal") {
  CHECK(!bitwise_equal(Tensor<float, 1>{0.0f}, Tensor<float, 1>{-0.0f}));
  CHECK(bitwise_equal(Tensor<double, 1>{not_a_number}, Tensor<double, 1>{not_a_number}));
  CHECK(!bitwise_equal(zeros<float>({2, 1}), zeros<float>({1, 2})));
}

TEST_CASE("all_finite: neither NaN nor infinity passes") {
  CHECK(all_finite(Tensor<double, 1>{1, -1e308}));
  CHECK(!all_finite(Tensor<double, 1>{1, not_a_number}));
  CHECK(!all_finite(Tensor<double, 1>{-infinity, 1}));
}

TEST_CASE("check_gradients: passes what is right and counts it") {
  const Index before = gradient_configurations();
  for_random_cases(5, [](Rng& rng, Index size) { check_gradients(square, twice_x_dy, normal<double>({size}, rng)); });
  CHECK(gradient_configurations() == before + 5);
}

TEST_CASE("check_gradients: notices a gradient that is off by a tenth of a percent" * doctest::should_fail()) {
  Rng rng(1);
  const auto wrong = [](const auto& dy, const auto& x) {
    auto dx = twice_x_dy(dy, x);
    for (Index i = 0; i < dx.size(); ++i) dx.data()[i] *= 1.001;
    return dx;
  };
  check_gradients(square, wrong, normal<double>({7}, rng));
}

TEST_CASE("check_gradients: notices a NaN" * doctest::should_fail()) {
  Rng rng(1);
  const auto wrong = [](const auto& dy, const auto& x) {
    auto dx = twice_x_dy(dy, x);
    dx(3) = not_a_number;
    return dx;
  };
  check_gradients(square, wrong, normal<double>({7}, rng));
}

TEST_CASE("check_gradients: notices a gradient of another shape" * doctest::should_fail()) {
  Rng rng(1);
  check_gradients(
      square, [](const auto&, const auto&) { return zeros<double>({6}); }, normal<double>({7}, rng));
}

TEST_CASE("check_layer_gradients: passes what is right") {
  Rng rng(1);
  const Gain<double> layer{{normal<double>({5}, rng), {}}};
  check_layer_gradients(
      layer, gain,
      [](auto& self, const auto& dy, const auto& x) {
        self.weight.grad = twice_x_dy(dy, x);
        for (Index i = 0; i < dy.size(); ++i) self.weight.grad(i) /= 2;
        return gain(self, dy);
      },
      normal<double>({5}, rng));
}

TEST_CASE("check_layer_gradients: notices a parameter without a gradient" * doctest::should_fail()) {
  Rng rng(1);
  const Gain<double> layer{{normal<double>({5}, rng), {}}};
  check_layer_gradients(
      layer, gain, [](auto& self, const auto& dy, const auto&) { return gain(self, dy); }, normal<double>({5}, rng));
}

TEST_CASE("for_random_cases: each case has a stream of its own, and the seed brings it back") {
  std::vector<double> first, again;
  for_random_cases(4, [&](Rng& rng) { first.push_back(rng.uniform()); });
  for_random_cases(4, [&](Rng& rng) { again.push_back(rng.uniform()); });
  CHECK(first == again);
  CHECK(first[0] != first[1]);
}

TEST_CASE("CaseFile: reads numbers, infinities and leading ones of broadcasting") {
  const CaseFile file("A01");
  CHECK(file.input<double, 4>("q")(0, 0, 2, 3) == 0.546875);
  CHECK(file.input<bool, 4>("keep").shape() == Shape{1, 1, 3, 3});
  CHECK(file.expected<float, 3>("lse")(0, 0, 1) == -infinity);
  CHECK(file.tolerance<float>() == 1e-5);
  CHECK_THROWS_AS((file.input<double, 4>("x")), IoError);
  CHECK_THROWS_AS((file.input<double, 3>("q")), IoError);
  CHECK_THROWS_AS(CaseFile("Z99"), IoError);
}
