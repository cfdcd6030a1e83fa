// What each instruction set's copy of isa_forward.cpp offers. No header of attensor's is included here: isa_main.cpp is
// compiled for whatever the compiler's default is.

#pragma once

#include <vector>

/// The output of a small attention layer, always for the same input and parameters.
std::vector<float> forward_sse2();
std::vector<float> forward_avx2();
std::vector<float> forward_native();
