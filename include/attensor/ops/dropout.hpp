#pragma once
/// \file
/// Inverted dropout: each element is zeroed with probability p, the others are scaled so that the mean stays.
///
///     y = x * m,   m = 0 with probability p, else 1 / (1 - p)            dx = dy * m
///
/// m is a function of the generator's seed, the number of the mask, and the element's logical index. So it is made
/// again in the backward pass instead of being stored, and does not depend on threads or tiles. p is rounded to a
/// multiple of 2^-16, and the scale belongs to the rounded p. Source: Srivastava et al., Dropout (2014).

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/random.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// One mask. A default one drops nothing.
class DropoutMask {
 public:
  DropoutMask() = default;
  /// A new mask of the generator's; without a generator, or with p = 0, one that drops nothing.
  /// \throws ValueError unless 0 <= p <= 1
  DropoutMask(double p, Rng* rng) {
    detail::check_value(p >= 0 && p <= 1, "dropout", "p", p, "a probability in [0, 1]");
    if (!rng || p == 0) return;
    threshold_ = static_cast<std::uint32_t>(std::lround(p * 65536));
    key_ = rng->key();
    number_ = rng->next_mask();
  }

  bool active() const { return threshold_ > 0; }

  /// What the elements [begin, begin + count) of a row are multiplied with.
  template <Scalar T>
  void factors(Index row, Index begin, Index count, T* out) const {
    const T scale = threshold_ >= 65536 ? T(0) : static_cast<T>(65536.0 / (65536.0 - threshold_));
    T group[group_size];
    for (Index done = 0; done < count;) {
      const Index first = (begin + done) % group_size;
      const Index n = std::min(count - done, group_size - first);
      if (n == group_size) {
        make_group(row, (begin + done) / group_size, scale, out + done);
      } else {
        make_group(row, (begin + done) / group_size, scale, group);
        std::copy_n(group + first, n, out + done);
      }
      done += n;
    }
  }

 private:
  static constexpr Index width = 16;              // Philox blocks made side by side, in vector registers
  static constexpr Index group_size = 8 * width;  // a block decides eight elements, 16 bits each

  template <Scalar T>
  void make_group(Index row, Index group, T scale, T* out) const {
    // detail::philox, for `width` counters at once.
    std::uint32_t c[4][width];
    for (Index i = 0; i < width; ++i) {
      c[0][i] = static_cast<std::uint32_t>(group * width + i);
      c[1][i] = static_cast<std::uint32_t>(row);
      c[2][i] =
          static_cast<std::uint32_t>((row >> 32) ^ (group * width >> 32)) ^ static_cast<std::uint32_t>(number_ >> 32);
      c[3][i] = static_cast<std::uint32_t>(number_);  // never 0, which is the stream of Rng::next
    }
    std::uint32_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
#if defined(__GNUC__)
#pragma GCC unroll 1  // a hint: taken apart completely, the loop would not become vector instructions
#endif
      for (Index i = 0; i < width; ++i) {
        const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0][i];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2][i];
        c[0][i] = static_cast<std::uint32_t>(b >> 32) ^ c[1][i] ^ k0;
        c[2][i] = static_cast<std::uint32_t>(a >> 32) ^ c[3][i] ^ k1;
        c[1][i] = static_cast<std::uint32_t>(b);
        c[3][i] = static_cast<std::uint32_t>(a);
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    for (Index word = 0; word < 4; ++word) {
      for (Index i = 0; i < width; ++i) {
        out[word * width + i] = (c[word][i] & 0xFFFF) < threshold_ ? T(0) : scale;
        out[(4 + word) * width + i] = (c[word][i] >> 16) < threshold_ ? T(0) : scale;
      }
    }
  }

  std::array<std::uint32_t, 2> key_{};
  std::uint64_t number_ = 0;
  std::uint32_t threshold_ = 0;  // of 2^16
};

namespace detail {

/// y = x * mask over n contiguous numbers; y may be x.
template <Scalar T>
void apply_dropout(const DropoutMask& mask, Index n, const T* x, T* y) {
  constexpr Index chunk = 1024;
  parallel_chunks(n, 8 * chunk, [&](Index begin, Index end) {
    T factors[chunk];
    for (Index i = begin; i < end; i += chunk) {
      const Index count = std::min(chunk, end - i);
      mask.factors(0, i, count, factors);
      for_row<T>(count, [&](auto at) { at.store(y + i, at.load(x + i) * at.load(factors)); });
    }
  });
}

}  // namespace detail

/// x with elements dropped by the mask; the shape of x. A mask that drops nothing gives a copy.
template <TensorLike X>
auto dropout(const X& x, const DropoutMask& mask) {
  auto y = contiguous(x);
  if (mask.active()) detail::apply_dropout(mask, y.size(), y.data(), y.data());
  return y;
}

/// The derivative of sum(dropout(x, mask) * dy) with respect to x; fresh.
template <TensorLike DY>
auto dropout_backward(const DY& dy, const DropoutMask& mask) {
  return dropout(dy, mask);
}

}  // namespace attensor::inline ATTENSOR_ISA
