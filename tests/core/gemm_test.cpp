// Mirrors include/attensor/core/gemm.hpp, gemm_kernel.hpp and gemm_small.hpp.

#include "attensor/core/gemm.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "attensor/core/creation.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;
using detail::GemmStart;
using detail::MatrixView;

namespace {

/// A random matrix in either orientation, with room between its rows (or columns) that holds NaN.
template <class T>
struct Operand {
  Tensor<T, 1> memory;
  MatrixView<T> view;

  Operand(Index rows, Index columns, bool transposed, Rng& rng) {
    const Index lines = transposed ? columns : rows, length = transposed ? rows : columns;
    const Index step = length + rng.below(4), offset = rng.below(5);
    memory = full<T>({offset + lines * step + 1}, static_cast<T>(not_a_number));
    for (Index i = 0; i < lines; ++i) {
      for (Index j = 0; j < length; ++j) memory(offset + i * step + j) = static_cast<T>(rng.normal());
    }
    const T* first = memory.data() + offset;
    view = transposed ? MatrixView<T>{first, rows, columns, 1, step} : MatrixView<T>{first, rows, columns, step, 1};
  }
};

/// The ways to the same product.
enum class Way { as_is, packed, serial };

/// C with room between its rows, which stays as it was.
template <class T>
Tensor<T, 2> multiply(Way way, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start = {},
                      const Tensor<T, 2>* before = nullptr) {
  const Index width = b.columns + 3;
  auto c = full<T>({a.rows, width}, T(55));
  for (Index i = 0; before && i < a.rows; ++i) std::copy_n((*before)[i].data(), b.columns, c[i].data());
  if (way == Way::as_is) {
    detail::gemm(c.data(), width, a, b, start);
  } else if (way == Way::serial) {
    detail::gemm_serial(c.data(), width, a, b, start);
  } else {
    const detail::Scratch<T> packed(detail::packed_columns_size<T>(b.rows, b.columns));
    detail::gemm(c.data(), width, a, detail::pack_columns(packed.data(), b), start);
  }
  auto result = empty<T>({a.rows, b.columns});
  for (Index i = 0; i < a.rows; ++i) {
    std::copy_n(c[i].data(), b.columns, result[i].data());
    for (Index j = b.columns; j < width; ++j) REQUIRE(c(i, j) == 55);
  }
  return result;
}

/// The number of elements that are further from the product in double than the sums of k roundings can be.
template <class T>
Index count_wrong(const Tensor<T, 2>& c, const MatrixView<T>& a, const MatrixView<T>& b, const GemmStart<T>& start,
                  const Tensor<T, 2>* before) {
  Index wrong = 0;
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.columns; ++j) {
      double sum = start.accumulate ? static_cast<double>((*before)(i, j))
                   : start.bias     ? static_cast<double>(start.bias[j])
                                    : 0;
      double magnitude = std::abs(sum);
      for (Index l = 0; l < a.columns; ++l) {
        const double term = static_cast<double>(a(i, l)) * static_cast<double>(b(l, j));
        sum += term;
        magnitude += std::abs(term);
      }
      const double error = std::abs(static_cast<double>(c(i, j)) - sum);
      const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
      wrong += !(error <= magnitude * epsilon * std::sqrt(static_cast<double>(a.columns) + 4) * 2);
    }
  }
  return wrong;
}

template <class T>
void check_product(Index m, Index n, Index k, Rng& rng) {
  const Operand<T> a(m, k, rng.below(2) == 0, rng), b(k, n, rng.below(2) == 0, rng);
  const auto bias = normal<T>({n}, rng);
  const auto before = normal<T>({m, n}, rng);
  for (const GemmStart<T>& start : {GemmStart<T>{}, GemmStart<T>{bias.data(), false}, GemmStart<T>{nullptr, true}}) {
    const auto c = multiply(Way::as_is, a.view, b.view, start, &before);
    REQUIRE(count_wrong(c, a.view, b.view, start, &before) == 0);
    REQUIRE(bitwise_equal(c, multiply(Way::packed, a.view, b.view, start, &before)));
    REQUIRE(bitwise_equal(c, multiply(Way::serial, a.view, b.view, start, &before)));
  }
}

/// Extents around which something in the kernels changes.
template <class T>
Index random_extent(Rng& rng, Index largest) {
  using Kernel = detail::GemmKernel<T>;
  const Index base = std::array<Index, 6>{0,
                                          Kernel::lanes,
                                          Kernel::panel,
                                          2 * Kernel::panel,
                                          Kernel::row_group,
                                          detail::gemm_largest_depth}[static_cast<std::size_t>(rng.below(6))];
  return std::clamp<Index>(base + random_between(rng, -3, 12), 0, largest);
}

struct WithThreads {
  explicit WithThreads(int threads) { set_num_threads(threads); }
  ~WithThreads() { set_num_threads(0); }
};

}  // namespace

TEST_CASE_TEMPLATE("gemm: right for all tails of rows, columns and depth, in every orientation and from every start", T,
                   float, double) {
  for_random_cases(400, [](Rng& rng) {
    const Index m = random_extent<T>(rng, 60), n = random_extent<T>(rng, 110), k = random_extent<T>(rng, 340);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    check_product<T>(m, n, k, rng);
  });
}

TEST_CASE_TEMPLATE("gemm: right for every number of columns, and for deep products", T, float, double) {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  for (Index n = 1; n <= 2 * detail::GemmKernel<T>::panel + 1; ++n) check_product<T>(5, n, 9, rng);
  for (const Index k : {319, 320, 321, 639, 641, 1000}) check_product<T>(3, 7, k, rng);
  check_product<T>(300, 130, 40, rng);
}

TEST_CASE_TEMPLATE("gemm: empty extents give what the sum starts from", T, float, double) {
  for (const int threads : {1, 3}) {
    const WithThreads with(threads);
    Rng rng(1);
    for (const Index m : {0, 3}) {
      for (const Index n : {0, 4}) {
        for (const Index k : {0, 5}) {
          if (m * n * k == 0) check_product<T>(m, n, k, rng);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("gemm: a row has the same bits alone and among any others, at any place", T, float, double) {
  for_random_cases(60, [](Rng& rng) {
    const Index m = random_between(rng, 2, 140), n = random_extent<T>(rng, 110), k = random_extent<T>(rng, 700);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    const Operand<T> a(m, k, rng.below(2) == 0, rng), b(k, n, rng.below(2) == 0, rng);
    const auto bias = normal<T>({n}, rng);
    const GemmStart<T> start{rng.below(2) == 0 ? bias.data() : nullptr, false};
    const auto all = multiply(Way::as_is, a.view, b.view, start);
    for (int part = 0; part < 6; ++part) {
      const Index begin = rng.below(m), count = part == 0 ? 1 : random_between(rng, 1, m - begin);
      const auto some =
          multiply(part % 2 == 0 ? Way::as_is : Way::serial, a.view.row_range(begin, count), b.view, start);
      for (Index i = 0; i < count; ++i) REQUIRE(bitwise_equal(some[i], all[begin + i]));
    }
  });
}

TEST_CASE_TEMPLATE("gemm: the orientation of the operands changes no bit", T, float, double) {
  for_random_cases(60, [](Rng& rng) {
    const Index m = random_between(rng, 1, 70), n = random_extent<T>(rng, 110), k = random_extent<T>(rng, 340);
    const Operand<T> a(m, k, false, rng), b(k, n, false, rng);
    Operand<T> a_turned(m, k, true, rng), b_turned(k, n, true, rng);
    const auto copy = [](const Operand<T>& from, Operand<T>& to) {
      for (Index i = 0; i < from.view.rows; ++i) {
        for (Index j = 0; j < from.view.columns; ++j) const_cast<T&>(to.view(i, j)) = from.view(i, j);
      }
    };
    copy(a, a_turned);
    copy(b, b_turned);
    const auto c = multiply(Way::as_is, a.view, b.view);
    CHECK(bitwise_equal(c, multiply(Way::as_is, a_turned.view, b.view)));
    CHECK(bitwise_equal(c, multiply(Way::as_is, a.view, b_turned.view)));
    CHECK(bitwise_equal(c, multiply(Way::serial, a_turned.view, b_turned.view)));
  });
}

TEST_CASE_TEMPLATE("gemm: the number of threads changes no bit", T, float, double) {
  for_random_cases(15, [](Rng& rng) {
    const Index m = random_between(rng, 1, 400), n = random_between(rng, 1, 500), k = random_between(rng, 1, 400);
    const Operand<T> a(m, k, rng.below(2) == 0, rng), b(k, n, rng.below(2) == 0, rng);
    std::optional<Tensor<T, 2>> first;
    for (const int threads : {1, 2, 3, 8}) {
      const WithThreads with(threads);
      const auto c = multiply(Way::as_is, a.view, b.view);
      if (!first) first = c;
      CHECK(bitwise_equal(c, *first));
    }
  });
}

TEST_CASE_TEMPLATE("gemm: a NaN stays in its row or column, and changes no bit elsewhere", T, float, double) {
  for_random_cases(60, [](Rng& rng) {
    const Index m = random_between(rng, 1, 30), n = random_between(rng, 1, 110), k = random_between(rng, 1, 40);
    Operand<T> a(m, k, rng.below(2) == 0, rng), b(k, n, rng.below(2) == 0, rng);
    const auto clean = multiply(Way::as_is, a.view, b.view);
    const T poison =
        static_cast<T>(std::array{not_a_number, infinity, -infinity}[static_cast<std::size_t>(rng.below(3))]);
    const Index row = rng.below(m), column = rng.below(n), depth = rng.below(k);
    const T a_before = a.view(row, depth);
    const_cast<T&>(a.view(row, depth)) = poison;
    const auto poisoned_row = multiply(Way::as_is, a.view, b.view);
    const_cast<T&>(a.view(row, depth)) = a_before;
    const_cast<T&>(b.view(depth, column)) = poison;
    const auto poisoned_column = multiply(Way::serial, a.view, b.view);
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        REQUIRE((i == row ? !std::isfinite(poisoned_row(i, j)) : bitwise_equal(poisoned_row(i, j), clean(i, j))));
        REQUIRE(
            (j == column ? !std::isfinite(poisoned_column(i, j)) : bitwise_equal(poisoned_column(i, j), clean(i, j))));
      }
    }
  });
}

TEST_CASE("gemm: complex numbers multiply as they are, never conjugated") {
  using C = std::complex<double>;
  Rng rng(3);
  Tensor<C, 2> a(Shape{3, 4}), b(Shape{4, 5});
  for (Index i = 0; i < a.size(); ++i) a.data()[i] = C(rng.normal(), rng.normal());
  for (Index i = 0; i < b.size(); ++i) b.data()[i] = C(rng.normal(), rng.normal());
  Tensor<C, 2> c(Shape{3, 5});
  detail::gemm(c.data(), 5, MatrixView<C>{a.data(), 3, 4, 4, 1}, MatrixView<C>{b.data(), 4, 5, 5, 1});
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 5; ++j) {
      C sum = 0;
      for (Index l = 0; l < 4; ++l) sum += a(i, l) * b(l, j);
      CHECK(std::abs(c(i, j) - sum) < 1e-14);
    }
  }
}

TEST_CASE("gemm_depth_block: equal blocks, whole steps of the unrolled kernel, none longer than the limit") {
  for (Index depth = 1; depth < 2000; ++depth) {
    const Index block = detail::gemm_depth_block(depth);
    REQUIRE(block % 8 == 0);
    REQUIRE(block <= detail::gemm_largest_depth);
    REQUIRE((depth + block - 1) / block == (depth + detail::gemm_largest_depth - 1) / detail::gemm_largest_depth);
  }
}
