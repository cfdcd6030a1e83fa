// Mirrors include/attensor/layers/parameter.hpp.

#include "attensor/layers/parameter.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/near.hpp"

using namespace attensor;

namespace {

/// A module as a user writes it: a parameter of its own, and a list of parts.
template <Scalar T>
struct Leaf {
  Parameter<T, 1> weight;
};
template <InstanceOf<Leaf> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "weight", self.weight);
}

template <Scalar T>
struct Tree {
  Parameter<T, 2> root;
  std::vector<Leaf<T>> leaves;
};
template <InstanceOf<Tree> Self, class Visit>
void visit_parameters(Self& self, Visit&& visit, const ParameterPath& path = {}) {
  visit(path / "root", self.root);
  const ParameterPath leaves = path / "leaves";
  for (std::size_t i = 0; i < self.leaves.size(); ++i)
    visit_parameters(self.leaves[i], visit, leaves / static_cast<Index>(i));
}

Tree<float> tree() { return {{ones<float>({2, 3}), {}}, {{{ones<float>({4}), {}}}, {{ones<float>({5}), {}}}}}; }

template <class Module>
std::vector<std::string> names(const Module& module, const ParameterPath& path = {}) {
  std::vector<std::string> all;
  visit_parameters(
      module, [&](const ParameterPath& name, const auto&) { all.push_back(name.str()); }, path);
  return all;
}

}  // namespace

TEST_CASE("parameters: names are the way from the root, joined by points, in the order of the visit") {
  CHECK(names(tree()) == std::vector<std::string>{"root", "leaves.0.weight", "leaves.1.weight"});
  CHECK(names(tree(), ParameterPath() / "model" / 7) ==
        std::vector<std::string>{"model.7.root", "model.7.leaves.0.weight", "model.7.leaves.1.weight"});
  CHECK(ParameterPath().str().empty());
}

TEST_CASE("parameters: one visitor serves modules to read and modules to change") {
  auto module = tree();
  visit_parameters(
      module, [](const ParameterPath&, auto& parameter) { parameter.value = full<float>(parameter.value.shape(), 2); });
  float sum = 0;
  visit_parameters(std::as_const(module), [&](const ParameterPath&, const auto& parameter) {
    static_assert(std::is_const_v<std::remove_reference_t<decltype(parameter)>>);
    for (Index i = 0; i < parameter.value.size(); ++i) sum += parameter.value.data()[i];
  });
  CHECK(sum == 30);
}

TEST_CASE("count_parameters: counts numbers, not tensors") {
  CHECK(count_parameters(tree()) == 15);
  CHECK(count_parameters(Tree<float>{}) == 0);
}

TEST_CASE("zero_grad: gradients become 0, and those that are empty stay empty") {
  auto module = tree();
  module.leaves[0].weight.grad = ones<float>({4});
  zero_grad(module);
  CHECK(bitwise_equal(module.leaves[0].weight.grad, zeros<float>({4})));
  CHECK(module.root.grad.empty());
}
