#pragma once
/// \file
/// Attention by its definition, one number at a time in double. It shares no code with the library: what is tested
/// against it is tested against the text of the contract.

#include <algorithm>
#include <cmath>
#include <vector>

#include "attensor/attention/options.hpp"
#include "support/near.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct NaiveResult {
  Tensor<double, 4> output, weights;  ///< weights before dropout
  Tensor<double, 3> logsumexp;
};

/// One batch entry and head of an attention: which keys a query may attend to, and with what score.
struct NaiveHead {
  const Tensor<double, 4>& query;
  const Tensor<double, 4>& key;
  const AttentionOptions<double>& options;
  Index b, h;

  Index queries() const { return options.query_lengths ? (*options.query_lengths)(b) : query.extent(2); }
  Index keys() const { return options.key_lengths ? (*options.key_lengths)(b) : key.extent(2); }
  Index key_head() const { return h / (query.extent(1) / key.extent(1)); }
  /// Of key j, seen from query i.
  Index position(Index i, Index j) const {
    return options.causal == Causal::bottom_right ? j - i - (keys() - queries()) : j - i;
  }

  template <class T>
  static T broadcast(const Tensor<T, 4>& x, Index b, Index h, Index i, Index j) {
    const auto at = [&](std::size_t d, Index place) { return x.extent(d) == 1 ? 0 : place; };
    return x(at(0, b), at(1, h), at(2, i), at(3, j));
  }

  bool allows(Index i, Index j) const {
    const Index p = position(i, j);
    return i < queries() && j < keys() && (options.causal == Causal::none || p <= 0) &&
           (options.window_left < 0 || p >= -options.window_left) &&
           (options.window_right < 0 || p <= options.window_right) &&
           (!options.mask || broadcast(*options.mask, b, h, i, j)) &&
           (!options.bias || broadcast(*options.bias, b, h, i, j) != -infinity);
  }
  bool allows_any(Index i) const {
    for (Index j = 0; j < key.extent(2); ++j) {
      if (allows(i, j)) return true;
    }
    return false;
  }

  /// The bucket of T5, in float as the models were trained.
  Index bucket(Index p) const {
    const auto& relative = options.relative_bias;
    const Index sides = relative.bidirectional ? 2 : 1, buckets = relative.table->extent(0) / sides,
                exact = buckets / 2;
    const Index first = relative.bidirectional && p > 0 ? buckets : 0;
    const Index distance = relative.bidirectional ? std::abs(p) : std::max<Index>(0, -p);
    if (distance < exact) return first + distance;
    const auto e = static_cast<float>(exact);
    const float share =
        std::log(static_cast<float>(distance) / e) /
        static_cast<float>(std::log(static_cast<double>(relative.max_distance) / static_cast<double>(exact)));
    return first + std::min(exact + static_cast<Index>(share * static_cast<float>(buckets - exact)), buckets - 1);
  }

  double score(Index i, Index j) const {
    const Index width = query.extent(3);
    double s = 0;
    for (Index d = 0; d < width; ++d) s += query(b, h, i, d) * key(b, key_head(), j, d);
    s *= options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(std::max<Index>(1, width)));
    if (options.softcap > 0) s = options.softcap * std::tanh(s / options.softcap);
    const Index p = position(i, j);
    if (options.bias) s += broadcast(*options.bias, b, h, i, j);
    if (options.relative_bias) s += (*options.relative_bias.table)(bucket(p), h);
    if (options.alibi_slopes) s -= (*options.alibi_slopes)(h) * static_cast<double>(std::abs(p));
    return s;
  }
};

inline NaiveResult naive_attention(const Tensor<double, 4>& query, const Tensor<double, 4>& key,
                                   const Tensor<double, 4>& value, const AttentionOptions<double>& options,
                                   const DropoutMask& dropout = {}) {
  const Index heads = query.extent(1), queries = query.extent(2), keys = key.extent(2);
  NaiveResult result{zeros<double>({query.extent(0), heads, queries, value.extent(3)}),
                     zeros<double>({query.extent(0), heads, queries, keys}),
                     zeros<double>({query.extent(0), heads, queries})};
  for (Index b = 0; b < query.extent(0); ++b) {
    for (Index h = 0; h < heads; ++h) {
      const NaiveHead head{query, key, options, b, h};
      for (Index i = 0; i < queries; ++i) {
        std::vector<std::pair<Index, double>> seen;
        double largest = options.sinks ? (*options.sinks)(h) : -infinity;
        for (Index j = 0; j < keys; ++j) {
          if (!head.allows(i, j)) continue;
          seen.emplace_back(j, head.score(i, j));
          largest = std::max(largest, seen.back().second);
        }
        double total = options.sinks ? std::exp((*options.sinks)(h)-largest) : 0;
        for (const auto& [j, s] : seen) total += std::exp(s - largest);
        result.logsumexp(b, h, i) = largest == -infinity ? -infinity : largest + std::log(total);
        for (const auto& [j, s] : seen) {
          const double weight = largest == -infinity ? 0 : std::exp(s - largest) / total;
          result.weights(b, h, i, j) = weight;
          double factor = 1;
          if (dropout.active()) dropout.factors(b * heads + h, i * keys + j, 1, &factor);
          for (Index d = 0; d < value.extent(3); ++d) {
            result.output(b, h, i, d) += factor * weight * value(b, head.key_head(), j, d);
          }
        }
      }
    }
  }
  return result;
}

}  // namespace attensor::inline ATTENSOR_ISA
