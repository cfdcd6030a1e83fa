#pragma once
/// \file
/// What a heatmap shows, before it is drawn: panels of numbers, one scale and one range of colours for all, and labels.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attensor/core/check.hpp"
#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {

enum class HeatmapStyle {
  automatic,  ///< colours where the stream is a terminal that has them (and NO_COLOR is not set), else characters
  colors,     ///< Unicode and ANSI colours
  characters  ///< shades of plain ASCII
};

struct HeatmapOptions {
  std::string title = {};  ///< above all panels
  std::vector<std::string> panel_titles =
      {};                                    ///< one for each panel; none: "head 0", "head 1", ... if there are several
  std::vector<std::string> row_labels = {};  ///< one for each row, or none
  std::vector<std::string> column_labels = {};  ///< one for each column, or none
  std::string row_name = "query", column_name = "key";
  std::optional<double> low = {}, high = {};  ///< of the scale; by default from min(0, smallest) to the largest of all
  Index width = 100;                          ///< of the terminal, in characters
  HeatmapStyle style = HeatmapStyle::automatic;  ///< on a terminal
};

namespace detail {

/// One matrix, row by row.
struct HeatmapPanel {
  std::string title;
  std::vector<double> values;
};

/// All that is drawn. `block` x `block` numbers of a large matrix are averaged into one square.
struct Heatmap {
  std::string title, row_name, column_name;
  std::vector<std::string> row_labels, column_labels;
  Index rows = 0, columns = 0, block = 1;
  double low = 0, high = 1;
  std::vector<HeatmapPanel> panels;

  double value(const HeatmapPanel& panel, Index i, Index j) const {
    return panel.values[static_cast<std::size_t>(i * columns + j)];
  }
  /// Where a value lies on the scale, from 0 to 1; NaN for NaN.
  double level(double value) const {
    if (!(high > low)) return std::isnan(value) ? value : 0;
    return std::isnan(value) ? value : std::clamp((value - low) / (high - low), 0.0, 1.0);
  }
};

/// From dark to bright, also in black and white; grey for NaN.
inline std::array<int, 3> heatmap_color(double level) {
  constexpr std::array<std::array<double, 3>, 6> stops = {
      {{21, 20, 46}, {66, 35, 112}, {140, 43, 122}, {214, 72, 92}, {247, 148, 78}, {253, 236, 165}}};
  if (std::isnan(level)) return {128, 128, 128};
  const double place = level * static_cast<double>(stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  std::array<int, 3> color{};
  for (std::size_t c = 0; c < 3; ++c) {
    color[c] =
        static_cast<int>(std::lerp(stops[below][c], stops[below + 1][c], place - static_cast<double>(below)) + 0.5);
  }
  return color;
}

/// "0.125", whatever the locale of the program; no more than three decimals.
inline std::string heatmap_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 0.001 && size < 1e6);
  std::array<char, 64> text;
  const auto end = plain
                       ? std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 3)
                       : std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, 2);
  std::string_view digits(text.data(), static_cast<std::size_t>(end.ptr - text.data()));
  while (plain && digits.back() == '0') digits.remove_suffix(1);
  if (digits.back() == '.') digits.remove_suffix(1);
  return std::string(digits);
}

/// A label as characters that can be shown, each a string of its own: control characters and what is not UTF-8 become
/// U+FFFD, so that no label can steer a terminal or break a file.
inline std::vector<std::string> shown_characters(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    bool good = length > 0 && text.size() >= length;
    std::uint32_t code = length <= 1 ? first : first & (0x7Fu >> length);
    for (std::size_t i = 1; good && i < length; ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      good = (next & 0xC0) == 0x80;
      code = code << 6 | (next & 0x3Fu);
    }
    constexpr std::array<std::uint32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
    const bool shown = good && code >= smallest[length] && code >= 0x20 && !(code >= 0x7F && code < 0xA0) &&
                       !(code >= 0xD800 && code < 0xE000) && (code & 0xFFFEu) != 0xFFFE && code < 0x110000;
    characters.push_back(shown ? std::string(text.substr(0, length)) : "\xEF\xBF\xBD");
    text.remove_prefix(good ? length : 1);
  }
  return characters;
}

inline Index shown_width(std::string_view text) { return static_cast<Index>(shown_characters(text).size()); }

inline Index largest_width(const std::vector<std::string>& labels) {
  Index largest = 0;
  for (const std::string& label : labels) largest = std::max(largest, shown_width(label));
  return largest;
}

/// None, or the labels of the squares; a square of several numbers has the label of the first.
inline std::vector<std::string> square_labels(const char* name, const std::vector<std::string>& labels, Index count,
                                              Index block) {
  if (!labels.empty() && static_cast<Index>(labels.size()) != count) {
    check_value(false, "heatmap", (std::string("the number of ") + name).c_str(), static_cast<Index>(labels.size()),
                std::to_string(count) + ", one for each, or none");
  }
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < labels.size(); i += static_cast<std::size_t>(block)) kept.push_back(labels[i]);
  return kept;
}

/// The means of the blocks of one matrix.
template <class T>
std::vector<double> block_means(const View<const T, 2>& x, Index block) {
  std::vector<double> means;
  for (Index i = 0; i < x.extent(0); i += block) {
    for (Index j = 0; j < x.extent(1); j += block) {
      double sum = 0, count = 0;
      for (Index k = i; k < std::min(i + block, x.extent(0)); ++k) {
        for (Index l = j; l < std::min(j + block, x.extent(1)); ++l, ++count) sum += static_cast<double>(x(k, l));
      }
      means.push_back(sum / count);
    }
  }
  return means;
}

/// \param x  [rows, columns], or [panels, rows, columns]
/// \throws ValueError if there are labels or panel titles, but not one for each
template <TensorLike X>
  requires Scalar<scalar_t<X>> && (rank_v<X> == 2 || rank_v<X> == 3)
Heatmap make_heatmap(const X& x, const HeatmapOptions& options, Index most_squares) {
  const auto view = read(x);
  constexpr std::size_t first = rank_v<X> - 2;
  const Index rows = view.extent(first), columns = view.extent(first + 1);
  const Index block = std::max<Index>(1, (std::max(rows, columns) + most_squares - 1) / most_squares);

  Heatmap map{.title = options.title,
              .row_name = options.row_name,
              .column_name = options.column_name,
              .row_labels = square_labels("row_labels", options.row_labels, rows, block),
              .column_labels = square_labels("column_labels", options.column_labels, columns, block),
              .rows = (rows + block - 1) / block,
              .columns = (columns + block - 1) / block,
              .block = block,
              .panels = {}};
  if constexpr (rank_v<X> == 2) {
    map.panels.push_back({"", block_means(view, block)});
  } else {
    for (Index panel = 0; panel < view.extent(0); ++panel) {
      const std::string title = view.extent(0) > 1 ? "head " + std::to_string(panel) : "";
      map.panels.push_back({title, block_means(view[panel], block)});
    }
  }
  (void)square_labels("panel_titles", options.panel_titles, static_cast<Index>(map.panels.size()), 1);
  for (std::size_t i = 0; i < options.panel_titles.size(); ++i) map.panels[i].title = options.panel_titles[i];

  constexpr double infinity = std::numeric_limits<double>::infinity();
  double smallest = 0, largest = -infinity;
  for (const HeatmapPanel& panel : map.panels) {
    for (const double value : panel.values) {
      if (!std::isfinite(value)) continue;
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    }
  }
  map.low = options.low.value_or(smallest);
  map.high = options.high.value_or(largest > -infinity ? largest : 1);
  return map;
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
