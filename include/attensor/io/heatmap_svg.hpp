#pragma once
/// \file
/// A heatmap as an SVG image: one file that a browser shows, with the numbers where the pointer rests.

#include "attensor/io/heatmap_panels.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// Text between tags or in quotes.
inline std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const std::string& character : shown_characters(text)) {
    switch (character[0]) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

inline std::string svg_color(double level) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "#";
  for (const int part : heatmap_color(level)) {
    text += digits[static_cast<std::size_t>(part / 16)];
    text += digits[static_cast<std::size_t>(part % 16)];
  }
  return text;
}

/// Lengths in pixels, whole numbers.
class SvgHeatmap {
 public:
  explicit SvgHeatmap(const Heatmap& map) : map_(map) {
    const Index most = std::max<Index>({map.rows, map.columns, 1});
    cell_ = std::clamp<Index>(280 / most, 5, 28);
    const bool labelled = cell_ >= font;  // labels that would run into each other are left out
    has_row_labels_ = labelled && !map.row_labels.empty();
    has_column_labels_ = labelled && !map.column_labels.empty();
    left_ = 24 + (has_row_labels_ ? text_width(largest_width(map.row_labels)) + 6 : 0);
    const Index widest = text_width(largest_width(map.column_labels));
    upright_ = widest > cell_ - 2;
    below_ = 24 + (!has_column_labels_ ? 0 : upright_ ? widest + 6 : font + 6);
    Index content = cell_ * map.columns;
    for (const HeatmapPanel& panel : map.panels) content = std::max(content, text_width(shown_width(panel.title)));
    panel_width_ = left_ + content + 16;
    panel_height_ = above + cell_ * map.rows + below_ + 12;
    const auto count = static_cast<Index>(map.panels.size());
    beside_ = count == 4 ? 2 : std::clamp<Index>(count, 1, count < 4 ? 3 : 4);
    top_ = map.title.empty() ? 12 : 44;
  }

  std::string text() {
    const auto count = static_cast<Index>(map_.panels.size());
    const Index columns = std::min(beside_, std::max<Index>(count, 1)),
                lines = std::max<Index>(1, (count + beside_ - 1) / beside_);
    const Index bar_x = 12 + columns * panel_width_ + 8;
    const Index number =
        text_width(std::max(shown_width(heatmap_number(map_.low)), shown_width(heatmap_number(map_.high))));
    const Index width = std::max(bar_x + bar_width + 8 + number + 12, 24 + shown_width(map_.title) * 9);
    const Index height = top_ + lines * panel_height_ + (map_.block > 1 ? 24 : 4);

    line("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + at(width) + "\" height=\"" + at(height) +
         "\" viewBox=\"0 0 " + at(width) + ' ' + at(height) +
         "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"" + at(font) +
         "\" fill=\"#333\">");
    line("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    if (!map_.title.empty()) {
      line("<text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"#111\">" + xml_text(map_.title) +
           "</text>");
    }
    for (Index i = 0; i < count; ++i) {
      draw_panel(map_.panels[static_cast<std::size_t>(i)], 12 + i % beside_ * panel_width_,
                 top_ + i / beside_ * panel_height_);
    }
    draw_scale(bar_x, top_ + above, std::max<Index>(80, cell_ * map_.rows));
    if (map_.block > 1) {
      const std::string side = at(map_.block);
      line("<text x=\"16\" y=\"" + at(height - 10) + "\">Each square is the mean of " + side + " x " + side +
           " numbers.</text>");
    }
    line("</svg>");
    return text_;
  }

 private:
  static constexpr Index font = 11, above = 24, bar_width = 12;
  static constexpr std::string_view middle = " text-anchor=\"middle\"", end = " text-anchor=\"end\"";

  static std::string at(Index number) { return std::to_string(number); }
  static Index text_width(Index characters) { return (characters * 13 + 1) / 2; }
  void line(const std::string& text) { text_ += text + '\n'; }
  void draw_text(Index x, Index y, std::string_view attributes, std::string_view content) {
    line("<text x=\"" + at(x) + "\" y=\"" + at(y) + "\"" + std::string(attributes) + '>' + xml_text(content) +
         "</text>");
  }
  /// Reads from below upwards.
  void draw_upright(Index x, Index y, std::string_view attributes, std::string_view content) {
    line("<text transform=\"translate(" + at(x) + ' ' + at(y) + ") rotate(-90)\"" + std::string(attributes) + '>' +
         xml_text(content) + "</text>");
  }
  std::string label_of(const std::vector<std::string>& labels, Index i) const {
    return at(i * map_.block) + (labels.empty() ? "" : " " + labels[static_cast<std::size_t>(i)]);
  }

  void draw_panel(const HeatmapPanel& panel, Index x, Index y) {
    const Index x0 = x + left_, y0 = y + above;
    if (!panel.title.empty()) draw_text(x0, y0 - 8, " font-weight=\"bold\" fill=\"#111\"", panel.title);
    for (Index i = 0; i < map_.rows; ++i) {
      for (Index j = 0; j < map_.columns; ++j) {
        const double value = map_.value(panel, i, j);
        const Index gap = cell_ >= 10 ? 1 : 0;
        line("<rect x=\"" + at(x0 + j * cell_) + "\" y=\"" + at(y0 + i * cell_) + "\" width=\"" + at(cell_ - gap) +
             "\" height=\"" + at(cell_ - gap) + "\" fill=\"" + svg_color(map_.level(value)) + "\"><title>" +
             xml_text(map_.row_name + ' ' + label_of(map_.row_labels, i) + ", " + map_.column_name + ' ' +
                      label_of(map_.column_labels, j) + ": " + heatmap_number(value)) +
             "</title></rect>");
      }
    }
    for (Index i = 0; has_row_labels_ && i < map_.rows; ++i) {
      draw_text(x0 - 6, y0 + i * cell_ + (cell_ + font - 3) / 2, end, map_.row_labels[static_cast<std::size_t>(i)]);
    }
    for (Index j = 0; has_column_labels_ && j < map_.columns; ++j) {
      const std::string& label = map_.column_labels[static_cast<std::size_t>(j)];
      const Index y1 = y0 + map_.rows * cell_ + 5, center = x0 + j * cell_ + cell_ / 2;
      if (upright_) {
        draw_upright(center + 4, y1, end, label);
      } else {
        draw_text(center, y1 + font - 2, middle, label);
      }
    }
    const std::string faint = std::string(middle) + " fill=\"#777\"";
    draw_upright(x + 14, y0 + map_.rows * cell_ / 2, faint, map_.row_name);
    draw_text(x0 + map_.columns * cell_ / 2, y0 + map_.rows * cell_ + below_ - 4, faint, map_.column_name);
  }

  void draw_scale(Index x, Index y, Index height) {
    line("<defs><linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">");
    for (Index i = 0; i <= 10; ++i) {
      line("<stop offset=\"" + at(10 * i) + "%\" stop-color=\"" + svg_color(static_cast<double>(i) / 10) + "\"/>");
    }
    line("</linearGradient></defs>");
    line("<rect x=\"" + at(x) + "\" y=\"" + at(y) + "\" width=\"" + at(bar_width) + "\" height=\"" + at(height) +
         "\" fill=\"url(#scale)\"/>");
    draw_text(x + bar_width + 6, y + 9, "", heatmap_number(map_.high));
    draw_text(x + bar_width + 6, y + height, "", heatmap_number(map_.low));
  }

  const Heatmap& map_;
  std::string text_;
  Index cell_ = 0, left_ = 0, below_ = 0, top_ = 0, panel_width_ = 0, panel_height_ = 0, beside_ = 1;
  bool has_row_labels_ = false, has_column_labels_ = false, upright_ = false;
};

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
