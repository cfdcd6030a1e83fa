// The products, instantiated once for all tests: each costs tens of seconds to compile. See the end of core/gemm_kernel.hpp.

#include "attensor/core/gemm_kernel.hpp"

template struct attensor::detail::GemmKernel<float>;
template struct attensor::detail::GemmKernel<double>;
