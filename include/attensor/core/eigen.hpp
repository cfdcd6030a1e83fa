#pragma once
/// \file
/// The one file that includes Eigen, and what is known of the version found.

// Eigen's own OpenMP product splits its sums by the number of threads; attensor threads above Eigen and never calls it
// in parallel. The macro concerns Eigen's products alone and is left as the user has it.
#include <Eigen/Core>

#include "attensor/core/error.hpp"

namespace attensor::inline ATTENSOR_ISA {

#if !EIGEN_VERSION_AT_LEAST(3, 4, 0)
#error "attensor: needs Eigen 3.4 or 5.x"
#endif

namespace detail {

/// Eigen's packing routines and micro-kernel are internal, so they are used only where they were tested: 3.4.0 and
/// 5.0.x. On any other version products take Eigen's public product, and the promise of equal bits is off.
#if (EIGEN_WORLD_VERSION == 3 && EIGEN_MAJOR_VERSION == 4 && EIGEN_MINOR_VERSION == 0) || \
    (EIGEN_MAJOR_VERSION == 5 && EIGEN_MINOR_VERSION == 0)
inline constexpr bool eigen_is_known = true;
#else
inline constexpr bool eigen_is_known = false;
#endif

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
