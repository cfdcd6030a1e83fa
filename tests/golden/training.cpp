// Golden cases of optimizers.

#include "attensor/optim/adam.hpp"
#include "golden/golden_case.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace {

template <Scalar T>
void run_adam(GoldenCase& c) {
  auto param = c.input<T, 1>("param");
  const auto grads = c.input<T, 2>("grads");
  const AdamOptions options{.learning_rate = c.number("lr", 1e-3),
                            .beta1 = c.number("beta1", 0.9),
                            .beta2 = c.number("beta2", 0.999),
                            .eps = c.number("eps", 1e-8),
                            .weight_decay = c.number("weight_decay", 0),
                            .decoupled_decay = c.flag("decoupled")};
  if (c.integer("steps", grads.extent(0)) != grads.extent(0)) c.fail("option steps is not the number of gradients");
  AdamMoments<T> moments;
  for (Index step = 0; step < grads.extent(0); ++step) adam_update(param, contiguous(grads[step]), moments, options);
  c.check("result", param);
}

}  // namespace

bool run_training_case(GoldenCase& c) {
  if (c.operation() != "adam") return false;
  run_in_both(c, [&]<class T>(T) { run_adam<T>(c); });
  return true;
}

}  // namespace attensor::inline ATTENSOR_ISA
