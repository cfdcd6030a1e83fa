#pragma once
/// \file
/// Pictures of attention weights: in the terminal, and as an SVG file.
///
///     print_heatmap(std::cout, weights[0], {.title = "layer 0", .row_labels = words, .column_labels = words});
///     save_heatmap("attention.svg", weights[0], {.row_labels = words, .column_labels = words});
///
/// A matrix [rows, columns] is one panel; [panels, rows, columns] are several on one scale, such as the heads of a
/// layer. Matrices with more than 64 rows or columns are shown by the means of square blocks.

#include "attensor/io/heatmap_svg.hpp"
#include "attensor/io/heatmap_terminal.hpp"
#include "attensor/io/whole_file.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

inline constexpr Index most_heatmap_squares = 64;

}  // namespace detail

/// \throws ValueError if there are labels or panel titles, but not one for each row, column or panel
template <TensorLike X>
void print_heatmap(std::ostream& out, const X& weights, const HeatmapOptions& options = {}) {
  const auto map = detail::make_heatmap(weights, options, detail::most_heatmap_squares);
  const bool colors =
      options.style == HeatmapStyle::colors || (options.style == HeatmapStyle::automatic && detail::has_colors(out));
  detail::print_heatmap(out, map, options.width, colors);
}

/// The text of an SVG image. \throws ValueError as print_heatmap does
template <TensorLike X>
std::string heatmap_svg(const X& weights, const HeatmapOptions& options = {}) {
  const auto map = detail::make_heatmap(weights, options, detail::most_heatmap_squares);
  return detail::SvgHeatmap(map).text();
}

/// Writes an SVG image; a file at `path` is there whole or as it was.
/// \throws IoError if it cannot be written; ValueError as print_heatmap does
template <TensorLike X>
void save_heatmap(const std::string& path, const X& weights, const HeatmapOptions& options = {}) {
  const std::string text = heatmap_svg(weights, options);
  detail::write_whole_file("save_heatmap", path,
                           [&](const auto& write) { write(text.data(), static_cast<Index>(text.size())); });
}

}  // namespace attensor::inline ATTENSOR_ISA
