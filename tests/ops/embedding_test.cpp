// Mirrors include/attensor/ops/embedding.hpp.

#include "attensor/ops/embedding.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

template <std::size_t Rank>
Tensor<std::int64_t, Rank> random_ids(const Shape<Rank>& shape, Index vocab_size, Rng& rng) {
  Tensor<std::int64_t, Rank> ids(shape);
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = rng.below(vocab_size);
  return ids;
}

}  // namespace

TEST_CASE("embedding: the row of each id, at any rank and from any view") {
  const Tensor<float, 2> weight = {{1, 2}, {3, 4}, {5, 6}};
  const Tensor<std::int64_t, 2> ids = {{2, 0, 2}, {1, 1, 0}};
  CHECK(bitwise_equal(embedding(ids, weight), (Tensor<float, 3>{{{5, 6}, {1, 2}, {5, 6}}, {{3, 4}, {3, 4}, {1, 2}}})));
  CHECK(bitwise_equal(embedding(slice(ids, 1, 1, 3), slice(weight, 1, 1, 2)),
                      (Tensor<float, 3>{{{2}, {6}}, {{4}, {2}}})));
}

TEST_CASE("embedding: ids that occur twice add up, ids that do not occur get exactly 0") {
  const Tensor<std::int64_t, 1> ids = {2, 0, 2};
  const Tensor<float, 2> dy = {{1, 2}, {3, 4}, {5, 6}};
  CHECK(bitwise_equal(embedding_backward(dy, ids, 4), (Tensor<float, 2>{{3, 4}, {0, 0}, {6, 8}, {0, 0}})));
}

TEST_CASE("embedding: the row of padding_idx is looked up, but gets no gradient") {
  const Tensor<std::int64_t, 1> ids = {2, 0, 2};
  const Tensor<float, 2> dy = {{1, 2}, {3, 4}, {5, 6}};
  CHECK(bitwise_equal(embedding_backward(dy, ids, 4, {.padding_idx = 2}),
                      (Tensor<float, 2>{{3, 4}, {0, 0}, {0, 0}, {0, 0}})));
}

TEST_CASE("embedding: gradients match finite differences") {
  for_random_cases(15, [](Rng& rng, Index dim) {
    const Index vocab_size = random_between(rng, 1, 9);
    const auto ids = random_ids(random_shape<2>(rng), vocab_size, rng);
    check_gradients([&](const auto& weight) { return embedding(ids, weight); },
                    [&](const auto& dy, const auto&) { return embedding_backward(dy, ids, vocab_size); },
                    normal<double>({vocab_size, dim}, rng));
  });
}

TEST_CASE("embedding: an id out of range is an error that names it and its position, forward and backward") {
  const auto weight = zeros<float>({5, 3});
  const auto with = [](std::int64_t bad) { return Tensor<std::int64_t, 2>{{1, 4, 1}, {0, bad, 2}}; };
  CHECK_THROWS_WITH_AS(embedding(with(5), weight),
                       "embedding: ids [2,3] has 5 at [1,1]; expected an id in [0, 5), the rows of weight", ValueError);
  CHECK_THROWS_WITH_AS(embedding(with(-1), weight),
                       "embedding: ids [2,3] has -1 at [1,1]; expected an id in [0, 5), the rows of weight",
                       ValueError);
  for (const std::int64_t bad :
       {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1, std::numeric_limits<std::int64_t>::min()}) {
    CHECK_THROWS_AS(embedding(with(bad), weight), ValueError);  // none is cut to 32 bits
  }
  CHECK_THROWS_WITH_AS(embedding_backward(zeros<float>({2, 3, 4}), with(7), 5),
                       "embedding_backward: ids [2,3] has 7 at [1,1]; expected an id in [0, 5), the rows of weight",
                       ValueError);
  CHECK_THROWS_WITH_AS(embedding_backward(zeros<float>({2, 2, 4}), with(2), 5),
                       "embedding_backward: dy [2,2,4] has 2 in dim 1; expected 3, as in ids [2,3]", ShapeError);
}

TEST_CASE("embedding: no ids give no rows and a gradient of zeros; an empty table has no id") {
  const Tensor<std::int64_t, 2> none(Shape{3, 0});
  CHECK(embedding(none, zeros<float>({5, 4})).shape() == Shape{3, 0, 4});
  CHECK(bitwise_equal(embedding_backward(zeros<float>({3, 0, 4}), none, 5), zeros<float>({5, 4})));
  CHECK_THROWS_AS(embedding(Tensor<std::int64_t, 1>{0}, zeros<float>({0, 4})), ValueError);
}
