// The result of a sequence does not depend on the number of threads, on the batch it is in, on its place in it, or on right
// padding; to the bit.

#include <doctest/doctest.h>

#include "attensor/layers/encoder.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

namespace {

/// A few sequences of their own lengths.
template <Scalar T>
std::vector<Tensor<T, 3>> random_sequences(Rng& rng, Index count, Index longest, Index width) {
  std::vector<Tensor<T, 3>> all;
  for (Index i = 0; i < count; ++i) all.push_back(normal<T>({1, random_between(rng, 1, longest), width}, rng));
  return all;
}

/// The sequences in one batch, padded at the right with `padding`, which may be anything.
template <Scalar T>
struct Batch {
  Tensor<T, 3> x;
  Tensor<Index, 1> lengths;
  Tensor<bool, 4> mask;

  Batch(const std::vector<Tensor<T, 3>>& sequences, Index extra, T padding)
      : lengths(Shape{static_cast<Index>(sequences.size())}) {
    Index longest = 0;
    for (const auto& sequence : sequences) longest = std::max(longest, sequence.extent(1));
    longest += extra;
    const Index count = lengths.size(), width = sequences[0].extent(2);
    x = full<T>(Shape{count, longest, width}, padding);
    mask = Tensor<bool, 4>(Shape{count, 1, 1, longest});
    for (Index b = 0; b < count; ++b) {
      const auto& sequence = sequences[static_cast<std::size_t>(b)];
      lengths(b) = sequence.extent(1);
      std::copy_n(sequence.data(), sequence.size(), x[b].data());
      std::fill_n(&mask(b, 0, 0, 0), lengths(b), true);
    }
  }
};

/// Each sequence in the batch has the bits that it has alone.
template <Scalar T>
void check_same_as_alone(const Encoder<T>& encoder, const std::vector<Tensor<T, 3>>& sequences,
                         const AttentionOptions<T>& options, Rng& rng) {
  std::vector<Tensor<T, 3>> alone;
  for (const auto& sequence : sequences) alone.push_back(encoder.forward(sequence, options));
  const Batch<T> batch(sequences, random_between(rng, 0, 40), static_cast<T>(rng.normal()));
  const auto check = [&](const char* how, const AttentionOptions<T>& batch_options) {
    const auto y = encoder.forward(batch.x, batch_options);
    for (Index b = 0; b < y.extent(0); ++b) {
      INFO(how, ": sequence ", b, " of length ", batch.lengths(b), " in a batch ", shape_text(y.shape()));
      CHECK(bitwise_equal(slice(y[b], 0, 0, batch.lengths(b)), alone[static_cast<std::size_t>(b)][0]));
    }
  };
  auto by_mask = options, by_lengths = options, by_both_lengths = options;
  by_mask.mask = batch.mask;
  by_lengths.key_lengths = batch.lengths;
  by_both_lengths.key_lengths = by_both_lengths.query_lengths = batch.lengths;
  check("padding hidden by a mask", by_mask);
  check("padding left out by key_lengths", by_lengths);
  check("padding left out by key_lengths and query_lengths", by_both_lengths);
  if (options.causal == Causal::top_left && options.window_left < 0) {
    auto joined = by_mask;
    joined.causal = Causal::none;
    joined.mask = batch.mask & causal_mask(batch.x.extent(1));
    check("padding and later keys hidden by one mask", joined);
  }
}

EncoderOptions random_encoder(Rng& rng) {
  const Index heads = random_between(rng, 1, 4);
  return {.layer = {.embed_dim = heads * awkward_size(rng) % 120 / heads * heads + heads,
                    .num_heads = heads,
                    .hidden_dim = awkward_size(rng),
                    .activation = rng.below(2) == 0 ? Activation::relu : Activation::gelu,
                    .norm_first = rng.below(2) == 0},
          .num_layers = 2,
          .final_norm = rng.below(2) == 0};
}

/// A host program that runs the last task first.
struct Backwards {
  Index tasks = 0;

  ParallelHook hook() {
    return {[](void* context, Index count, void (*task)(void*, Index), void* data) {
              static_cast<Backwards*>(context)->tasks += count;
              for (Index i = count; i-- > 0;) task(data, i);
            },
            this};
  }
};

/// One forward and backward pass of a copy of the encoder.
struct Passes {
  Encoder<float> encoder;  ///< with its gradients
  Tensor<float, 3> y, dx;

  Passes(const Encoder<float>& original, const Tensor<float, 3>& x, const Tensor<float, 3>& dy) : encoder(original) {
    Encoder<float>::Saved saved;
    Rng rng(3);
    y = encoder.forward(x, {.causal = Causal::top_left, .rng = &rng}, &saved);
    dx = encoder.backward(dy, saved);
  }
  void check_same(const Passes& want) const {
    CHECK(bitwise_equal(y, want.y));
    CHECK(bitwise_equal(dx, want.dx));
    std::vector<const void*> grads;
    visit_parameters(want.encoder,
                     [&](const ParameterPath&, const auto& parameter) { grads.push_back(&parameter.grad); });
    std::size_t next = 0;
    visit_parameters(encoder, [&](const ParameterPath& path, const auto& parameter) {
      INFO(path.str());
      using Grad = std::remove_cvref_t<decltype(parameter.grad)>;
      CHECK(bitwise_equal(parameter.grad, *static_cast<const Grad*>(grads[next++])));
    });
  }
};

}  // namespace

TEST_CASE_TEMPLATE("same bits: a sequence alone, in any batch, at any place in it, with any right padding", T, float,
                   double) {
  for_random_cases(60, [](Rng& rng) {
    const Encoder<T> encoder(random_encoder(rng), rng);
    const Index width = encoder.layers[0].norm1.weight.value.extent(0);
    INFO("width ", width, ", heads ", encoder.layers[0].self_attn.num_heads);
    AttentionOptions<T> options;
    if (rng.below(3) == 0) options.causal = Causal::top_left;
    if (rng.below(4) == 0) options.window_left = random_between(rng, 0, 9);
    if (rng.below(4) == 0) options.softcap = 2;
    if (rng.below(4) == 0) options.alibi_slopes = uniform<T>({encoder.layers[0].self_attn.num_heads}, rng);
    check_same_as_alone(encoder, random_sequences<T>(rng, random_between(rng, 1, 5), awkward_size(rng), width), options,
                        rng);
  });
}

TEST_CASE("same bits: also for sequences longer than one block of depth, and padded past its end") {
  for_random_cases(3, [](Rng& rng) {
    const Encoder<float> encoder({.layer = {.embed_dim = 24, .num_heads = 3, .hidden_dim = 330}, .num_layers = 1}, rng);
    std::vector<Tensor<float, 3>> sequences;
    for (const Index length :
         {random_between(rng, 300, 320), random_between(rng, 321, 420), Index{320}, random_between(rng, 1, 40)}) {
      sequences.push_back(normal<float>({1, length, 24}, rng));
    }
    check_same_as_alone(encoder, sequences, {}, rng);
  });
}

TEST_CASE("same bits: whatever the number of threads and the order of tasks, forward and backward") {
  for_random_cases(10, [](Rng& rng) {
    const Index heads = random_between(rng, 1, 4), width = heads * awkward_size(rng) % 160 / heads * heads + heads;
    const Encoder<float> encoder(
        {.layer = {.embed_dim = width, .num_heads = heads, .activation = Activation::gelu, .dropout = 0.1},
         .num_layers = 2},
        rng);
    INFO("width ", width, ", heads ", heads);
    const auto x = normal<float>({3, awkward_size(rng), width}, rng), dy = normal<float>(x.shape(), rng);
    set_num_threads(1);
    const Passes want(encoder, x, dy);
    for (const int threads : {2, 3, 8}) {
      set_num_threads(threads);
      CAPTURE(threads);
      Passes(encoder, x, dy).check_same(want);
    }
    Backwards backwards;  // at 8 threads still
    set_parallel_hook(backwards.hook());
    const Passes got(encoder, x, dy);
    set_parallel_hook({});
    CAPTURE(backwards.tasks);
    got.check_same(want);
    set_num_threads(0);
  });
}

TEST_CASE("same bits: an encoder of some width does hand tasks to threads") {
  Rng rng(1);
  const Encoder<float> encoder({.layer = {.embed_dim = 96, .num_heads = 4}, .num_layers = 1}, rng);
  const auto x = normal<float>({3, 40, 96}, rng);
  Backwards backwards;
  set_parallel_hook(backwards.hook());
  (void)Passes(encoder, x, x);
  set_parallel_hook({});
  CHECK(backwards.tasks > 50);
}

TEST_CASE("same bits: packed weights and threads together") {
  Rng rng(1);
  Encoder<float> encoder({.layer = {.embed_dim = 96, .num_heads = 3}, .num_layers = 1}, rng);
  for (const Index rows : {1, 2, 5, 16, 97}) {
    const auto x = normal<float>({1, rows, 96}, rng);
    encoder.unpack();
    set_num_threads(1);
    const auto want = encoder.forward(x);
    encoder.pack();
    for (const int threads : {1, 2, 3, 8}) {
      set_num_threads(threads);
      CAPTURE(rows);
      CAPTURE(threads);
      CHECK(bitwise_equal(encoder.forward(x), want));
    }
  }
  set_num_threads(0);
}
