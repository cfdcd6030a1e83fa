#pragma once
/// \file
/// Attention of one case, forward and backward, for all kernels.

#include "attensor/attention/attention.hpp"
#include "attention/random_attention.hpp"
#include "support/case_file.hpp"
#include "support/near.hpp"

namespace attensor::inline ATTENSOR_ISA {

template <Scalar T>
struct Attended {
  AttentionResult<T> result;
  Tensor<T, 4> weights;
  AttentionGrads<T> grads;

  bool operator==(const Attended& other) const {
    return bitwise_equal(result.output, other.result.output) &&
           bitwise_equal(result.logsumexp, other.result.logsumexp) && bitwise_equal(grads.query, other.grads.query) &&
           bitwise_equal(grads.key, other.grads.key) && bitwise_equal(grads.value, other.grads.value);
  }
  bool is_finite() const {
    return all_finite(result.output) && all_finite(grads.query) && all_finite(grads.key) && all_finite(grads.value);
  }
};

template <Scalar T>
struct AttentionInput {
  Tensor<T, 4> query, key, value, grad_output;

  /// q, k, v and dout of a case; without dout, ones.
  static AttentionInput of(const CaseFile& file, bool has_grad = true) {
    AttentionInput in{file.input<T, 4>("q"), file.input<T, 4>("k"), file.input<T, 4>("v"), {}};
    auto shape = in.query.shape();
    shape[3] = in.value.extent(3);
    in.grad_output = has_grad ? file.input<T, 4>("dout") : ones<T>(shape);
    return in;
  }
  static AttentionInput random(const AttentionCase& c, Rng& rng) {
    auto shape = c.query.shape();
    shape[3] = c.value.extent(3);
    return {to<T>(c.query), to<T>(c.key), to<T>(c.value), normal<T>(shape, rng)};
  }

  Attended<T> attend(const AttentionOptions<T>& options) const {
    Attended<T> a{scaled_dot_product_attention(query, key, value, options), attention_weights(query, key, options), {}};
    a.grads = scaled_dot_product_attention_backward(grad_output, query, key, value, a.result, options);
    return a;
  }
};

/// body(options) with the options set to each kernel.
template <Scalar T, class Body>
void for_all_kernels(AttentionOptions<T> options, Body&& body) {
  for (const Kernel kernel : all_kernels) {
    CAPTURE(static_cast<int>(kernel));
    options.kernel = kernel;
    body(std::as_const(options));
  }
}

/// The [Lk] keys or [B, Lk] keys of each sequence that a case keeps, as a mask for every query.
inline Tensor<bool, 4> key_mask(const Tensor<bool, 2>& keep) {
  return contiguous(keep).reshape(Shape<4>{keep.extent(0), 1, 1, keep.extent(1)});
}

/// All elements are zeros, and not -0.
template <TensorLike X>
bool all_zero(const X& x) {
  return bitwise_equal(contiguous(x), zeros_like(x));
}

}  // namespace attensor::inline ATTENSOR_ISA
