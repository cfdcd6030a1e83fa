// The same for attensor::safetensors: a layer's parameters go to a file and come back.

#include <attensor/attensor.hpp>
#include <attensor/io/safetensors_module.hpp>

int main() {
  using namespace attensor;
  Rng rng(1);
  const Linear<float> saved({.in_dim = 3, .out_dim = 2}, rng);
  Linear<float> loaded({.in_dim = 3, .out_dim = 2}, rng);
  save_safetensors("linear.safetensors", saved);
  load_safetensors("linear.safetensors", loaded);
  return loaded.weight.value(1, 2) == saved.weight.value(1, 2) ? 0 : 1;
}
