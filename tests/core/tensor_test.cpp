// Mirrors include/attensor/core/tensor.hpp.

#include "attensor/core/tensor.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

static_assert(TensorLike<Tensor<float, 2>>);
static_assert(TensorLike<const Tensor<float, 2>&, 2>);
static_assert(TensorLike<View<const float, 3>, 3>);
static_assert(!TensorLike<Tensor<float, 2>, 3>);
static_assert(!TensorLike<float>);
static_assert(std::is_same_v<scalar_t<const View<const double, 1>&>, double>);
static_assert(std::is_convertible_v<View<float, 2>, View<const float, 2>>);
static_assert(!std::is_convertible_v<View<const float, 2>, View<float, 2>>);
static_assert(!std::is_constructible_v<View<const double, 2>, View<float, 2>>);
static_assert(std::is_nothrow_move_constructible_v<Tensor<float, 2>>);
static_assert(std::is_nothrow_move_assignable_v<Tensor<float, 2>>);

TEST_CASE("Tensor: braces hold values, a shape is zeros") {
  const Tensor<float, 2> x = {{1, 2, 3}, {4, 5, 6}};
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x(1, 0) == 4);
  CHECK(x(0, 2) == 3);
  const Tensor<double, 3> y(Shape{2, 1, 2});
  CHECK(y.size() == 4);
  CHECK(bitwise_equal(y, Tensor<double, 3>{{{0, 0}}, {{0, 0}}}));
  const Tensor<std::int64_t, 1> ids = {5};
  CHECK(ids.shape() == Shape{1});
  CHECK(ids(0) == 5);
  const Tensor<bool, 1> mask = {true, false};
  CHECK(mask(0));
  CHECK(!mask(1));
}

TEST_CASE("Tensor: rows of different lengths are an error that names the dimension") {
  CHECK_THROWS_WITH_AS((Tensor<float, 2>{{1, 2}, {3}}),
                       "Tensor: braces hold rows of 2 and of 1 in dim 1; expected the same length", ShapeError);
  CHECK_THROWS_WITH_AS((Tensor<float, 3>{{{1}, {2}}, {{3}}}),
                       "Tensor: braces hold rows of 2 and of 1 in dim 1; expected the same length", ShapeError);
  CHECK_THROWS_AS((Tensor<float, 2>{{}, {1}}), ShapeError);
}

TEST_CASE("Tensor: extents that are negative or overflow are errors before anything is allocated") {
  CHECK_THROWS_WITH_AS((Tensor<float, 2>(Shape{2, -1})), "Tensor: shape [2,-1] has -1 in dim 1; expected 0 or more",
                       ShapeError);
  CHECK_THROWS_AS((Tensor<float, 2>(Shape{Index{1} << 40, Index{1} << 40})), ShapeError);
  CHECK_THROWS_AS((Tensor<double, 1>(Shape{Index{1} << 60})), ShapeError);
  CHECK_THROWS_AS((Tensor<double, 1>::uninitialized(Shape{Index{1} << 59})), std::bad_alloc);
}

TEST_CASE("Tensor: empty ones have their shape and no elements") {
  const Tensor<float, 3> x(Shape{2, 0, 3});
  CHECK(x.shape() == Shape{2, 0, 3});
  CHECK(x.size() == 0);
  CHECK(x.empty());
  CHECK(x.view().size() == 0);
  const Tensor<float, 3> y = x;
  CHECK(y.shape() == x.shape());
  CHECK(Tensor<float, 2>().size() == 0);
  CHECK(Tensor<float, 2>{}.shape() == Shape{0, 0});
}

TEST_CASE("Tensor: rank 0 holds one element") {
  Tensor<float, 0> x(Shape<0>{});
  CHECK(x.size() == 1);
  CHECK(x() == 0);
  x() = 3;
  const auto y = x;
  CHECK(y() == 3);
}

TEST_CASE("Tensor: the first element lies at a multiple of 64 bytes, the last is next to the one before") {
  for_random_cases(30, [](Rng& rng, Index size) {
    const Tensor<float, 3> x(random_shape<3>(rng, {.last = size}));
    CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 64 == 0);
    const auto [a, b, c] = static_cast<const std::array<Index, 3>&>(x.shape());
    CHECK(x.strides() == Strides<3>{b * c, c, 1});
    CHECK(&x(a - 1, b - 1, c - 1) == x.data() + x.size() - 1);
  });
}

TEST_CASE("Tensor: a copy is independent, a move leaves an empty tensor") {
  Tensor<float, 2> x = {{1, 2}, {3, 4}};
  Tensor<float, 2> y = x;
  y(0, 0) = 9;
  CHECK(x(0, 0) == 1);
  const float* elements = x.data();
  Tensor<float, 2> z = std::move(x);
  CHECK(z.data() == elements);
  CHECK(x.size() == 0);
  CHECK(x.shape() == Shape{0, 0});
  x = y;  // may be used again
  CHECK(bitwise_equal(x, y));
}

TEST_CASE("Tensor: assignment keeps its memory where the shapes agree, and takes the other's shape where not") {
  Tensor<float, 2> x = {{1, 2}, {3, 4}};
  const Tensor<float, 2> same = {{5, 6}, {7, 8}}, other = {{1, 2, 3}};
  const float* elements = x.data();
  x = same;
  CHECK(x.data() == elements);
  CHECK(bitwise_equal(x, same));
  x = other;
  CHECK(bitwise_equal(x, other));
  Tensor<float, 2>& itself = x;
  x = itself;
  CHECK(bitwise_equal(x, other));
  x = std::move(itself);
  CHECK(bitwise_equal(x, other));
}

TEST_CASE("View: looks at any pointer, extents and strides") {
  std::array<float, 12> memory;
  for (std::size_t i = 0; i < 12; ++i) memory[i] = static_cast<float>(i);
  const View<float, 2> all(memory.data(), Shape{3, 4});
  CHECK(all(2, 1) == 9);
  const View<const float, 2> left(memory.data(), Shape{3, 2}, Strides<2>{4, 1});
  CHECK(left(2, 1) == 9);
  CHECK(left.size() == 6);
  CHECK(!left.is_contiguous());
  CHECK(all.is_contiguous());
  const View<const float, 2> backwards(memory.data() + 8, Shape{3, 4}, Strides<2>{-4, 1});
  CHECK(backwards(0, 0) == 8);
  CHECK(backwards(2, 3) == 3);
  all(0, 0) = 7;
  CHECK(left(0, 0) == 7);
}

TEST_CASE("View: strides that the last dimension cannot have, and negative extents, are errors") {
  std::array<float, 12> memory{};
  CHECK_THROWS_WITH_AS((View<float, 2>(memory.data(), Shape{2, 3}, Strides<2>{6, 2})),
                       "View: strides [6,2] have 2 in dim 1; expected 1, since the last dimension is contiguous",
                       ShapeError);
  CHECK_NOTHROW((View<float, 2>(memory.data(), Shape{2, 1}, Strides<2>{6, 2})));  // one column has no step
  CHECK_THROWS_AS((View<float, 1>(memory.data(), Shape{-1})), ShapeError);
}

TEST_CASE("View: indexing takes off the first dimension") {
  Tensor<float, 3> x(Shape{2, 3, 4});
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  CHECK(x[1].shape() == Shape{3, 4});
  CHECK(x[1][2][3] == 23);
  x[0][1][2] = -1;
  CHECK(x(0, 1, 2) == -1);
  const auto& readonly = x;
  static_assert(std::is_same_v<decltype(readonly[0]), View<const float, 2>>);
  static_assert(std::is_same_v<decltype(x[0]), View<float, 2>>);
  CHECK(readonly[1](0, 0) == 12);
}

TEST_CASE("View: is contiguous where no element is skipped, whatever the strides of extents 1 and of nothing") {
  std::array<float, 12> memory{};
  CHECK(View<float, 3>(memory.data(), Shape{1, 3, 1}, Strides<3>{99, 1, 7}).is_contiguous());
  CHECK(!View<float, 2>(memory.data(), Shape{2, 3}, Strides<2>{0, 1}).is_contiguous());
  CHECK(View<float, 2>(memory.data(), Shape{2, 0}, Strides<2>{3, 1}).is_contiguous());
}

TEST_CASE("reshape: a view of what stays, the tensor itself of a temporary") {
  Tensor<float, 2> x = {{1, 2, 3}, {4, 5, 6}};
  auto seen = x.reshape(Shape{3, 2});
  CHECK(seen(2, 0) == 5);
  seen(0, 1) = 9;
  CHECK(x(0, 1) == 9);
  const float* elements = x.data();
  const Tensor<float, 1> flat = std::move(x).reshape(Shape{6});
  CHECK(flat.data() == elements);
  CHECK(flat(5) == 6);
  CHECK(x.empty());
  CHECK(flat.reshape(Shape{1, 6, 1})(0, 5, 0) == 6);
}

TEST_CASE("reshape: another number of elements is an error, and takes nothing away") {
  Tensor<float, 2> x = {{1, 2, 3}, {4, 5, 6}};
  CHECK_THROWS_WITH_AS(x.reshape(Shape{4}),
                       "reshape: x [2,3] has 6 elements; expected a shape of as many contiguous ones, got [4]",
                       ShapeError);
  CHECK_THROWS_AS(std::move(x).reshape(Shape{7}), ShapeError);
  CHECK(x.size() == 6);
  CHECK_THROWS_AS(x.reshape(Shape{-2, -3}), ShapeError);
  const View<const float, 2> columns(x.data(), Shape{2, 2}, Strides<2>{3, 1});
  CHECK_THROWS_AS(columns.reshape(Shape{4}), ShapeError);
  Tensor<float, 2> nothing(Shape{0, 3});
  CHECK(nothing.reshape(Shape{5, 0, 2}).shape() == Shape{5, 0, 2});
  const View<const float, 2> no_columns(x.data(), Shape{2, 0}, Strides<2>{3, 1});
  CHECK(no_columns.reshape(Shape{0}).size() == 0);
}
