#pragma once
/// \file
/// Learning rates as pure functions of the step, counted from 0. With w = warmup_steps, n = total_steps, a =
/// learning_rate and b = final_learning_rate:
///
///     step < w:    a * (step + 1) / (w + 1)                         the same for all; never 0: no step is wasted
///     else         constant:  a
///                  linear:    a + (b - a) * s                       s = min(1, (step - w) / (n - w))
///                  cosine:    b + (a - b) * (1 + cos(pi * s)) / 2
///
///     optimizer.options.learning_rate =
///         cosine_schedule(step, {.learning_rate = 1e-3, .warmup_steps = 100, .total_steps = 5000});
///
/// Source of the cosine: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (2017), equation
/// 5, without restarts.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "attensor/core/check.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct ScheduleOptions {
  double learning_rate = 1e-3;     ///< reached at step warmup_steps
  Index warmup_steps = 0;          ///< steps with less than that, at the start
  Index total_steps = 0;           ///< where the decay ends; constant_schedule does not look at it
  double final_learning_rate = 0;  ///< from total_steps on
};

namespace detail {

inline bool is_warming_up(Index step, const ScheduleOptions& options) {
  if (step < 0) check_value(false, "schedule", "step", step, "0 or more");
  if (options.warmup_steps < 0) check_value(false, "schedule", "warmup_steps", options.warmup_steps, "0 or more");
  return step < options.warmup_steps;
}

inline double warmup_rate(Index step, const ScheduleOptions& options) {
  return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps + 1);
}

/// How much of the decay is over, from 0 to 1.
inline double decay_progress(Index step, const ScheduleOptions& options) {
  if (options.total_steps <= options.warmup_steps) {
    check_value(false, "schedule", "total_steps", options.total_steps,
                "more than warmup_steps, which is " + std::to_string(options.warmup_steps));
  }
  return std::min(1.0, static_cast<double>(step - options.warmup_steps) /
                           static_cast<double>(options.total_steps - options.warmup_steps));
}

}  // namespace detail

/// \throws ValueError for a negative step or warmup_steps
inline double constant_schedule(Index step, const ScheduleOptions& options) {
  return detail::is_warming_up(step, options) ? detail::warmup_rate(step, options) : options.learning_rate;
}

/// \throws ValueError for a negative step or warmup_steps, or where total_steps is not above warmup_steps
inline double linear_schedule(Index step, const ScheduleOptions& options) {
  const double progress = detail::decay_progress(step, options);
  if (detail::is_warming_up(step, options)) return detail::warmup_rate(step, options);
  return std::lerp(options.learning_rate, options.final_learning_rate, progress);
}

/// \throws ValueError for a negative step or warmup_steps, or where total_steps is not above warmup_steps
inline double cosine_schedule(Index step, const ScheduleOptions& options) {
  const double progress = detail::decay_progress(step, options);
  if (detail::is_warming_up(step, options)) return detail::warmup_rate(step, options);
  return std::lerp(options.final_learning_rate, options.learning_rate, (1 + std::cos(std::numbers::pi * progress)) / 2);
}

}  // namespace attensor::inline ATTENSOR_ISA
