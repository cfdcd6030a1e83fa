#include <attensor/io/safetensors.hpp>

int main() { return 0; }
