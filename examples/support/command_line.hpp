#pragma once
/// \file
/// Options on the command line of an example: --name VALUE or --name=VALUE, each with a default and a line of help.

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "attensor/core/error.hpp"

namespace example {

class CommandLine {
 public:
  CommandLine(std::string program, std::string summary) : program_(std::move(program)), summary_(std::move(summary)) {}

  /// `value` holds the default, and the value given once parse() was called. T is a number or a string.
  template <class T>
  void option(const std::string& name, T& value, const std::string& help) {
    options_.push_back(
        {name, help, text_of(value), [this, name, &value](const std::string& text) { set(name, text, value); }});
  }

  /// --help prints all options and ends the program.
  /// \throws attensor::ValueError for an option that is unknown, lacks its value or has one that is no number
  void parse(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      std::string name = argv[i];
      if (name == "--help" || name == "-h") {
        print_help();
        std::exit(0);
      }
      const auto sign = name.find('=');
      const bool has_value = sign != std::string::npos;
      std::string value = has_value ? name.substr(sign + 1) : "";
      name = name.substr(0, sign);
      const Option& option = find(name);
      if (!has_value && ++i == argc) fail(name + " has no value; expected " + name + " VALUE");
      option.set(has_value ? value : argv[i]);
    }
  }

 private:
  struct Option {
    std::string name, help, preset;
    std::function<void(const std::string&)> set;
  };

  template <class T>
  static std::string text_of(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return value;
    } else {
      std::array<char, 32> text;
      return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
    }
  }

  template <class T>
  void set(const std::string& name, const std::string& text, T& value) const {
    if constexpr (std::is_same_v<T, std::string>) {
      value = text;
    } else {
      const char* const end = text.data() + text.size();
      const auto result = std::from_chars(text.data(), end, value);
      if (result.ec != std::errc() || result.ptr != end) {
        fail(name + " is " + text + "; expected a number" + (std::is_integral_v<T> ? " without a point" : ""));
      }
    }
  }

  const Option& find(const std::string& name) const {
    std::string known;
    for (const Option& option : options_) {
      if (option.name == name) return option;
      known += option.name + ", ";
    }
    fail("unknown option " + name + "; expected one of " + known + "--help");
  }

  [[noreturn]] void fail(const std::string& text) const { throw attensor::ValueError(program_ + ": " + text); }

  void print_help() const {
    std::cout << summary_ << "\n\nusage: " << program_ << " [OPTION VALUE]...\n\n";
    for (const Option& option : options_) {
      std::cout << "  " << option.name << std::string(option.name.size() < 12 ? 12 - option.name.size() : 1, ' ')
                << option.help << " (default: " << (option.preset.empty() ? "none" : option.preset) << ")\n";
    }
  }

  std::string program_, summary_;
  std::vector<Option> options_;
};

/// Runs the body of main; an error becomes a line on the standard error stream and the exit code 1.
template <class Body>
int run(Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

}  // namespace example
