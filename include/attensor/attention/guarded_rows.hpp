#pragma once
/// \file What is masked is not read, and reaches nobody: which queries and keys of a head take part at all, and
/// operands whose infinities and NaNs stay away from the rows that may not see them.

#include "attensor/attention/score_terms.hpp"
#include "attensor/core/gemm.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// One head of a query, key, value or gradient: rows at a fixed step.
template <class T>
struct HeadMatrix {
  T* data = nullptr;
  Index rows = 0, columns = 0, stride = 0;

  T* row(Index i) const { return data + i * stride; }
  operator MatrixView<std::remove_const_t<T>>() const { return {data, rows, columns, stride, 1}; }
};

template <class T>
HeadMatrix<T> head_matrix(const View<T, 4>& x, Index batch, Index head) {
  return {advanced(x.data(), batch * x.stride(0) + head * x.stride(1)), x.extent(2), x.extent(3), x.stride(2)};
}

/// The rows of an operand that some allowed pair touches. The others are never read; zeros stand in their place.
template <Number T>
class SeenRows {
 public:
  /// `seen(row)`: whether any pair with this row is allowed.
  template <class Seen>
  SeenRows(const HeadMatrix<const T>& x, Index count, bool all_seen, Seen&& seen)
      : rows_{x.data, count, x.columns, x.stride} {
    if (!all_seen) {
      all_seen = true;
      for (Index i = 0; i < count && all_seen; ++i) all_seen = seen(i);
    }
    if (all_seen) return;
    copy_ = Scratch<T>(count * x.columns);
    for (Index i = 0; i < count; ++i) {
      T* to = copy_.data() + i * x.columns;
      seen(i) ? std::copy_n(x.row(i), x.columns, to) : std::fill_n(to, x.columns, T(0));
    }
    rows_ = {copy_.data(), count, x.columns, x.columns};
  }

  const HeadMatrix<const T>& rows() const { return rows_; }

 private:
  HeadMatrix<const T> rows_;
  Scratch<T> copy_{0};
};

/// The same for an operand whose product with a weight of 0 has to be 0, and 0 * NaN is not: rows that hold a NaN or an
/// infinity are left out and added one by one, where allowed.
template <Number T>
class GuardedRows {
 public:
  explicit GuardedRows(const SeenRows<T>& x) : source_(x.rows()), view_(source_) {
    if (all_finite()) return;
    copy_ = Scratch<T>(source_.rows * source_.columns);
    not_finite_ = Scratch<Index>(source_.rows);
    for (Index i = 0; i < source_.rows; ++i) {
      T* to = copy_.data() + i * source_.columns;
      if (is_finite(i)) {
        std::copy_n(source_.row(i), source_.columns, to);
      } else {
        std::fill_n(to, source_.columns, T(0));
        not_finite_[not_finite_count_++] = i;
      }
    }
    view_ = {copy_.data(), source_.rows, source_.columns, source_.columns, 1};
  }

  const MatrixView<T>& view() const { return view_; }

  /// C += A(i, j) * row j for each row j that is not finite and each i with allows(i, j).
  template <class Allows>
  void add_rows_not_finite(T* c, Index c_stride, const MatrixView<T>& a, Allows&& allows) const {
    for (Index n = 0; n < not_finite_count_; ++n) {
      const Index j = not_finite_[n];
      for (Index i = 0; i < a.rows; ++i) {
        if (!allows(i, j)) continue;
        for (Index d = 0; d < source_.columns; ++d) c[i * c_stride + d] += a(i, j) * source_.row(j)[d];
      }
    }
  }

 private:
  /// A sum of x * 0 is NaN where any x is NaN or infinite.
  bool is_finite(Index i) const {
    const T* row = source_.row(i);
    return sum_row<T>(source_.columns, [&](auto at) { return at.load(row) * Packet<T>(T(0)); }) == T(0);
  }
  bool all_finite() const {
    Packet<T> zero(T(0));
    for (Index i = 0; i < source_.rows; ++i) {
      const T* row = source_.row(i);
      for_row<T>(source_.columns, [&](auto at) { zero = fma(at.load(row), Packet<T>(T(0)), zero); });
    }
    return sum(zero) == T(0);
  }

  HeadMatrix<const T> source_;
  MatrixView<T> view_;
  Scratch<T> copy_{0};
  Scratch<Index> not_finite_{0};
  Index not_finite_count_ = 0;
};

/// Which queries and keys take part at all.
template <Number T>
class Participants {
 public:
  explicit Participants(const ScoreTerms<T>& all_terms) : terms_(without_padding(all_terms)), key_end_(terms_.keys) {
    const ScoreTerms<T>& terms = terms_;
    if (!terms.hides_pairs()) return;
    keys_ = Scratch<bool>(terms.keys);
    queries_ = Scratch<bool>(terms.queries);
    const bool one_row =
        terms.mask.row_stride == 0 && terms.bias.row_stride == 0;  // the same for all queries, as padding is
    for (Index j = 0; j < terms.keys; ++j) keys_[j] = one_row && terms.shows(0, j) && in_range(j);
    for (Index i = 0; i < terms.queries; ++i) {
      const auto [begin, end] = terms.range(i);
      queries_[i] = false;
      for (Index j = begin; j < end && !(one_row && queries_[i]); ++j) {
        const bool allowed = terms.shows(i, j);
        queries_[i] |= allowed;
        keys_[j] |= allowed;
      }
    }
    while (key_end_ > 0 && !keys_[key_end_ - 1]) --key_end_;
  }
  bool query(Index i) const {
    if (terms_.hides_pairs()) return queries_[i];
    const auto [begin, end] = terms_.range(i);
    return begin < end;
  }
  bool key(Index j) const { return terms_.hides_pairs() ? keys_[j] : in_range(j); }
  /// The rows of an operand that belong to queries, or to keys.
  SeenRows<T> query_rows(const HeadMatrix<const T>& x) const {
    return SeenRows<T>(x, terms_.queries, everything(), [&](Index i) { return query(i); });
  }
  SeenRows<T> key_rows(const HeadMatrix<const T>& x) const {
    return SeenRows<T>(x, key_end_, everything(), [&](Index j) { return key(j); });
  }

  /// The terms without the keys at the end that mask or bias hide from everybody: right padding is left out, and a
  /// padded sequence has the bits of the sequence alone.
  ScoreTerms<T> trimmed() const {
    ScoreTerms<T> terms = terms_;
    terms.keys = key_end_;
    return terms;
  }

 private:
  /// A mask that hides the last keys from all queries says what a length says, and a length costs less.
  static ScoreTerms<T> without_padding(ScoreTerms<T> terms) {
    if (!terms.mask.data || terms.mask.row_stride != 0) return terms;
    Index shown = 0;
    while (shown < terms.keys && terms.mask(0, shown)) ++shown;
    for (Index j = shown; j < terms.keys; ++j) {
      if (terms.mask(0, j)) return terms;
    }
    terms.keys = shown;
    terms.mask = {};
    return terms;
  }
  /// Nothing is masked: true without a look at each row, where that is plain to see.
  bool everything() const {
    return !terms_.hides_pairs() && terms_.queries > 0 && terms_.keys > 0 &&
           terms_.range(0) == terms_.range(terms_.queries - 1) &&
           terms_.range(0) == std::pair<Index, Index>(0, terms_.keys);
  }
  /// Queries i with lowest <= j - i - diagonal <= highest form a range of their own.
  bool in_range(Index j) const {
    const Index first = std::max<Index>(0, j - terms_.diagonal - terms_.highest);
    const Index last = std::min<Index>(terms_.queries - 1, j - terms_.diagonal - terms_.lowest);
    return first <= last;
  }

  ScoreTerms<T> terms_;
  Scratch<bool> keys_{0}, queries_{0};
  Index key_end_;
};

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
