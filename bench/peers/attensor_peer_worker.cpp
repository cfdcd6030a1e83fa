// The attensor side of compare.py. Reads one piece of work a line from standard input and answers each with one line:
//
//     check encoder_layer file=IN.safetensors heads=8 output=OUT.safetensors
//     time encoder_layer forward file=IN.safetensors heads=8 repeats=20
//     time encoder_layer backward file=IN.safetensors heads=8 repeats=20
//
// IN holds the layer's parameters, x and grad_output; OUT gets output, dx and grad:NAME. `forward` is inference;
// `backward` clears the gradients and runs forward and backward. The answer is "ok", "seconds S" (for one repeat), or
// "error TEXT". Program argument: --threads N.

#include <chrono>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "attensor/core/build_info.hpp"
#include "attensor/io/safetensors_module.hpp"
#include "attensor/layers/encoder_layer.hpp"

using namespace attensor;

namespace {

/// One line: words, and key=value pairs.
struct Line {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;

  explicit Line(const std::string& text) {
    std::istringstream in(text);
    for (std::string word; in >> word;) {
      const auto sign = word.find('=');
      if (sign == std::string::npos) {
        words.push_back(word);
      } else {
        values[word.substr(0, sign)] = word.substr(sign + 1);
      }
    }
  }
  std::string word(std::size_t i) const { return i < words.size() ? words[i] : ""; }
  Index number(const std::string& key) const { return std::stoll(values.at(key)); }
};

struct EncoderLayerWork {
  EncoderLayer<float> layer;
  Tensor<float, 3> x, grad_output;

  explicit EncoderLayerWork(const Line& line) {
    SafetensorsFile file(line.values.at("file"));
    x = file.read<float, 3>("x");
    grad_output = file.read<float, 3>("grad_output");
    const SafetensorsEntry* hidden = file.find("linear1.bias");
    if (!hidden) throw IoError("no linear1.bias in the file");
    Rng rng;
    layer = EncoderLayer<float>(
        {.embed_dim = x.extent(2), .num_heads = line.number("heads"), .hidden_dim = hidden->shape[0]}, rng);
    load_safetensors(file, layer,
                     {.ignore = [](const std::string& name) { return name == "x" || name == "grad_output"; }});
  }

  void check(const std::string& path) {
    EncoderLayer<float>::Saved saved;
    zero_grad(layer);
    SafetensorsWriter writer;
    writer.add("output", layer.forward(x, {}, &saved));
    writer.add("dx", layer.backward(grad_output, saved));
    visit_parameters(layer, [&](const ParameterPath& name, const auto& parameter) {
      writer.add("grad:" + name.str(), parameter.grad);
    });
    writer.write(path);
  }

  double seconds(bool backward, Index repeats) {
    EncoderLayer<float>::Saved saved;
    float sum = 0;
    const auto once = [&] {
      if (!backward) {
        sum += layer.forward(x).data()[0];
        return;
      }
      zero_grad(layer);
      (void)layer.forward(x, {}, &saved);
      sum += layer.backward(grad_output, saved).data()[0];
    };
    once();
    const auto start = std::chrono::steady_clock::now();
    for (Index i = 0; i < repeats; ++i) once();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (!(sum == sum)) throw ValueError("the result is NaN");
    return time.count() / static_cast<double>(repeats);
  }
};

std::string answer(const Line& line, std::map<std::string, EncoderLayerWork>& works) {
  if (line.word(1) != "encoder_layer") return "error unknown work " + line.word(1);
  const std::string key = line.values.at("file");
  if (!works.contains(key)) works.emplace(key, EncoderLayerWork(line));
  EncoderLayerWork& work = works.at(key);
  if (line.word(0) == "check") {
    work.check(line.values.at("output"));
    return "ok";
  }
  if (line.word(0) != "time" || (line.word(2) != "forward" && line.word(2) != "backward")) {
    return "error unknown command " + line.word(0) + ' ' + line.word(2);
  }
  std::ostringstream text;
  text.precision(9);
  text << "seconds " << work.seconds(line.word(2) == "backward", line.number("repeats"));
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--threads") {
    std::cerr << "usage: " << argv[0] << " --threads N    (one piece of work a line on standard input)\n";
    return 1;
  }
  set_num_threads(std::atoi(argv[2]));
  std::cout << to_string(build_info()) << std::endl;
  std::map<std::string, EncoderLayerWork> works;
  for (std::string text; std::getline(std::cin, text);) {
    try {
      std::cout << answer(Line(text), works) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << std::endl;
    }
  }
}
