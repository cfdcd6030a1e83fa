#pragma once
/// \file
/// A heatmap in a terminal, and the same in plain characters where the output goes elsewhere.
///
/// A small matrix has a wide square for each number, and labels; a large one has two numbers to a character, by the
/// upper half block in one colour on a ground of another.

#include <cstdlib>
#include <iostream>
#include <ostream>

#include "attensor/io/heatmap_panels.hpp"

#if defined(_WIN32)
#include <io.h>
#elif defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace attensor::inline ATTENSOR_ISA {

/// Whether the stream is the standard output or error, and that is a terminal.
inline bool is_terminal(const std::ostream& out) {
  const int file = out.rdbuf() == std::cout.rdbuf() ? 1 : out.rdbuf() == std::cerr.rdbuf() ? 2 : -1;
  if (file < 0) return false;
#if defined(_WIN32)
  return _isatty(file) != 0;
#elif defined(__unix__) || defined(__APPLE__)
  return isatty(file) != 0;
#else
  return false;
#endif
}

namespace detail {

inline bool has_colors(const std::ostream& out) {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return is_terminal(out) && !(no_color && *no_color) && !(terminal && std::string_view(terminal) == "dumb");
}

/// Text that switches a colour on, of the ground or of the character: 24 bits, or the nearest of 256 where the terminal
/// does not say that it has them.
class AnsiColor {
 public:
  std::string operator()(double level, bool ground) const {
    const auto [red, green, blue] = heatmap_color(level);
    const std::string start = ground ? "\x1b[48;" : "\x1b[38;";
    if (exact_)
      return start + "2;" + std::to_string(red) + ';' + std::to_string(green) + ';' + std::to_string(blue) + 'm';
    const auto step = [](int value) {
      return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40;
    };  // 0 95 135 175 215 255
    return start + "5;" + std::to_string(16 + 36 * step(red) + 6 * step(green) + step(blue)) + 'm';
  }

 private:
  static bool is_exact() {
    const char* const text = std::getenv("COLORTERM");
    return text && (std::string_view(text) == "truecolor" || std::string_view(text) == "24bit");
  }
  bool exact_ = is_exact();
};

inline constexpr std::string_view ansi_reset = "\x1b[0m";

/// The character of a level; '?' for NaN.
inline char shade(double level) {
  constexpr std::string_view shades = " .:-=+*#%@";
  if (std::isnan(level)) return '?';
  return shades[std::min(static_cast<std::size_t>(level * static_cast<double>(shades.size())), shades.size() - 1)];
}

inline std::string padded(std::string_view text, Index width, bool right) {
  auto characters = shown_characters(text);
  if (static_cast<Index>(characters.size()) > width) characters.resize(static_cast<std::size_t>(width));
  std::string shown;
  for (const std::string& character : characters) shown += character;
  const std::string space(static_cast<std::size_t>(width) - characters.size(), ' ');
  return right ? space + shown : shown + space;
}

/// Draws panels as blocks of lines of one width.
class TerminalHeatmap {
 public:
  TerminalHeatmap(const Heatmap& map, bool colors)
      : map_(map), colors_(colors), is_large_(map.rows > 32 || map.columns > 32) {
    const Index label = largest_width(map.column_labels);
    cell_ = is_large_ ? 1 : label == 2 ? 3 : 2;
    margin_ = is_large_ || map.row_labels.empty() ? 0 : std::min<Index>(largest_width(map.row_labels), 16) + 1;
    header_ = is_large_ ? 0 : label <= 2 ? std::min<Index>(label, 1) : std::min<Index>(label, 12);
    width_ = margin_ + cell_ * map.columns;
    for (const HeatmapPanel& panel : map.panels)
      width_ = std::max(width_, std::min<Index>(shown_width(panel.title), 40));
  }

  Index width() const { return width_; }

  std::vector<std::string> lines(const HeatmapPanel& panel) const {
    std::vector<std::string> lines;
    if (!panel.title.empty()) lines.push_back(padded(panel.title, width_, false));
    for (Index line = 0; line < header_; ++line) lines.push_back(header_line(line));
    for (Index i = 0; i < map_.rows; i += is_large_ && colors_ ? 2 : 1) lines.push_back(row_line(panel, i));
    return lines;
  }

  /// "0 [ .:-=+*#%@] 0.83"
  std::string legend() const {
    constexpr int steps = 20;
    std::string bar;
    for (int i = 0; i < steps; ++i) {
      const double level = (i + 0.5) / steps;
      bar += colors_ ? color_(level, true) + ' ' : std::string(1, shade(level));
    }
    if (colors_) bar += ansi_reset;
    std::string text =
        heatmap_number(map_.low) + (colors_ ? " " : " [") + bar + (colors_ ? " " : "] ") + heatmap_number(map_.high);
    text += "   rows: " + padded(map_.row_name, shown_width(map_.row_name), false) +
            ", columns: " + padded(map_.column_name, shown_width(map_.column_name), false);
    if (map_.block > 1) {
      const std::string side = std::to_string(map_.block);
      text += "; each square is the mean of " + side + " x " + side;
    }
    return text;
  }

 private:
  std::string fill_up(std::string line, Index shown) const {
    return line + std::string(static_cast<std::size_t>(width_ - shown), ' ');
  }

  /// Labels of one or two characters stand above their column, longer ones run downwards.
  std::string header_line(Index line) const {
    std::string text(static_cast<std::size_t>(margin_), ' ');
    for (const std::string& label : map_.column_labels) {
      if (header_ == 1) {
        text += padded(padded(label, cell_ - (cell_ == 3), true), cell_, false);
        continue;
      }
      const auto characters = shown_characters(label);
      const Index skipped = header_ - static_cast<Index>(characters.size());  // ends at the bottom
      const Index place = skipped >= 0 ? line - skipped : line;
      text += padded(place >= 0 ? characters[static_cast<std::size_t>(place)] : " ", cell_, false);
    }
    return fill_up(text, margin_ + cell_ * map_.columns);
  }

  std::string row_line(const HeatmapPanel& panel, Index i) const {
    std::string text;
    if (margin_ > 0) text = padded(map_.row_labels[static_cast<std::size_t>(i)], margin_ - 1, true) + ' ';
    for (Index j = 0; j < map_.columns; ++j) {
      const double level = map_.level(map_.value(panel, i, j));
      if (!colors_) {
        text.append(static_cast<std::size_t>(cell_), shade(level));
      } else if (!is_large_) {
        text += color_(level, true) + std::string(static_cast<std::size_t>(cell_), ' ');
      } else {
        const bool both = i + 1 < map_.rows;
        if (both) text += color_(map_.level(map_.value(panel, i + 1, j)), true);
        text += color_(level, false) + "\xE2\x96\x80";  // the upper half block
      }
    }
    if (colors_) text += ansi_reset;
    return fill_up(text, margin_ + cell_ * map_.columns);
  }

  const Heatmap& map_;
  bool colors_, is_large_;
  AnsiColor color_;
  Index cell_ = 2, margin_ = 0, header_ = 0, width_ = 0;
};

/// As many panels beside each other as the width has room for.
inline void print_heatmap(std::ostream& out, const Heatmap& map, Index width, bool colors) {
  const TerminalHeatmap drawing(map, colors);
  constexpr Index gap = 3;
  const auto most = static_cast<std::size_t>(std::max<Index>(1, (width + gap) / (drawing.width() + gap)));
  const std::size_t groups = std::max<std::size_t>(1, (map.panels.size() + most - 1) / most);
  const std::size_t beside = (map.panels.size() + groups - 1) / groups;
  if (!map.title.empty()) out << padded(map.title, shown_width(map.title), false) << "\n\n";
  for (std::size_t first = 0; first < map.panels.size(); first += beside) {
    std::vector<std::vector<std::string>> panels;
    for (std::size_t i = first; i < std::min(first + beside, map.panels.size()); ++i) {
      panels.push_back(drawing.lines(map.panels[i]));
    }
    for (std::size_t line = 0; line < panels[0].size(); ++line) {
      for (std::size_t i = 0; i < panels.size(); ++i) out << (i > 0 ? "   " : "") << panels[i][line];
      out << '\n';
    }
    out << '\n';
  }
  out << drawing.legend() << '\n';
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
