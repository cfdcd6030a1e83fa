#pragma once
/// \file
/// Random attention problems: a cross of everything that can be asked for.

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "attensor/attention/options.hpp"
#include "support/random_cases.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Every test of the contract runs through each kernel.
inline constexpr std::array all_kernels = {Kernel::reference};

struct AttentionCase {
  Tensor<double, 4> query, key, value;
  AttentionOptions<double> options;  ///< without a generator; dropout is set where a test may hand one in
};

struct AttentionSizes {
  Index longest = 40;  ///< of queries and keys
  Index widest = 80;   ///< of heads
  Index batch = 3;
  bool may_be_empty = true;   ///< any extent is 0 now and then
  bool bias_may_hide = true;  ///< a bias may hold -infinity
};

/// Each extent 1 or that of the scores, at random.
inline Shape<4> random_broadcast(Rng& rng, const Shape<4>& scores) {
  Shape<4> shape = scores;
  for (Index& extent : shape) extent = rng.below(2) == 0 ? 1 : extent;
  return shape;
}

inline AttentionCase random_attention(Rng& rng, const AttentionSizes& sizes = {}) {
  const auto one_in = [&](Index n) { return rng.below(n) == 0; };
  const auto extent = [&](Index largest) {
    if (sizes.may_be_empty && one_in(40)) return Index{0};
    return std::min(largest, awkward_size(rng));
  };
  const Index batch = sizes.may_be_empty && one_in(40) ? 0 : random_between(rng, 1, sizes.batch);
  const Index key_heads = random_between(rng, 1, 3), heads = key_heads * random_between(rng, 1, 3);
  const Index queries = extent(sizes.longest), keys = one_in(3) ? queries : extent(sizes.longest);
  const Index width = extent(sizes.widest), value_width = one_in(2) ? width : extent(sizes.widest);
  AttentionCase c{normal<double>({batch, heads, queries, width}, rng),
                  normal<double>({batch, key_heads, keys, width}, rng),
                  normal<double>({batch, key_heads, keys, value_width}, rng),
                  {}};
  const Shape<4> scores{batch, heads, queries, keys};
  const auto lengths = [&](Index longest) {
    Tensor<Index, 1> all(Shape{batch});
    for (Index b = 0; b < batch; ++b) all(b) = one_in(5) ? longest : random_between(rng, 0, longest);
    return all;
  };

  auto& options = c.options;
  options.causal =
      std::array{Causal::none, Causal::top_left, Causal::bottom_right}[static_cast<std::size_t>(rng.below(3))];
  if (one_in(3)) options.scale = rng.normal();
  if (one_in(2)) options.mask = random_mask(random_broadcast(rng, scores), rng, 0.3 + 0.7 * rng.uniform());
  if (one_in(2)) {
    auto bias = normal<double>(random_broadcast(rng, scores), rng);
    const bool hides = sizes.bias_may_hide && one_in(2);
    for (Index i = 0; hides && i < bias.size(); ++i) {
      if (one_in(4)) bias.data()[i] = -std::numeric_limits<double>::infinity();
    }
    options.bias = std::move(bias);
  }
  if (one_in(3)) options.key_lengths = lengths(keys);
  if (one_in(3)) options.query_lengths = lengths(queries);
  if (one_in(3)) options.window_left = random_between(rng, 0, keys + 2);
  if (one_in(3)) options.window_right = random_between(rng, 0, keys + 2);
  if (one_in(4)) options.softcap = 0.5 + 4 * rng.uniform();
  if (one_in(4)) options.alibi_slopes = uniform<double>({heads}, rng);
  if (one_in(4)) {
    const bool bidirectional = one_in(2);
    const Index buckets = random_between(rng, bidirectional ? 4 : 2, 16), exact = buckets / (bidirectional ? 4 : 2);
    options.relative_bias = {normal<double>({buckets, heads}, rng), bidirectional, exact + random_between(rng, 1, 40)};
  }
  if (one_in(4)) options.sinks = normal<double>({heads}, rng);
  if (one_in(5)) options.dropout = 0.1 + 0.5 * rng.uniform();
  return c;
}

/// The same options for another type of numbers.
template <Number T>
AttentionOptions<T> options_for(const AttentionOptions<double>& from) {
  AttentionOptions<T> options;
  options.causal = from.causal;
  options.scale = from.scale;
  options.mask = from.mask;
  if (from.bias) options.bias = to<T>(*from.bias);
  options.key_lengths = from.key_lengths;
  options.query_lengths = from.query_lengths;
  options.window_left = from.window_left;
  options.window_right = from.window_right;
  options.softcap = from.softcap;
  if (from.alibi_slopes) options.alibi_slopes = to<T>(*from.alibi_slopes);
  if (from.relative_bias) {
    options.relative_bias = {to<T>(*from.relative_bias.table), from.relative_bias.bidirectional,
                             from.relative_bias.max_distance};
  }
  if (from.sinks) options.sinks = to<T>(*from.sinks);
  options.dropout = from.dropout;
  options.kernel = from.kernel;
  return options;
}

/// What a failure prints of a case.
inline std::string text_of(const AttentionCase& c) {
  std::ostringstream out;
  const auto& o = c.options;
  out << "query " << shape_text(c.query.shape()) << ", key " << shape_text(c.key.shape()) << ", value "
      << shape_text(c.value.shape()) << ", causal " << static_cast<int>(o.causal);
  if (o.scale) out << ", scale " << *o.scale;
  if (o.mask) out << ", mask " << shape_text(o.mask->shape());
  if (o.bias) out << ", bias " << shape_text(o.bias->shape());
  const auto lengths = [&](const char* name, const Lengths& all) {
    if (!all) return;
    out << ", " << name;
    for (Index b = 0; b < all->size(); ++b) out << ' ' << (*all)(b);
  };
  lengths("key_lengths", o.key_lengths);
  lengths("query_lengths", o.query_lengths);
  out << ", window " << o.window_left << ' ' << o.window_right << ", softcap " << o.softcap;
  if (o.alibi_slopes) out << ", ALiBi";
  if (o.relative_bias) {
    out << ", relative bias " << shape_text(o.relative_bias.table->shape())
        << (o.relative_bias.bidirectional ? " of two sides" : "") << " up to " << o.relative_bias.max_distance;
  }
  if (o.sinks) out << ", sinks";
  out << ", dropout " << o.dropout;
  return out.str();
}

}  // namespace attensor::inline ATTENSOR_ISA
