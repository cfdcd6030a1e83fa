#pragma once
/// \file
/// What attention can be asked for, and what it gives back.

#include <initializer_list>
#include <memory>
#include <optional>

#include "attensor/core/creation.hpp"
#include "attensor/ops/dropout.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// A tensor to read that options share instead of borrowing, or nothing. An option may be written with a temporary, and
/// whatever is kept for a backward pass keeps it alive. Made from a temporary it takes the elements over, from a tensor
/// or view that stays it copies them once; copies of it share.
template <Element T, std::size_t Rank>
class SharedTensor {
 public:
  SharedTensor() = default;
  SharedTensor(Tensor<T, Rank>&& x)
      : tensor_(std::allocate_shared<const Tensor<T, Rank>>(detail::CacheAllocator<Tensor<T, Rank>>{}, std::move(x))) {}
  SharedTensor(const Tensor<T, Rank>& x) : SharedTensor(Tensor<T, Rank>(x)) {}
  SharedTensor(const View<const T, Rank>& x) : SharedTensor(contiguous(x)) {}
  SharedTensor(const View<T, Rank>& x) : SharedTensor(contiguous(x)) {}
  SharedTensor(std::initializer_list<T> values)
    requires(Rank == 1)
      : SharedTensor(Tensor<T, 1>(values)) {}

  explicit operator bool() const { return tensor_ != nullptr; }
  const Tensor<T, Rank>& operator*() const { return *tensor_; }
  const Tensor<T, Rank>* operator->() const { return tensor_.get(); }

 private:
  std::shared_ptr<const Tensor<T, Rank>> tensor_;
};

/// Rank 4, each extent 1 or that of [B, Hq, Lq, Lk]; true = may be attended to. (torch.nn.MultiheadAttention's masks
/// have the opposite sense, scaled_dot_product_attention's this one.)
using Mask = SharedTensor<bool, 4>;
/// Rank 4, each extent 1 or that of [B, Hq, Lq, Lk]; added to the scores. -infinity masks.
template <Number T>
using Bias = SharedTensor<T, 4>;
/// [B]: how many of each sequence's positions, from the first, are real.
using Lengths = SharedTensor<Index, 1>;
/// [Hq]: what ALiBi takes from a score for each step of distance.
template <Number T>
using Slopes = SharedTensor<T, 1>;
/// [Hq]: a score that takes part in each row's softmax without a key, so that a row may attend to less than everything.
template <Number T>
using Sinks = SharedTensor<T, 1>;

/// A learned number for each bucket of distances and each head, as in T5. Source: Raffel et al., Exploring the Limits
/// of Transfer Learning (2020), section 2.1.
template <Number T>
struct RelativeBias {
  SharedTensor<T, 2> table{};  ///< [buckets, Hq]
  bool bidirectional = true;   ///< keys after the query have buckets of their own; else they share that of distance 0
  Index max_distance = 128;    ///< from here on all distances share the last bucket

  explicit operator bool() const { return static_cast<bool>(table); }
};

/// Which keys a query may attend to by position. Key j of query i sits at j - i, or with bottom_right at
/// j - i - (Lk - Lq), so that the last query meets the last key; causal allows positions <= 0.
enum class Causal { none, top_left, bottom_right };

enum class Kernel {
  automatic,  ///< by fixed rules of the shapes and options
  reference,  ///< readable; materialises the weights of a head
};

/// Options of scaled_dot_product_attention, by name and in this order; each has a default.
template <Number T>
struct AttentionOptions {
  Causal causal = Causal::none;
  std::optional<double> scale{};              ///< default 1 / sqrt(D), D the width of a head's key
  Mask mask{};                                ///< true = may be attended to
  Bias<T> bias{};                             ///< added to the scores
  Lengths key_lengths{}, query_lengths{};     ///< the valid prefix of each sequence
  Index window_left = -1, window_right = -1;  ///< positions -left .. right are allowed, both inclusive; -1: unlimited
  double softcap = 0;                         ///< c > 0: scores become c tanh(score / c)
  Slopes<T> alibi_slopes{};                   ///< adds -slope |position|
  RelativeBias<T> relative_bias{};
  Sinks<T> sinks{};
  double dropout = 0;  ///< probability that a weight is dropped; active only with an Rng
  Rng* rng = nullptr;
  Kernel kernel = Kernel::automatic;
};

/// What the forward pass gives, and what the backward pass needs of it.
template <Number T>
struct AttentionResult {
  Tensor<T, 4> output;     ///< [B, Hq, Lq, Dv]
  Tensor<T, 3> logsumexp;  ///< [B, Hq, Lq], of the scores as the softmax sees them, the sink included, before dropout
  DropoutMask dropout;     ///< the mask that was drawn
};

/// Gradients of what went in. Those of options that were not given are empty.
template <Number T>
struct AttentionGrads {
  Tensor<T, 4> query, key, value;  ///< shapes of query, key and value
  Tensor<T, 4> bias;               ///< the bias's own shape: summed over the dimensions it was broadcast along
  Tensor<T, 1> alibi_slopes, sinks;
  Tensor<T, 2> relative_bias;  ///< shape of the table
};

}  // namespace attensor::inline ATTENSOR_ISA
