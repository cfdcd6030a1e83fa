#pragma once
/// \file
/// A training run in one safetensors file: parameters, the optimizer's moments and steps, random numbers, and the place
/// in the data. A run that was resumed goes on with the bits of one that was never interrupted.
///
///     save_checkpoint("run.safetensors", model, optimizer, state);          // between two steps
///     load_checkpoint("run.safetensors", model, optimizer, state);          // into a model of the same shape
///
/// Options of model and optimizer are the program's, and a learning rate is a function of state.step. Gradients are not
/// kept. In the file:
///
///     model.NAME                     the parameter, by PyTorch's name; load_safetensors reads it with prefix "model."
///     optimizer.NAME.exp_avg, ...    its moments, by the names of PyTorch's optimizer state; absent before its first step
///     training.progress              I64 [3]: step, epoch, position
///     training.order                 I64 [n]
///     training.rng                   I64 [3]: seed, position, masks

#include <bit>

#include "attensor/core/random.hpp"
#include "attensor/io/safetensors_module.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Where a run stands. A program uses of it what it needs.
struct TrainingState {
  Index step = 0;                      ///< steps of the optimizer that are done
  Index epoch = 0;                     ///< passes over the data that are done
  Index position = 0;                  ///< examples of this epoch that are done
  Tensor<std::int64_t, 1> order = {};  ///< of the examples in this epoch
  Rng rng{};                           ///< for dropout and for the orders to come
};

namespace detail {

inline constexpr const char* checkpoint_key = "attensor_checkpoint";
inline constexpr const char* checkpoint_version = "1";

/// Moments that a parameter has, or has not yet.
template <class Moments>
bool has_moments(const Moments& moments) {
  bool all = true;
  visit_moments(moments, [&](const char*, const auto& value) {
    if constexpr (TensorLike<decltype(value)>) all = all && !value.empty();
  });
  return all;
}

template <class Moments>
void add_moments(SafetensorsWriter& writer, const std::string& prefix, const Moments& moments) {
  visit_moments(moments, [&](const char* name, const auto& value) {
    if constexpr (TensorLike<decltype(value)>) {
      writer.add(prefix + name, value);
    } else {
      writer.add(prefix + name, Tensor<std::int64_t, 1>{value});
    }
  });
}

/// Reads a checkpoint's tensors and notes which were read, so that nothing in the file is passed over.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& path) : path_(path), file_(path) {
    const auto version = file_.metadata().find(checkpoint_key);
    if (version == file_.metadata().end() || version->second != checkpoint_version) {
      fail(version == file_.metadata().end() ? "is not a checkpoint" : "is a checkpoint of version " + version->second,
           std::string("a file of save_checkpoint, version ") + checkpoint_version);
    }
  }

  SafetensorsFile& file() { return file_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  /// With the type in which it was saved: rounding would not resume the run.
  template <class T>
  Tensor<T, 1> read(const std::string& name, Index size = -1) {
    check_type<T>(name);
    auto x = file_.read<T, 1>(name);
    if (size >= 0 && x.size() != size) {
      fail("has " + std::to_string(x.size()) + " elements in " + name, std::to_string(size));
    }
    ++tensors_read_;
    return x;
  }

  template <class T>
  void check_type(const std::string& name) const {
    const SafetensorsEntry* entry = file_.find(name);
    if (!entry) fail("has no tensor " + name, "the checkpoint of the same model and optimizer");
    if (entry->type != *stored_type_of<T>) {
      fail("has " + name + " in " + std::string(info(entry->type).name), std::string(info(*stored_type_of<T>).name));
    }
  }

  template <class Moments>
  void read_moments(const std::string& prefix, Moments& moments, Index size) {
    bool any = false;
    visit_moments(moments, [&](const char* name, auto&) { any = any || has(prefix + name); });
    moments = {};
    if (!any) return;
    visit_moments(moments, [&](const char* name, auto& value) {
      if constexpr (TensorLike<decltype(value)>) {
        value = read<scalar_t<decltype(value)>>(prefix + name, size);
      } else {
        value = static_cast<Index>(read<std::int64_t>(prefix + name, 1)(0));
      }
    });
  }

  /// All of the file was read, but for `others` tensors.
  void check_all_read(std::size_t others) const {
    const std::size_t found = file_.entries().size();
    if (found == tensors_read_ + others) return;
    fail("has " + std::to_string(found) + " tensors",
         std::to_string(tensors_read_ + others) + ", those of this model and optimizer");
  }

 private:
  [[noreturn]] void fail(const std::string& has, const std::string& expected) const {
    throw_error<IoError>({"load_checkpoint: ", path_, " ", has, "; expected ", expected});
  }

  std::string path_;
  SafetensorsFile file_;
  std::size_t tensors_read_ = 0;
};

}  // namespace detail

/// A file at `path` is there whole or as it was, also if the program ends while it is written.
/// \throws IoError if it cannot be written
template <class Module, class Optimizer>
void save_checkpoint(const std::string& path, const Module& module, const Optimizer& optimizer,
                     const TrainingState& state) {
  SafetensorsWriter writer;
  writer.set_metadata(detail::checkpoint_key, detail::checkpoint_version);
  std::size_t next = 0;
  visit_parameters(module, [&](const ParameterPath& parameter_path, const auto& parameter) {
    const std::string name = parameter_path.str();
    writer.add("model." + name, parameter.value);
    const std::size_t own = next++;
    if (own < optimizer.moments.size() && detail::has_moments(optimizer.moments[own])) {
      detail::add_moments(writer, "optimizer." + name + '.', optimizer.moments[own]);
    }
  });
  const Rng::State& rng = state.rng.state();
  writer.add("training.progress", Tensor<std::int64_t, 1>{state.step, state.epoch, state.position});
  writer.add("training.order", state.order);
  writer.add("training.rng",
             Tensor<std::int64_t, 1>{std::bit_cast<std::int64_t>(rng.seed), std::bit_cast<std::int64_t>(rng.position),
                                     std::bit_cast<std::int64_t>(rng.masks)});
  writer.write(path);
}

/// Fills module, optimizer and state; gradients and options stay as they are.
/// \throws IoError if the file is no checkpoint, or one of another model, scalar type or optimizer; then nothing is
/// changed
template <class Module, class Optimizer>
void load_checkpoint(const std::string& path, Module& module, Optimizer& optimizer, TrainingState& state) {
  detail::CheckpointReader reader(path);

  decltype(optimizer.moments) moments;
  visit_parameters(std::as_const(module), [&](const ParameterPath& parameter_path, const auto& parameter) {
    const std::string name = parameter_path.str();
    reader.check_type<scalar_t<decltype(parameter.value)>>("model." + name);
    reader.read_moments("optimizer." + name + '.', moments.emplace_back(), parameter.value.size());
  });
  const auto progress = reader.read<std::int64_t>("training.progress", 3);
  const auto rng = reader.read<std::int64_t>("training.rng", 3);
  TrainingState loaded{static_cast<Index>(progress(0)), static_cast<Index>(progress(1)),
                       static_cast<Index>(progress(2)), reader.read<std::int64_t>("training.order"),
                       Rng(Rng::State{std::bit_cast<std::uint64_t>(rng(0)), std::bit_cast<std::uint64_t>(rng(1)),
                                      std::bit_cast<std::uint64_t>(rng(2))})};
  reader.check_all_read(moments.size());

  Module changed = module;  // so that a file that ends early leaves the module whole
  load_safetensors(reader.file(), changed, {.prefix = "model."});
  module = std::move(changed);
  optimizer.moments = std::move(moments);
  state = std::move(loaded);
}

}  // namespace attensor::inline ATTENSOR_ISA
