// Mirrors include/attensor/io/safetensors_module.hpp.

#include "attensor/io/safetensors_module.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"
#include "support/random_cases.hpp"
#include "support/temporary_directory.hpp"

using namespace attensor;

namespace {

template <Scalar T>
struct Part {
  Parameter<T, 2> weight;
  Parameter<T, 1> bias;
};
template <InstanceOf<Part> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "weight", self.weight);
  visit(path / "bias", self.bias);
}

template <Scalar T>
struct Module {
  std::vector<Part<T>> layers;
  Parameter<T, 1> scale;
};
template <InstanceOf<Module> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  for (std::size_t i = 0; i < self.layers.size(); ++i) {
    visit_parameters(self.layers[i], visit, path / "layers" / static_cast<Index>(i));
  }
  visit(path / "scale", self.scale);
}

template <Scalar T>
Module<T> random_module(Rng& rng, Index layers, Index width) {
  Module<T> module;
  for (Index i = 0; i < layers; ++i) {
    module.layers.push_back({{normal<T>({width, 3}, rng), {}}, {normal<T>({width}, rng), {}}});
  }
  module.scale.value = normal<T>({5}, rng);
  return module;
}

template <Scalar T>
bool same_bits(const Module<T>& a, const Module<T>& b) {
  bool same = a.layers.size() == b.layers.size() && bitwise_equal(a.scale.value, b.scale.value);
  for (std::size_t i = 0; same && i < a.layers.size(); ++i) {
    same = bitwise_equal(a.layers[i].weight.value, b.layers[i].weight.value) &&
           bitwise_equal(a.layers[i].bias.value, b.layers[i].bias.value);
  }
  return same;
}

template <class Load>
std::string error_of(Load&& load) {
  try {
    load();
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("module file: names are the visitor's, and values come back to the bit") {
  const TemporaryDirectory directory;
  for_random_cases(5, [&](Rng& rng, Index width) {
    const auto module = random_module<float>(rng, 2, width);
    const std::string path = directory.file("module");
    save_safetensors(path, module, {.metadata = {{"format", "pt"}}});
    SafetensorsFile file(path);
    CHECK(file.metadata().at("format") == "pt");
    CHECK(file.find("layers.0.weight"));
    CHECK(file.find("layers.1.bias"));
    CHECK(file.find("scale"));
    CHECK(file.entries().size() == 5);

    auto other = random_module<float>(rng, 2, width);
    other.scale.grad = ones<float>({5});
    CHECK(load_safetensors(path, other).agrees());
    CHECK(same_bits(module, other));
    CHECK(bitwise_equal(other.scale.grad, ones<float>({5})));

    auto wide = random_module<double>(rng, 2, width);
    load_safetensors(file, wide);
    CHECK(bitwise_equal(wide.layers[1].weight.value, to<double>(module.layers[1].weight.value)));
  });
}

TEST_CASE("module file: all that differs is named, and nothing is changed") {
  const TemporaryDirectory directory;
  Rng rng(1);
  const std::string path = directory.file("module");
  const auto saved = random_module<float>(rng, 2, 4);
  save_safetensors(path, saved);
  auto module = random_module<float>(rng, 1, 7);
  module.layers.push_back(saved.layers[1]);
  module.layers.push_back(saved.layers[0]);
  const auto before = module;
  const std::string text = error_of([&] { load_safetensors(path, module); });
  CHECK(text ==
        "load_safetensors: file and module differ: missing layers.2.weight, missing layers.2.bias, misshapen "
        "layers.0.weight is [4,3] in the file and [7,3] in the module, misshapen layers.0.bias is [4] in the file and "
        "[7] "
        "in the module; expected the same names and shapes");
  CHECK(same_bits(module, before));

  module = random_module<float>(rng, 1, 4);
  CHECK(error_of([&] { load_safetensors(path, module); }) ==
        "load_safetensors: file and module differ: unexpected layers.1.weight, unexpected layers.1.bias; expected the "
        "same names and shapes");
}

TEST_CASE("module file: what agrees is loaded when asked to, and the rest reported") {
  const TemporaryDirectory directory;
  Rng rng(2);
  const std::string path = directory.file("module");
  const auto saved = random_module<float>(rng, 2, 4);
  save_safetensors(path, saved);
  auto module = random_module<float>(rng, 1, 7);
  const auto before = module;
  const LoadReport report = load_safetensors(path, module, {.strict = false});
  CHECK(!report.agrees());
  CHECK(report.missing.empty());
  CHECK(report.unexpected == std::vector<std::string>{"layers.1.weight", "layers.1.bias"});
  CHECK(report.misshapen.size() == 2);
  CHECK(bitwise_equal(module.scale.value, saved.scale.value));
  CHECK(bitwise_equal(module.layers[0].weight.value, before.layers[0].weight.value));
}

TEST_CASE("module file: prefix, other names, and names to pass over") {
  const TemporaryDirectory directory;
  Rng rng(3);
  const std::string path = directory.file("module");
  const auto saved = random_module<float>(rng, 1, 4);
  SafetensorsWriter writer;
  visit_parameters(saved, [&](const ParameterPath& name, const auto& parameter) {
    const std::string text = name.str();
    writer.add("model." + (text == "scale" ? "gamma" : text), parameter.value);
  });
  writer.add("model.position_ids", Tensor<std::int64_t, 1>{1, 2});
  writer.add("head.weight", saved.scale.value);  // another prefix: somebody else's
  writer.write(path);

  auto module = random_module<float>(rng, 1, 4);
  LoadOptions options{.prefix = "model."};
  CHECK(error_of([&] { load_safetensors(path, module, options); }) ==
        "load_safetensors: file and module differ: missing model.scale, unexpected model.position_ids, "
        "unexpected model.gamma; expected the same names and shapes");
  options.rename = [](const std::string& name) { return name == "scale" ? "gamma" : name; };
  options.ignore = [](const std::string& name) { return name.ends_with("position_ids"); };
  CHECK(load_safetensors(path, module, options).agrees());
  CHECK(same_bits(module, saved));
}

TEST_CASE("module file: integers are no parameters") {
  const TemporaryDirectory directory;
  Rng rng(4);
  SafetensorsWriter writer;
  writer.add("scale", Tensor<std::int64_t, 1>{1, 2, 3, 4, 5});
  writer.write(directory.file("module"));
  auto module = random_module<float>(rng, 0, 1);
  CHECK(error_of([&] { load_safetensors(directory.file("module"), module); }).find("tensor scale has dtype I64") !=
        std::string::npos);
}
