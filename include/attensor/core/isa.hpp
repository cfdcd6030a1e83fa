#pragma once
/// \file
/// The inline namespace that carries the instruction set, and the compiler modes that are refused.
///
/// Two objects of one program may be compiled with different -m flags, or one with assertions and one without. Were
/// their inline functions one and the same symbol, the linker would keep either, and a program could run AVX-512
/// instructions on a machine that has none. So everything lives in `attensor::ATTENSOR_ISA`, an inline namespace named
/// after what the compiler may emit; users write `attensor::` and never see it but in symbols. Each such build of the
/// library has its own pool of threads, its own memory, and its own error types (all of them std::runtime_error).

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "attensor: -ffast-math and -ffinite-math-only remove the handling of infinities that masks rely on; leave them out"
#endif

#if defined(__AVX512F__)
#define ATTENSOR_ISA_BASE avx512
#elif defined(__AVX2__)
#define ATTENSOR_ISA_BASE avx2
#elif defined(__AVX__)
#define ATTENSOR_ISA_BASE avx
#elif defined(__SSE4_2__)
#define ATTENSOR_ISA_BASE sse42
#elif defined(__SSE2__) || defined(_M_X64)
#define ATTENSOR_ISA_BASE sse2
#elif defined(__ARM_NEON) || defined(_M_ARM64)
#define ATTENSOR_ISA_BASE neon
#else
#define ATTENSOR_ISA_BASE scalar
#endif

// One digit for each extension that compilers are known to emit on their own.
#ifdef __FMA__
#define ATTENSOR_ISA_FMA 1
#else
#define ATTENSOR_ISA_FMA 0
#endif
#ifdef __SSE4_1__
#define ATTENSOR_ISA_SSE41 1
#else
#define ATTENSOR_ISA_SSE41 0
#endif
#ifdef __BMI__
#define ATTENSOR_ISA_BMI 1
#else
#define ATTENSOR_ISA_BMI 0
#endif
#ifdef __BMI2__
#define ATTENSOR_ISA_BMI2 1
#else
#define ATTENSOR_ISA_BMI2 0
#endif
#ifdef __LZCNT__
#define ATTENSOR_ISA_LZCNT 1
#else
#define ATTENSOR_ISA_LZCNT 0
#endif
#ifdef __MOVBE__
#define ATTENSOR_ISA_MOVBE 1
#else
#define ATTENSOR_ISA_MOVBE 0
#endif
#ifdef __AVX512VL__
#define ATTENSOR_ISA_AVX512VL 1
#else
#define ATTENSOR_ISA_AVX512VL 0
#endif
#ifdef __AVX512DQ__
#define ATTENSOR_ISA_AVX512DQ 1
#else
#define ATTENSOR_ISA_AVX512DQ 0
#endif
#ifdef __AVX512BW__
#define ATTENSOR_ISA_AVX512BW 1
#else
#define ATTENSOR_ISA_AVX512BW 0
#endif
#ifdef __F16C__
#define ATTENSOR_ISA_F16C 1
#else
#define ATTENSOR_ISA_F16C 0
#endif
#ifdef __POPCNT__
#define ATTENSOR_ISA_POPCNT 1
#else
#define ATTENSOR_ISA_POPCNT 0
#endif
#ifdef __AVX512CD__
#define ATTENSOR_ISA_AVX512CD 1
#else
#define ATTENSOR_ISA_AVX512CD 0
#endif
#ifdef __AVX512VBMI__
#define ATTENSOR_ISA_AVX512VBMI 1
#else
#define ATTENSOR_ISA_AVX512VBMI 0
#endif
#ifdef __AVX512VBMI2__
#define ATTENSOR_ISA_AVX512VBMI2 1
#else
#define ATTENSOR_ISA_AVX512VBMI2 0
#endif
#ifdef __AVX512VPOPCNTDQ__
#define ATTENSOR_ISA_AVX512VPOPCNTDQ 1
#else
#define ATTENSOR_ISA_AVX512VPOPCNTDQ 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ATTENSOR_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTENSOR_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(ATTENSOR_ADDRESS_SANITIZER) && defined(NDEBUG)
#define ATTENSOR_ISA_MODE release_asan  // its memory does not come from the cache
#elif defined(ATTENSOR_ADDRESS_SANITIZER)
#define ATTENSOR_ISA_MODE debug_asan
#elif defined(NDEBUG)
#define ATTENSOR_ISA_MODE release
#else
#define ATTENSOR_ISA_MODE debug
#endif

#define ATTENSOR_ISA_PASTE(base, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, mode) \
  isa_##base##_##a##b##c##d##e##f##g##h##i##j##k##l##m##n##o##_##mode
#define ATTENSOR_ISA_EXPAND(...) ATTENSOR_ISA_PASTE(__VA_ARGS__)
#define ATTENSOR_ISA                                                                                                \
  ATTENSOR_ISA_EXPAND(ATTENSOR_ISA_BASE, ATTENSOR_ISA_FMA, ATTENSOR_ISA_SSE41, ATTENSOR_ISA_BMI, ATTENSOR_ISA_BMI2, \
                      ATTENSOR_ISA_LZCNT, ATTENSOR_ISA_MOVBE, ATTENSOR_ISA_F16C, ATTENSOR_ISA_POPCNT,               \
                      ATTENSOR_ISA_AVX512VL, ATTENSOR_ISA_AVX512DQ, ATTENSOR_ISA_AVX512BW, ATTENSOR_ISA_AVX512CD,   \
                      ATTENSOR_ISA_AVX512VBMI, ATTENSOR_ISA_AVX512VBMI2, ATTENSOR_ISA_AVX512VPOPCNTDQ,              \
                      ATTENSOR_ISA_MODE)
