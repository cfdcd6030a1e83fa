// Compiled once for each instruction set; ATTENSOR_TEST_ISA names the copy.

#include "isa_forward.hpp"

#include "attensor/attensor.hpp"

using namespace attensor;

#define ATTENSOR_TEST_FORWARD(isa) ATTENSOR_TEST_FORWARD_(isa)
#define ATTENSOR_TEST_FORWARD_(isa) forward_##isa

std::vector<float> ATTENSOR_TEST_FORWARD(ATTENSOR_TEST_ISA)() {
  Rng rng(1);
  const auto x = normal<float>({2, 5, 12}, rng);
  const MultiHeadAttention<float> attention({.embed_dim = 12, .num_heads = 3}, rng);
  const auto y = attention.forward(x, {});
  return {y.data(), y.data() + y.size()};
}
