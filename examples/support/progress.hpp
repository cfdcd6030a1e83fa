#pragma once
/// \file
/// Progress of a training run: on a terminal a bar with the loss and the time left, elsewhere a line for each epoch.

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "attensor/io/heatmap.hpp"

namespace example {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress(attensor::Index epochs, attensor::Index examples) : epochs_(epochs), examples_(examples) {}

  /// After a step on `count` examples with that mean loss.
  void step(attensor::Index count, double loss) {
    done_ += count;
    loss_sum_ += loss * static_cast<double>(count);
    if (is_terminal_ && Clock::now() - drawn_ > std::chrono::milliseconds(50)) draw();
    if (done_ >= examples_) end_epoch();
  }

  /// Ends the bar and prints "trained in N s".
  void finish() {
    if (is_terminal_ && epochs_ > 0) {
      draw();
      std::cout << '\n';
    }
    print("trained in %.3f s\n", seconds());
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  template <class... Values>
  static void print(const char* format, Values... values) {
    char text[128];
    std::snprintf(text, sizeof text, format, values...);
    std::cout << text << std::flush;
  }

  void end_epoch() {
    loss_ = loss_sum_ / static_cast<double>(done_);
    ++epoch_;
    done_ = 0;
    loss_sum_ = 0;
    if (!is_terminal_) print("epoch %d: loss %.5f\n", static_cast<int>(epoch_), loss_);
  }

  void draw() {
    drawn_ = Clock::now();
    constexpr int width = 30;
    const double share = (static_cast<double>(epoch_) + static_cast<double>(done_) / static_cast<double>(examples_)) /
                         static_cast<double>(epochs_);
    const int full = static_cast<int>(share * width);
    const double loss = epoch_ > 0 ? loss_ : loss_sum_ / static_cast<double>(done_ > 0 ? done_ : 1);
    const double left = share > 0 ? seconds() * (1 - share) / share : 0;
    const std::string bar =
        std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(width - full), '.');
    print("\repoch %d/%d [%s] loss %.5f, %5.1f s left ", static_cast<int>(epoch_), static_cast<int>(epochs_),
          bar.c_str(), loss, left);
  }

  attensor::Index epochs_, examples_;
  attensor::Index epoch_ = 0, done_ = 0;
  double loss_sum_ = 0, loss_ = 0;
  bool is_terminal_ = attensor::is_terminal(std::cout);
  Clock::time_point start_ = Clock::now(), drawn_ = start_;
};

}  // namespace example
