// The products, instantiated once for all tests: each costs tens of seconds to compile. See the end of core/gemm.hpp.

#include "attensor/core/gemm.hpp"

template struct attensor::detail::GemmKernel<float>;
template struct attensor::detail::GemmKernel<double>;
