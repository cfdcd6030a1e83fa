// Mirrors include/attensor/optim/schedule.hpp.

#include "attensor/optim/schedule.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"

using namespace attensor;

namespace {

constexpr ScheduleOptions options{.learning_rate = 8, .warmup_steps = 3, .total_steps = 11, .final_learning_rate = 2};

}  // namespace

TEST_CASE("schedule: all warm up alike, from above 0, and reach the rate at step warmup_steps") {
  for (const auto schedule : {constant_schedule, linear_schedule, cosine_schedule}) {
    CHECK(schedule(0, options) == 2);
    CHECK(schedule(1, options) == 4);
    CHECK(schedule(2, options) == 6);
    CHECK(schedule(3, options) == 8);
  }
}

TEST_CASE("schedule: constant stays, linear and cosine end at the final rate and stay there") {
  CHECK(constant_schedule(1'000'000, options) == 8);
  CHECK(linear_schedule(7, options) == 5);
  CHECK_NEAR(cosine_schedule(7, options), 5.0, 1e-15);
  CHECK_NEAR(cosine_schedule(5, options), 2 + 6 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  for (const Index step : {11, 12, 1'000'000}) {
    CHECK(linear_schedule(step, options) == 2);
    CHECK(cosine_schedule(step, options) == 2);
  }
}

TEST_CASE("schedule: no warm-up starts at the rate, and decay never rises") {
  const ScheduleOptions plain{.learning_rate = 1, .total_steps = 50};
  for (const auto schedule : {linear_schedule, cosine_schedule}) {
    CHECK(schedule(0, plain) == 1);
    for (Index step = 1; step <= 50; ++step) CHECK(schedule(step, plain) < schedule(step - 1, plain));
  }
}

TEST_CASE("schedule: what makes no sense is refused") {
  CHECK_THROWS_WITH_AS(constant_schedule(-1, {}), "schedule: step is -1; expected 0 or more", ValueError);
  CHECK_THROWS_WITH_AS(linear_schedule(0, {.warmup_steps = -2, .total_steps = 5}),
                       "schedule: warmup_steps is -2; expected 0 or more", ValueError);
  CHECK_THROWS_WITH_AS(cosine_schedule(0, {.warmup_steps = 5, .total_steps = 5}),
                       "schedule: total_steps is 5; expected more than warmup_steps, which is 5", ValueError);
}
