#pragma once
/// \file
/// What the optimizers share: the walk through a model's gradients, and checks of options that cost nothing while they
/// hold.

#include <vector>

#include "attensor/core/check.hpp"
#include "attensor/layers/parameter.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Written so that NaN fails.
inline void check_not_negative(const char* function, const char* argument, double value) {
  if (!(value >= 0)) [[unlikely]]
    check_value(false, function, argument, value, "0 or more");
}

/// 0 <= value < 1
inline void check_decay_rate(const char* function, const char* argument, double value) {
  if (!(value >= 0 && value < 1)) [[unlikely]]
    check_value(false, function, argument, value, "0 or more, and below 1");
}

/// update(parameter, moments) for each parameter that has a gradient; `moments` has one entry for each parameter, with
/// a gradient or without, and grows when the module is first met.
template <class Module, class Moments, class Update>
void for_each_gradient(Module& module, std::vector<Moments>& moments, Update&& update) {
  std::size_t next = 0;
  visit_parameters(module, [&](const ParameterPath&, auto& parameter) {
    if (next == moments.size()) moments.emplace_back();
    Moments& own = moments[next++];
    if (!parameter.grad.empty()) update(parameter, own);
  });
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
