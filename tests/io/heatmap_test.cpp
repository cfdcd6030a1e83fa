// Mirrors include/attensor/io/heatmap.hpp, with heatmap_panels.hpp, heatmap_terminal.hpp and heatmap_svg.hpp.

#include "attensor/io/heatmap.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "attensor/core/creation.hpp"
#include "attensor/core/layout.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

const Tensor<float, 2> two_by_three = {{0, 0.5f, 1}, {1, 0.25f, 0}};

template <class X>
std::string printed(const X& x, const HeatmapOptions& options = {}) {
  std::ostringstream out;
  print_heatmap(out, x, options);
  return out.str();
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Every tag is closed in its order, and no bare '<' or '&' is left.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&' && xml.find(';', at) > at + 5) return false;
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end;
  }
  return open.empty();
}

}  // namespace

TEST_CASE("heatmap: where there is no terminal, shades of plain characters") {
  CHECK(printed(two_by_three) ==
        "  ++@@\n"
        "@@::  \n"
        "\n"
        "0 [  ..::--==++**##%%@@] 1   rows: query, columns: key\n");
}

TEST_CASE("heatmap: labels stand before rows and above columns, long ones run downwards") {
  const HeatmapOptions options{.title = "T", .row_labels = {"a", "bcd"}, .column_labels = {"x", "10", "z"}};
  CHECK(printed(two_by_three, options)
            .starts_with("T\n"
                         "\n"
                         "     x 10  z \n"
                         "  a    +++@@@\n"
                         "bcd @@@:::   \n"));
  CHECK(printed(two_by_three, {.column_labels = {"x", "abc", "z"}})
            .starts_with("  a   \n"
                         "  b   \n"
                         "x c z \n"
                         "  ++@@\n"));
}

TEST_CASE("heatmap: heads stand beside each other as far as the width goes") {
  const auto heads = full<double>({4, 2, 3}, 1);
  CHECK(printed(heads, {.width = 100})
            .starts_with("head 0   head 1   head 2   head 3\n"
                         "@@@@@@   @@@@@@   @@@@@@   @@@@@@\n"));
  CHECK(printed(heads, {.width = 25}).starts_with("head 0   head 1\n"));  // three would fit; two and two look better
  CHECK(printed(heads, {.width = 0}).starts_with("head 0\n@@@@@@\n"));
  CHECK(printed(slice(heads, 0, 0, 2), {.panel_titles = {"left", "right"}}).starts_with("left     right \n"));
}

TEST_CASE("heatmap: colours on request, none in a pipe, and each line ends without one") {
  const std::string colored = printed(two_by_three, {.style = HeatmapStyle::colors});
  CHECK(count_of(colored, "\x1b[48;") == 6 + 20);
  CHECK(count_of(colored, "\x1b[0m\n") == 2);
  CHECK(count_of(printed(two_by_three), "\x1b") == 0);
}

TEST_CASE("heatmap: a large matrix has two rows to a line, and means of blocks from 65 on") {
  const std::string colored = printed(full<float>({33, 40}, 1), {.style = HeatmapStyle::colors});
  CHECK(count_of(colored, "\xE2\x96\x80") == 17 * 40);
  const auto large = printed(full<float>({130, 65}, 1));
  CHECK(count_of(large, "\n") == 44 + 2);
  CHECK(large.ends_with("; each square is the mean of 3 x 3\n"));
}

TEST_CASE("heatmap: the scale starts at 0 or below, and NaN, infinities and constants have their place") {
  CHECK(printed(Tensor<float, 2>{{-1, 1}}).find("-1 [") != std::string::npos);
  CHECK(printed(full<float>({1, 1}, 0.25f)).find("] 0.25 ") != std::string::npos);
  CHECK(printed(zeros<float>({2, 2})).starts_with("    \n    \n"));
  const auto bad = static_cast<float>(not_a_number), large = static_cast<float>(infinity);
  CHECK(printed(Tensor<float, 2>{{bad, large, 1, -large}}).starts_with("??@@@@  \n"));
  CHECK(printed(two_by_three, {.low = 0, .high = 2}).starts_with("  ::++\n"));
}

TEST_CASE("heatmap: nothing to show is nothing, not a crash") {
  CHECK(printed(zeros<float>({0, 0})).ends_with("rows: query, columns: key\n"));
  CHECK(printed(zeros<float>({0, 3, 3})).ends_with("rows: query, columns: key\n"));
  for (const Index panels : {0, 2}) CHECK(is_well_formed(heatmap_svg(zeros<float>({panels, 0, 5}))));
}

TEST_CASE("heatmap: an SVG has a square with its number for each number, and parses") {
  const std::string svg =
      heatmap_svg(two_by_three, {.title = "t", .row_labels = {"a", "b"}, .column_labels = {"x", "y", "z"}});
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(is_well_formed(svg));
  CHECK(count_of(svg, "<title>") == 6);
  CHECK(svg.find("<title>query 1 b, key 1 y: 0.25</title>") != std::string::npos);
  CHECK(count_of(heatmap_svg(zeros<float>({3, 4, 5})), "<title>") == 60);
}

TEST_CASE("heatmap: labels can neither break a file nor steer a terminal") {
  const std::string nasty = "<b a=\"1\" c='2'>&\x1b[2J\xff\n\xed\xa0\x80\xe2\x82";
  const HeatmapOptions options{.title = nasty, .row_labels = {nasty, "größe"}, .row_name = nasty};
  const std::string svg = heatmap_svg(two_by_three, options);
  CHECK(is_well_formed(svg));
  CHECK(svg.find("&lt;b a=&quot;1&quot; c=&apos;2&apos;&gt;&amp;\xEF\xBF\xBD[2J") != std::string::npos);
  CHECK(svg.find("größe") != std::string::npos);
  for (const std::string& text : {svg, printed(two_by_three, options)}) {
    CHECK(count_of(text, "\x1b") == 0);
    CHECK(count_of(text, "\xff") == 0);
  }
}

TEST_CASE("heatmap: labels that are too few or too many are an error") {
  CHECK_THROWS_WITH_AS(printed(two_by_three, {.row_labels = {"a"}}),
                       "heatmap: the number of row_labels is 1; expected 2, one for each, or none", ValueError);
  CHECK_THROWS_WITH_AS(heatmap_svg(two_by_three, {.column_labels = {"a", "b", "c", "d"}}),
                       "heatmap: the number of column_labels is 4; expected 3, one for each, or none", ValueError);
  CHECK_THROWS_WITH_AS(heatmap_svg(two_by_three, {.panel_titles = {"a", "b"}}),
                       "heatmap: the number of panel_titles is 2; expected 1, one for each, or none", ValueError);
}

TEST_CASE("heatmap: a file is written whole; where it cannot be, that is an IoError") {
  const auto folder = std::filesystem::temp_directory_path() / "attensor_heatmap_test";
  std::filesystem::remove_all(folder);
  CHECK_THROWS_AS(save_heatmap((folder / "a.svg").string(), two_by_three), IoError);
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "a.svg").string();
  save_heatmap(path, zeros<float>({1, 1}));
  save_heatmap(path, two_by_three);
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  CHECK(text.str() == heatmap_svg(two_by_three));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}
