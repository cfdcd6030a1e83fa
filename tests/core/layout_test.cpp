// Mirrors include/attensor/core/layout.hpp and core/rows.hpp.

#include "attensor/core/layout.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

namespace {

Tensor<float, 3> counted(Index a, Index b, Index c) {
  Tensor<float, 3> x(Shape{a, b, c});
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  return x;
}

template <class X>
std::string printed(const X& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

}  // namespace

TEST_CASE("slice: a range of any dimension, in place") {
  for_random_cases(30, [](Rng& rng, Index size) {
    auto x = counted(random_between(rng, 1, 5), random_between(rng, 1, 5), size);
    const auto dim = static_cast<std::size_t>(rng.below(3));
    const Index begin = random_between(rng, 0, x.extent(dim)), end = random_between(rng, begin, x.extent(dim));
    const auto part = slice(x, dim, begin, end);
    auto shape = x.shape();
    shape[dim] = end - begin;
    REQUIRE(part.shape() == shape);
    bool same = true;
    for (Index i = 0; i < shape[0]; ++i) {
      for (Index j = 0; j < shape[1]; ++j) {
        for (Index k = 0; k < shape[2]; ++k) {
          same = same && &part(i, j, k) == &x(i + (dim == 0) * begin, j + (dim == 1) * begin, k + (dim == 2) * begin);
        }
      }
    }
    CHECK(same);
    CHECK(bitwise_equal(contiguous(part), part));
  });
}

TEST_CASE("slice: what lies outside is an error that says what there is") {
  const auto x = counted(2, 3, 4);
  CHECK_THROWS_WITH_AS(slice(x, 1, 0, 4),
                       "slice: x [2,3,4] has no range [0, 4) in dim 1; expected 0 <= begin <= end <= 3", ShapeError);
  CHECK_THROWS_AS(slice(x, 1, -1, 2), ShapeError);
  CHECK_THROWS_AS(slice(x, 1, 2, 1), ShapeError);
  CHECK_THROWS_WITH_AS(slice(x, 3, 0, 0),
                       "slice: x [2,3,4] has no range [0, 0) in dim 3; expected 0 <= begin <= end <= the extent of one "
                       "of its dimensions",
                       ShapeError);
  CHECK(slice(x, 0, 2, 2).size() == 0);
}

TEST_CASE("slice: of a slice, and writing through it") {
  auto x = counted(2, 3, 4);
  const auto inner = slice(slice(x, 2, 1, 3), 1, 2, 3);
  CHECK(inner.shape() == Shape{2, 1, 2});
  inner(1, 0, 1) = -5;
  CHECK(x(1, 2, 2) == -5);
}

TEST_CASE("transpose: a view where the last dimension stays, a copy where not") {
  auto x = counted(2, 3, 4);
  const auto seen = transpose<0, 1>(x);
  CHECK(seen.shape() == Shape{3, 2, 4});
  CHECK(&seen(2, 1, 3) == &x(1, 2, 3));
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      const auto y = transpose(x, a, b);
      bool same = true;
      for (Index i = 0; i < 2; ++i) {
        for (Index j = 0; j < 3; ++j) {
          for (Index k = 0; k < 4; ++k) {
            std::array<Index, 3> at = {i, j, k};
            std::swap(at[a], at[b]);
            same = same && y(at[0], at[1], at[2]) == x(i, j, k);
          }
        }
      }
      CHECK(same);
    }
  }
  CHECK(bitwise_equal(transpose(transpose<0, 1>(x), 0, 2), transpose(contiguous(transpose<0, 1>(x)), 0, 2)));
  CHECK_THROWS_WITH_AS(transpose(x, 0, 3), "transpose: x [2,3,4] has no dims 0 and 3; expected dims below 3",
                       ShapeError);
  CHECK(transpose(Tensor<float, 2>(Shape{0, 5}), 0, 1).shape() == Shape{5, 0});
}

TEST_CASE("reshape: keeps what is a view a view") {
  auto x = counted(2, 3, 4);
  CHECK(reshape(x, Shape{6, 4})(5, 3) == 23);
  const Tensor<float, 1> flat = reshape(counted(2, 3, 4), Shape{24});
  CHECK(flat(23) == 23);
  CHECK_THROWS_AS(reshape(slice(x, 2, 0, 2), Shape{12}), ShapeError);
}

TEST_CASE("rows: the same rows as the elements say, for any strides") {
  for_random_cases(40, [](Rng& rng, Index size) {
    auto x = counted(random_between(rng, 1, 4), random_between(rng, 1, 4), size);
    const auto part =
        slice(slice(x, 0, rng.below(x.extent(0)), x.extent(0)), 1, 0, random_between(rng, 1, x.extent(1)));
    const auto check = [](const auto& view) {
      const auto rows = detail::rows(read(view));
      REQUIRE(rows.count() == view.shape()[0] * view.shape()[1]);
      CHECK(rows.length() == view.shape()[2]);
      for (Index row = 0; row < rows.count(); ++row) {
        CHECK(rows[row] == &view(row / view.shape()[1], row % view.shape()[1], 0));
        if (rows.is_uniform()) CHECK(rows[row] == rows[0] + row * rows.row_stride());
      }
    };
    check(x);
    check(part);
    check(transpose<0, 1>(part));
  });
}

TEST_CASE("rows: extents of 1 do not hide that rows lie at equal steps") {
  std::array<float, 64> memory{};
  const View<const float, 4> one_head(memory.data(), Shape{3, 1, 5, 4}, Strides<4>{20, 4, 4, 1});
  const auto rows = detail::rows(one_head);
  CHECK(rows.is_uniform());
  CHECK(rows.row_stride() == 4);
  CHECK(rows[14] == memory.data() + 56);
  const View<const float, 3> one_row(memory.data(), Shape{3, 1, 4}, Strides<3>{8, 4, 1});
  CHECK(detail::rows(one_row).is_uniform());
  CHECK(detail::rows(one_row).row_stride() == 8);
  CHECK(detail::rows(one_row)[2] == memory.data() + 16);
  const View<const float, 3> apart(memory.data(), Shape{2, 2, 4}, Strides<3>{20, 4, 1});
  CHECK(!detail::rows(apart).is_uniform());
}

TEST_CASE("rows: a vector is one row, and nothing has none") {
  const Tensor<float, 1> x = {1, 2, 3};
  CHECK(detail::rows(read(x)).count() == 1);
  CHECK(detail::rows(read(x))[0] == x.data());
  const Tensor<float, 3> nothing(Shape{2, 0, 3});
  CHECK(detail::rows(read(nothing)).count() == 0);
}

TEST_CASE("matrix: Eigen reads and writes in place, row by row") {
  Tensor<float, 2> x = {{0, 1, 2}, {3, 4, 5}};
  CHECK(matrix(x)(1, 0) == 3);
  CHECK(matrix(x)(0, 2) == 2);
  matrix(x) *= 2;
  CHECK(bitwise_equal(x, Tensor<float, 2>{{0, 2, 4}, {6, 8, 10}}));
  const auto y = counted(2, 3, 4);
  CHECK(matrix(y).rows() == 6);
  CHECK(matrix(y)(5, 3) == 23);
  CHECK(matrix(slice(y, 2, 1, 3))(5, 1) == 22);
  CHECK_THROWS_WITH_AS(
      matrix(slice(y, 1, 0, 2)),
      "matrix: x [2,2,4] has strides [12,4,1]; expected rows at equal steps (contiguous(x) makes a copy that has "
      "them)",
      ShapeError);
}

TEST_CASE("printing: nested braces, as a tensor is written in a program") {
  CHECK(printed(Tensor<float, 1>{1, 2.5f}) == "{1, 2.5}");
  CHECK(printed(Tensor<float, 2>{{1, 2}, {3, 4}}) == "{{1, 2},\n {3, 4}}");
  CHECK(printed(Tensor<bool, 1>{true, false}) == "{1, 0}");
  CHECK(printed(Tensor<float, 2>(Shape{0, 3})) == "{}");
  const auto x = counted(2, 2, 2);
  CHECK(printed(slice(x, 2, 1, 2)) == "{{{1},\n  {3}},\n {{5},\n  {7}}}");
  CHECK(printed(Tensor<float, 0>(Shape<0>{})) == "0");
  CHECK(printed(Tensor<std::int8_t, 1>{65, -1}) == "{65, -1}");
  CHECK(printed(Tensor<float, 3>{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}) ==
        "{{{1, 2},\n  {3, 4}},\n {{5, 6},\n  {7, 8}}}");
}

// A view of a temporary would outlive its elements, so none can be asked for.
static_assert(!Viewable<Tensor<float, 3>>);
static_assert(!Viewable<const Tensor<float, 3>>);
static_assert(Viewable<Tensor<float, 3>&, 3>);
static_assert(Viewable<const Tensor<float, 3>&, 3>);
static_assert(Viewable<View<float, 3>, 3>);
