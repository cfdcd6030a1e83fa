#pragma once
/// \file
/// Values of options in golden cases, by name, and the kernels that every case with attention runs through.

#include "attensor/attention/options.hpp"
#include "attensor/ops/activation.hpp"
#include "golden/golden_case.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// \throws ValueError for any other name
inline Activation activation_of(const std::string& name) {
  if (name == "relu") return Activation::relu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_tanh") return Activation::gelu_tanh;
  if (name == "silu") return Activation::silu;
  throw_error<ValueError>({"activation ", name, " is not known; expected relu, gelu, gelu_tanh or silu"});
}

inline Causal causal_of(const std::string& name) {
  if (name == "none") return Causal::none;
  if (name == "top_left") return Causal::top_left;
  if (name == "bottom_right") return Causal::bottom_right;
  throw_error<ValueError>({"causal ", name, " is not known; expected none, top_left or bottom_right"});
}

inline constexpr std::pair<Kernel, const char*> all_kernels[] = {{Kernel::automatic, "automatic"},
                                                                 {Kernel::reference, "reference"}};

/// body(kernel) for all kernels.
template <Scalar T, class Body>
void run_kernels(GoldenCase& c, Body&& body) {
  for (const auto& [kernel, name] : all_kernels) {
    c.begin_run<T>(name);
    body(kernel);
    c.end_run();
  }
}

}  // namespace attensor::inline ATTENSOR_ISA
