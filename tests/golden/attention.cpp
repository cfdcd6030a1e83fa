// Golden cases of scaled dot-product attention, through every kernel.

#include "attensor/attention/attention.hpp"

#include "golden/golden_case.hpp"
#include "golden/options.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace {

template <Scalar T>
void run_attention(GoldenCase& c, Kernel kernel) {
  const auto query = c.input<T, 4>("query"), key = c.input<T, 4>("key"), value = c.input<T, 4>("value");
  const auto grad_output = c.input<T, 4>("grad_output");
  AttentionOptions<T> options;
  options.kernel = kernel;
  options.causal = causal_of(c.text("causal", "none"));
  options.scale = c.optional_number("scale");
  options.window_left = c.integer("window_left", -1);
  options.window_right = c.integer("window_right", -1);
  options.softcap = c.number("softcap", 0);
  if (c.has("mask")) options.mask = c.input<bool, 4>("mask");
  if (c.has("bias")) options.bias = c.input<T, 4>("bias");
  if (!c.flag("enable_gqa") && query.extent(1) != key.extent(1)) c.fail("heads differ without enable_gqa");

  const auto result = scaled_dot_product_attention(query, key, value, options);
  c.check("output", result.output);
  c.check("logsumexp", result.logsumexp);
  c.check("weights", attention_weights(query, key, options));
  const auto grads = scaled_dot_product_attention_backward(grad_output, query, key, value, result, options);
  c.check("dquery", grads.query);
  c.check("dkey", grads.key);
  c.check("dvalue", grads.value);
  c.check("dbias", grads.bias);
}

}  // namespace

bool run_attention_case(GoldenCase& c) {
  if (c.operation() != "sdpa") return false;
  run_kernels<double>(c, [&](Kernel kernel) { run_attention<double>(c, kernel); });
  run_kernels<float>(c, [&](Kernel kernel) { run_attention<float>(c, kernel); });
  return true;
}

}  // namespace attensor::inline ATTENSOR_ISA
