// Mirrors include/attensor/attention/guarded_rows.hpp: what is masked is not read, and reaches nobody.

#include "attensor/attention/guarded_rows.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "attensor/attention/attention.hpp"
#include "attention/naive_attention.hpp"
#include "attention/random_attention.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif

using namespace attensor;

namespace {

/// Which rows no allowed pair touches.
struct Unseen {
  Tensor<bool, 3> queries, keys;  ///< [B, Hq, Lq], [B, Hkv, Lk]
  Tensor<bool, 4> bias;           ///< the shape of the bias

  explicit Unseen(const AttentionCase& c)
      : queries(full<bool>(Shape{c.query.extent(0), c.query.extent(1), c.query.extent(2)}, true)),
        keys(full<bool>(Shape{c.key.extent(0), c.key.extent(1), c.key.extent(2)}, true)) {
    if (c.options.bias) {
      bias = full<bool>(c.options.bias->shape(), true);
      for (Index i = 0; i < bias.size(); ++i)
        bias.data()[i] = c.options.bias->data()[i] != -infinity;  // that hides by itself
    }
    for (Index b = 0; b < c.query.extent(0); ++b) {
      for (Index h = 0; h < c.query.extent(1); ++h) {
        const NaiveHead head{c.query, c.key, c.options, b, h};
        for (Index i = 0; i < c.query.extent(2); ++i) {
          for (Index j = 0; j < c.key.extent(2); ++j) {
            if (!head.allows(i, j)) continue;
            queries(b, h, i) = keys(b, head.key_head(), j) = false;
            if (c.options.bias) {
              const auto at = [&](std::size_t d, Index place) { return bias.extent(d) == 1 ? 0 : place; };
              bias(at(0, b), at(1, h), at(2, i), at(3, j)) = false;
            }
          }
        }
      }
    }
  }
};

/// What a masked place may hold: a NaN, infinities, the largest number, or 0.
template <Scalar T>
T poison(Rng& rng) {
  constexpr std::array kinds = {static_cast<T>(not_a_number), static_cast<T>(infinity), static_cast<T>(-infinity),
                                std::numeric_limits<T>::max()};
  return kinds[static_cast<std::size_t>(rng.below(4))];
}

/// x with poison, or zeros, in the rows that are marked.
template <Scalar T>
Tensor<T, 4> with_marked(const Tensor<T, 4>& x, const Tensor<bool, 3>& marked, Rng* poisoner) {
  auto y = x;
  for (Index row = 0; row < marked.size(); ++row) {
    if (!marked.data()[row]) continue;
    for (Index d = 0; d < x.extent(3); ++d) y.data()[row * x.extent(3) + d] = poisoner ? poison<T>(*poisoner) : T(0);
  }
  return y;
}

template <Scalar T>
struct Passes {
  AttentionResult<T> result;
  AttentionGrads<T> grads;
};

template <Scalar T, class Q, class K, class V, class G>
Passes<T> run(const Q& query, const K& key, const V& value, const G& grad_output, const Tensor<T, 3>& grad_logsumexp,
              AttentionOptions<T> options, std::uint64_t seed) {
  Rng rng(seed);
  options.rng = &rng;
  auto result = scaled_dot_product_attention(query, key, value, options);
  auto grads = scaled_dot_product_attention_backward(grad_output, query, key, value, result, options, &grad_logsumexp);
  return {std::move(result), std::move(grads)};
}

template <Scalar T>
void check_same(const Passes<T>& got, const Passes<T>& want) {
  CHECK(bitwise_equal(got.result.output, want.result.output));
  CHECK(bitwise_equal(got.result.logsumexp, want.result.logsumexp));
  CHECK(bitwise_equal(got.grads.query, want.grads.query));
  CHECK(bitwise_equal(got.grads.key, want.grads.key));
  CHECK(bitwise_equal(got.grads.value, want.grads.value));
  CHECK(bitwise_equal(got.grads.bias, want.grads.bias));
  CHECK(bitwise_equal(got.grads.alibi_slopes, want.grads.alibi_slopes));
  CHECK(bitwise_equal(got.grads.relative_bias, want.grads.relative_bias));
  CHECK(bitwise_equal(got.grads.sinks, want.grads.sinks));
}

/// Every row of a tensor at the end of a page of memory of its own, so that rows can be made unreadable one by one.
template <Scalar T>
class PagedRows {
 public:
  explicit PagedRows(const Tensor<T, 4>& x) {
#if defined(__unix__) || defined(__APPLE__)
    page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    rows_ = x.extent(0) * x.extent(1) * x.extent(2);
    const auto stride = static_cast<Index>(page_ / sizeof(T));
    REQUIRE(x.extent(3) <= stride);
    memory_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    T* const first = static_cast<T*>(memory_) + stride - x.extent(3);
    for (Index row = 0; row < rows_; ++row)
      std::copy_n(x.data() + row * x.extent(3), x.extent(3), first + row * stride);
    view_ = View<const T, 4>(first, x.shape(), {x.extent(1) * x.extent(2) * stride, x.extent(2) * stride, stride, 1});
#else
    copy_ = x;
    view_ = copy_.view();
#endif
  }
  PagedRows(const PagedRows&) = delete;
  PagedRows& operator=(const PagedRows&) = delete;
#if defined(__unix__) || defined(__APPLE__)
  ~PagedRows() { munmap(memory_, bytes()); }
#endif

  /// From here on a read of a marked row ends the program.
  void forbid(const Tensor<bool, 3>& marked) {
#if defined(__unix__) || defined(__APPLE__)
    for (Index row = 0; row < rows_; ++row) {
      if (marked.data()[row])
        REQUIRE(mprotect(static_cast<char*>(memory_) + static_cast<std::size_t>(row) * page_, page_, PROT_NONE) == 0);
    }
#endif
  }
  const View<const T, 4>& view() const { return view_; }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(rows_ + 1) * page_; }

  std::size_t page_ = 0;
  Index rows_ = 0;
  void* memory_ = nullptr;
  View<const T, 4> view_;
  Tensor<T, 4> copy_;
};

constexpr AttentionSizes moderate = {.longest = 17, .widest = 17, .batch = 2};

}  // namespace

TEST_CASE_TEMPLATE(
    "masked: what no pair touches may hold anything, and every result has the bits that zeros there give", T, float,
    double) {
  for_random_cases(150, [](Rng& rng) {
    const auto c = random_attention(rng, moderate);
    INFO(text_of(c));
    const Unseen unseen(c);
    const auto query = to<T>(c.query), key = to<T>(c.key), value = to<T>(c.value);
    const auto grad_output = normal<T>({query.extent(0), query.extent(1), query.extent(2), value.extent(3)}, rng);
    const auto grad_logsumexp = normal<T>({query.extent(0), query.extent(1), query.extent(2)}, rng);
    const auto seed = rng.next64();
    const auto passes = [&](Rng* poisoner) {
      auto options = options_for<T>(c.options);
      if (options.bias) {
        auto bias = *options.bias;
        for (Index i = 0; i < bias.size(); ++i) {
          if (unseen.bias.data()[i]) bias.data()[i] = poisoner ? poison<T>(*poisoner) : T(0);
        }
        options.bias = std::move(bias);
      }
      const auto q = with_marked(query, unseen.queries, poisoner), k = with_marked(key, unseen.keys, poisoner),
                 v = with_marked(value, unseen.keys, poisoner), dy = with_marked(grad_output, unseen.queries, poisoner);
      return run<T>(q, k, v, dy, grad_logsumexp, std::move(options), seed);
    };
    const auto want = passes(nullptr);
    check_same(passes(&rng), want);

    // And what zeros give is what the contract says: nothing for who sees nothing, no gradient for who is not seen.
    for (Index row = 0; row < unseen.queries.size(); ++row) {
      if (!unseen.queries.data()[row]) continue;
      const Index h = row / query.extent(2) % query.extent(1);
      const T own = c.options.sinks ? static_cast<T>((*c.options.sinks)(h)) : static_cast<T>(-infinity);
      CHECK(want.result.logsumexp.data()[row] == own);
      for (Index d = 0; d < value.extent(3); ++d) CHECK(want.result.output.data()[row * value.extent(3) + d] == 0);
      for (Index d = 0; d < query.extent(3); ++d) CHECK(want.grads.query.data()[row * query.extent(3) + d] == 0);
    }
    for (Index row = 0; row < unseen.keys.size(); ++row) {
      if (!unseen.keys.data()[row]) continue;
      for (Index d = 0; d < key.extent(3); ++d) CHECK(want.grads.key.data()[row * key.extent(3) + d] == 0);
      for (Index d = 0; d < value.extent(3); ++d) CHECK(want.grads.value.data()[row * value.extent(3) + d] == 0);
    }
    for (Index i = 0; i < unseen.bias.size(); ++i) {
      if (unseen.bias.data()[i]) CHECK(want.grads.bias.data()[i] == 0);
    }
    CHECK(all_finite(want.result.output));
    CHECK(all_finite(want.grads.query));
    CHECK(all_finite(want.grads.key));
    CHECK(all_finite(want.grads.value));
  });
}

TEST_CASE_TEMPLATE("masked: a NaN or infinity in a key and its value reaches only the queries that see it", T, float,
                   double) {
  for_random_cases(100, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 17, .widest = 17, .batch = 2, .may_be_empty = false});
    INFO(text_of(c));
    const Index group = c.query.extent(1) / c.key.extent(1);
    const Index b = rng.below(c.key.extent(0)), g = rng.below(c.key.extent(1)), j = rng.below(c.key.extent(2));
    auto marked = full<bool>(Shape{c.key.extent(0), c.key.extent(1), c.key.extent(2)}, false);
    marked(b, g, j) = true;
    const auto query = to<T>(c.query), key = to<T>(c.key), value = to<T>(c.value);
    const auto grad_output = normal<T>({query.extent(0), query.extent(1), query.extent(2), value.extent(3)}, rng);
    const auto grad_logsumexp = normal<T>({query.extent(0), query.extent(1), query.extent(2)}, rng);
    const auto options = options_for<T>(c.options);
    const auto seed = rng.next64();
    const auto clean = run<T>(query, with_marked<T>(key, marked, nullptr), with_marked<T>(value, marked, nullptr),
                              grad_output, grad_logsumexp, options, seed);
    const auto dirty = run<T>(query, with_marked<T>(key, marked, &rng), with_marked<T>(value, marked, &rng),
                              grad_output, grad_logsumexp, options, seed);
    for (Index bb = 0; bb < query.extent(0); ++bb) {
      for (Index h = 0; h < query.extent(1); ++h) {
        const NaiveHead head{c.query, c.key, c.options, bb, h};
        for (Index i = 0; i < query.extent(2); ++i) {
          if (bb == b && h / group == g && head.allows(i, j)) continue;
          CHECK(bitwise_equal(dirty.result.output[bb][h][i], clean.result.output[bb][h][i]));
          CHECK(bitwise_equal(dirty.result.logsumexp(bb, h, i), clean.result.logsumexp(bb, h, i)));
          CHECK(bitwise_equal(dirty.grads.query[bb][h][i], clean.grads.query[bb][h][i]));
        }
      }
      for (Index gg = 0; gg < key.extent(1); ++gg) {
        for (Index jj = 0; jj < key.extent(2); ++jj) {
          bool reached = false;  // by a query that sees both
          for (Index h = g * group; bb == b && gg == g && h < (g + 1) * group; ++h) {
            const NaiveHead head{c.query, c.key, c.options, b, h};
            for (Index i = 0; i < query.extent(2); ++i) reached = reached || (head.allows(i, j) && head.allows(i, jj));
          }
          if (reached) continue;
          CHECK(bitwise_equal(dirty.grads.key[bb][gg][jj], clean.grads.key[bb][gg][jj]));
          CHECK(bitwise_equal(dirty.grads.value[bb][gg][jj], clean.grads.value[bb][gg][jj]));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("masked: a NaN or infinity in a query or its gradient reaches only the keys that it sees", T, float,
                   double) {
  for_random_cases(100, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 17, .widest = 17, .batch = 2, .may_be_empty = false});
    INFO(text_of(c));
    const Index group = c.query.extent(1) / c.key.extent(1);
    const Index b = rng.below(c.query.extent(0)), h = rng.below(c.query.extent(1)), i = rng.below(c.query.extent(2));
    auto marked = full<bool>(Shape{c.query.extent(0), c.query.extent(1), c.query.extent(2)}, false);
    marked(b, h, i) = true;
    const auto query = to<T>(c.query), key = to<T>(c.key), value = to<T>(c.value);
    const auto grad_output = normal<T>({query.extent(0), query.extent(1), query.extent(2), value.extent(3)}, rng);
    const auto grad_logsumexp = normal<T>({query.extent(0), query.extent(1), query.extent(2)}, rng);
    const auto options = options_for<T>(c.options);
    const auto seed = rng.next64();
    const bool in_query = rng.below(2) == 0;  // else in its gradient
    const auto passes = [&](Rng* poisoner) {
      return run<T>(in_query ? with_marked<T>(query, marked, poisoner) : query, key, value,
                    in_query ? grad_output : with_marked<T>(grad_output, marked, poisoner), grad_logsumexp, options,
                    seed);
    };
    const auto clean = passes(nullptr), dirty = passes(&rng);
    const NaiveHead own{c.query, c.key, c.options, b, h};
    for (Index bb = 0; bb < query.extent(0); ++bb) {
      for (Index hh = 0; hh < query.extent(1); ++hh) {
        for (Index ii = 0; ii < query.extent(2); ++ii) {
          if (bb == b && hh == h && ii == i) continue;
          CHECK(bitwise_equal(dirty.result.output[bb][hh][ii], clean.result.output[bb][hh][ii]));
          CHECK(bitwise_equal(dirty.grads.query[bb][hh][ii], clean.grads.query[bb][hh][ii]));
        }
      }
      for (Index g = 0; g < key.extent(1); ++g) {
        for (Index j = 0; j < key.extent(2); ++j) {
          if (bb == b && g == h / group && own.allows(i, j)) continue;
          CHECK(bitwise_equal(dirty.grads.key[bb][g][j], clean.grads.key[bb][g][j]));
          CHECK(bitwise_equal(dirty.grads.value[bb][g][j], clean.grads.value[bb][g][j]));
        }
      }
    }
  });
}

TEST_CASE("masked: keys and queries past their lengths are never read, forward and backward") {
  for_random_cases(40, [](Rng& rng) {
    auto c = random_attention(rng, moderate);
    const Index batch = c.query.extent(0);
    Tensor<Index, 1> queries(Shape{batch}), keys(Shape{batch});
    for (Index b = 0; b < batch; ++b) {
      queries(b) = random_between(rng, 0, c.query.extent(2));
      keys(b) = random_between(rng, 0, c.key.extent(2));
    }
    c.options.query_lengths = queries;
    c.options.key_lengths = keys;
    INFO(text_of(c));
    const auto past = [&](const Tensor<double, 4>& x, const Tensor<Index, 1>& lengths) {
      auto marked = full<bool>(Shape{batch, x.extent(1), x.extent(2)}, false);
      for (Index row = 0; row < marked.size(); ++row) {
        marked.data()[row] = row % x.extent(2) >= lengths(row / x.extent(2) / x.extent(1));
      }
      return marked;
    };
    const auto grad_output = normal<double>({batch, c.query.extent(1), c.query.extent(2), c.value.extent(3)}, rng);
    const auto grad_logsumexp = normal<double>({batch, c.query.extent(1), c.query.extent(2)}, rng);
    const auto want = run<double>(c.query, c.key, c.value, grad_output, grad_logsumexp, c.options, 1);
    PagedRows<double> q(c.query), k(c.key), v(c.value), dy(grad_output);
    q.forbid(past(c.query, queries));
    dy.forbid(past(c.query, queries));
    k.forbid(past(c.key, keys));
    v.forbid(past(c.key, keys));
    check_same(run<double>(q.view(), k.view(), v.view(), dy.view(), grad_logsumexp, c.options, 1), want);
  });
}

TEST_CASE("masked: keys that no query sees, and queries that see no key, are never read, forward and backward") {
  for_random_cases(100, [](Rng& rng) {
    const auto c = random_attention(rng, moderate);
    INFO(text_of(c));
    const Unseen unseen(c);
    const auto grad_output =
        normal<double>({c.query.extent(0), c.query.extent(1), c.query.extent(2), c.value.extent(3)}, rng);
    const auto grad_logsumexp = normal<double>({c.query.extent(0), c.query.extent(1), c.query.extent(2)}, rng);
    const auto want = run<double>(c.query, c.key, c.value, grad_output, grad_logsumexp, c.options, 1);
    PagedRows<double> q(c.query), k(c.key), v(c.value), dy(grad_output);
    q.forbid(unseen.queries);
    dy.forbid(unseen.queries);
    k.forbid(unseen.keys);
    v.forbid(unseen.keys);
    check_same(run<double>(q.view(), k.view(), v.view(), dy.view(), grad_logsumexp, c.options, 1), want);
  });
}
