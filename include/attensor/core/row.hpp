#pragma once
/// \file
/// Rows: loops over whole packets in a fixed order, so that a row has the same bits wherever it lies.
///
/// A row kernel is a lambda of one place: `at.load(x)` reads a packet there, `at.store(y, packet)` writes one. The last
/// place of a row may be partial; it is padded to a whole packet on the way in and cut on the way out. (An Eigen
/// reduction or transcendental on a mapped row would peel to an aligned address and finish in scalars: other bits at
/// another address.)

#include <array>

#include "attensor/core/packet.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// A place where all lanes lie inside the row.
template <Number T>
struct WholePlace {
  static constexpr bool is_whole = true;
  Index offset;

  Packet<T> load(const T* x) const { return Packet<T>::load(x + offset); }
  void store(T* y, Packet<T> value) const { value.store(y + offset); }
  Packet<T> fill(Packet<T> value, T) const { return value; }
};

/// The last place of a row, with `count` lanes inside it.
template <Number T>
struct PartialPlace {
  static constexpr bool is_whole = false;
  Index offset;
  Index count;

  Packet<T> load(const T* x) const { return Packet<T>::load_partial(x + offset, count); }
  void store(T* y, Packet<T> value) const { value.store_partial(y + offset, count); }
  /// `other` in the lanes outside of the row.
  Packet<T> fill(Packet<T> value, T other) const { return value.first_lanes(count, other); }
};

/// body(place) for each packet of a row of n.
template <Number T, class Body>
void for_row(Index n, Body&& body) {
  constexpr Index lanes = Packet<T>::lanes;
  Index i = 0;
  for (; i + lanes <= n; i += lanes) body(WholePlace<T>{i});
  if constexpr (lanes > 1) {
    if (i < n) body(PartialPlace<T>{i, n - i});
  }
}

/// The reduction of term(place) over a row of n, in four running packets that are joined in a fixed order. Packet
/// number p goes to the (p % 4)-th whatever n is, so neutral terms at the end of a row (padding) change no bit.
template <Number T, class Join, class Term>
Packet<T> reduce_row(Index n, T neutral, Join&& join, Term&& term) {
  constexpr Index lanes = Packet<T>::lanes;
  Packet<T> a(neutral), b(neutral), c(neutral), d(neutral);
  Index i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = join(a, term(WholePlace<T>{i}));
    b = join(b, term(WholePlace<T>{i + lanes}));
    c = join(c, term(WholePlace<T>{i + 2 * lanes}));
    d = join(d, term(WholePlace<T>{i + 3 * lanes}));
  }
  const auto next = [&](Packet<T>& running) {  // false when the row has ended
    if (i + lanes <= n) {
      running = join(running, term(WholePlace<T>{i}));
    } else if (i < n) {
      const PartialPlace<T> last{i, n - i};
      running = join(running, last.fill(term(last), neutral));
    }
    i += lanes;
    return i < n;
  };
  if (i < n) (void)(next(a) && next(b) && next(c) && next(d));
  return join(join(a, b), join(c, d));
}

/// sum over the row of term(place)
template <Number T, class Term>
T sum_row(Index n, Term&& term) {
  return sum(reduce_row<T>(
      n, T(0), [](Packet<T> a, Packet<T> b) { return a + b; }, term));
}

/// max over the row of term(place); -infinity for an empty row. A NaN is passed over.
template <Number T, class Term>
T max_row(Index n, Term&& term) {
  constexpr T lowest = T(-std::numeric_limits<double>::infinity());
  return largest(reduce_row<T>(
      n, lowest, [](Packet<T> a, Packet<T> b) { return max(a, b); }, term));
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
