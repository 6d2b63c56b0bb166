// Draws activity over time as a standalone SVG picture, as pipeline papers do: one row per rank with a box per action,
// the micro-batch in it, a time axis, and below it the memory of every rank over the same time.
//
// Colours show kinds, tints from dark to light the chunks of a rank. With many actions numbers are omitted, then gaps,
// and finally adjacent boxes are merged; with many ranks the ones in the middle are left out. Memory
// is drawn as one strip per rank, or for many ranks as lines in one frame. Coordinates are whole hundredths of a pixel,
// so the same drawing gives the same bytes everywhere.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::page {

enum class Half : std::uint8_t { whole, upper, lower };  // two overlapping actions share the height of a row

inline constexpr std::uint32_t kNoBox = 0xffffffff;

struct SvgBox {
  std::uint32_t row = 0;
  Time start, end;
  char kind = 'F';  // F I W B and S R have colours and names of their own; other letters are grey
  Half half = Half::whole;
  std::uint32_t chunk = 0;  // chunk of its rank, below `chunks`
  std::string label;        // drawn if it fits
  std::string tip;          // tooltip; omitted from large pictures
  // For zoomable documents:
  std::uint32_t what = kNoBox;   // index into Drawing::words
  std::uint32_t after = kNoBox;  // the box whose end allowed this one to begin
  bool critical = false;         // on the critical path
};

// From `at` on, this amount is held.
struct MemoryStep {
  Time at;
  double amount = 0;
};

struct Drawing {
  std::string title, subtitle;
  std::uint32_t rows = 0, chunks = 1;
  std::string tints = "chunks of a rank";  // tints of a colour in the legend
  // Shared by pictures side by side, so that equal lengths mean equal times.
  Time until{};
  std::size_t most_boxes = 0;                   // most boxes in a row
  std::vector<std::string> row_names;           // empty: "rank N"
  std::vector<bool> slim;                       // rows with secondary activity of the row above; empty: none
  std::vector<std::string> words;               // descriptions of boxes
  std::vector<SvgBox> boxes;                    // in any order; boxes of a row do not overlap, except halves
  std::vector<std::vector<MemoryStep>> memory;  // per row, in order of time; empty = no memory part
  std::optional<double> memory_limit;
};

std::string draw_svg(const Drawing& drawing);

}  // namespace rehearsal::page
