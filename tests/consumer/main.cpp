// A stranger's first program.

#include <iostream>

#include <attensor/attensor.hpp>

int main() {
  using namespace attensor;
  Rng rng(1);
  const auto x = normal<float>({2, 4, 8}, rng);
  const MultiHeadAttention<float> attention({.embed_dim = 8, .num_heads = 2}, rng);
  const auto y = attention.forward(x, {});
  std::cout << to_string(build_info()) << '\n' << y << '\n';
  return y.shape() == x.shape() ? 0 : 1;
}
