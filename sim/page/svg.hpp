// Draws who works when as a standalone SVG picture, the way pipeline papers do: one row per rank with a box per action,
// the micro-batch in it, a time axis, and below it the memory of every rank over the same time.
//
// Kinds have colours, chunks of a rank have tints from dark to light. Pictures of many actions get no numbers, then no
// gaps, and at last boxes that touch are drawn as one; pictures of many ranks leave out the ones in the middle. Memory
// is drawn as one strip per rank, or for many ranks as lines in one frame. Coordinates are whole hundredths of a pixel,
// so the same drawing gives the same bytes everywhere.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::page {

enum class Half : std::uint8_t { whole, upper, lower };  // two actions that overlap share the height of a row

inline constexpr std::uint32_t kNoBox = 0xffffffff;

struct SvgBox {
  std::uint32_t row = 0;
  Time start, end;
  char kind = 'F';  // F I W B and S R have colours and names of their own, any other letter is drawn grey
  Half half = Half::whole;
  std::uint32_t chunk = 0;  // of its rank, below `chunks`
  std::string label;        // drawn where it fits
  std::string tip;          // shown when the mouse rests on the box; left out of large pictures
  // For documents, which are zoomed into:
  std::uint32_t what = kNoBox;   // of Drawing::words
  std::uint32_t after = kNoBox;  // the box whose end let this one begin
  bool critical = false;         // on the chain that decides the end
};

// From `at` on, this much is held.
struct MemoryStep {
  Time at;
  double amount = 0;
};

struct Drawing {
  std::string title, subtitle;
  std::uint32_t rows = 0, chunks = 1;
  std::string tints = "chunks of a rank";  // what the legend calls the tints of a colour
  // Of pictures side by side: what all of them show, so that a length is the same time in each.
  Time until{};
  std::size_t most_boxes = 0;                   // in a row
  std::vector<std::string> row_names;           // empty: "rank N"
  std::vector<bool> slim;                       // rows that say what goes on beside another; empty: none
  std::vector<std::string> words;               // what boxes are
  std::vector<SvgBox> boxes;                    // in any order; those of one row do not overlap, halves aside
  std::vector<std::vector<MemoryStep>> memory;  // per row, in order of time; empty = no memory part
  std::optional<double> memory_limit;
};

std::string draw_svg(const Drawing& drawing);

}  // namespace rehearsal::page
