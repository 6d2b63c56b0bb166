#include "schedule/csv_cells.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>

namespace rehearsal::schedule {
namespace {

// As users see it: control characters and endless cells stay out of messages.
std::string quoted(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 40)) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return "'" + shown + (text.size() > 40 ? "..." : "") + "'";
}

// Reads a number at the front of `text` and takes it away; nothing if there is none or it is too large.
std::optional<std::uint32_t> take_number(std::string_view& text, std::uint32_t most) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || number > most) return std::nullopt;
  text.remove_prefix(std::size_t(end - text.data()));
  return static_cast<std::uint32_t>(number);
}

bool take(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

class Reader {
 public:
  explicit Reader(const std::string& file) { sheet_.file = file; }

  Sheet read(std::string_view text) {
    take(text, "\xef\xbb\xbf");
    std::uint32_t line = 0, empty_since = 0;
    while (!text.empty()) {
      std::string_view row = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(row.size() + 1, text.size()));
      if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
      ++line;
      if (row.find_first_not_of(" \t,") == std::string_view::npos) {
        if (!empty_since) empty_since = line;
        continue;
      }
      for (; empty_since && empty_since < line; ++empty_since)
        error(empty_since, 1, fmt::format("rank {} has no cells; every rank needs a row of its own", empty_since - 1));
      empty_since = 0;
      read_row(row, line);
    }
    if (sheet_.row_ends.empty() && errors_.empty())
      error(1, 1, "the file has no cells; write one row per rank, for example 0F0,0B0");
    number_pieces();
    if (!errors_.empty()) throw UserError(std::move(errors_));
    modernise();
    return std::move(sheet_);
  }

 private:
  void error(std::uint32_t line, std::size_t column, std::string message) {
    constexpr std::size_t kMost = 20;
    if (errors_.size() < kMost) errors_.push_back({{sheet_.file, int(line), int(column)}, std::move(message)});
  }

  void read_row(std::string_view row, std::uint32_t line) {
    Cell place;
    place.rank = std::uint32_t(sheet_.row_ends.size()), place.line = line;
    for (std::size_t at = 0; at <= row.size(); ++place.index) {
      const std::size_t end = std::min(row.find(',', at), row.size());
      std::size_t from = at, to = end;
      const auto blank = [&](char c) { return c == ' ' || c == '\t'; };
      while (from < to && blank(row[from])) ++from;
      while (to > from && blank(row[to - 1])) --to;
      if (to - from >= 2 && row[from] == '"' && row[to - 1] == '"') ++from, --to;
      place.column = std::uint32_t(from + 1);
      if (to > from) read_cell(row.substr(from, to - from), place);
      at = end + 1;
    }
    sheet_.begin.push_back(sheet_.cells.size());
    sheet_.row_ends.push_back({sheet_.file, int(line), int(row.size() + 1)});
  }

  void read_cell(std::string_view cell, const Cell& place) {
    auto& cells = sheet_.cells;
    const std::size_t before = cells.size();
    std::string_view rest = cell;
    const bool pair = take(rest, "(");
    bool good = action(rest, place);
    if (pair && good) {
      good = take(rest, ";") && action(rest, place) && take(rest, ")OVERLAP_F_B") && cells.size() == before + 2 &&
             cells[before].is(Op::forward) && (cells.back().is(Op::backward) || cells.back().is(Op::input_gradient));
      if (good) cells[before].action.overlaps_next = true;
    }
    if (good && rest.empty()) return;
    cells.resize(before);
    error(place.line, place.column,
          quoted(cell) +
              (pair ? " is not an overlapped pair: write (<stage>F<micro-batch>;<stage>B<micro-batch>)OVERLAP_F_B, "
                      "with one forward and then one backward (B or I)"
                    : " is not an action: write <stage><type><micro-batch>, for example 3F0, with one of the types F, "
                      "I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, or <stage>UNSHARD, RESHARD, REDUCE_GRAD"));
  }

  // Stage, type, micro-batch.
  bool action(std::string_view& rest, Cell cell) {
    const auto stage = take_number(rest, kMaxStages - 1);
    if (!stage) return false;
    for (const std::string_view word : {"UNSHARD", "RESHARD", "REDUCE_GRAD"})
      if (take(rest, word)) return ++sheet_.sharding, true;
    constexpr std::pair<const char*, Op> kOps[]{
        {"F", Op::forward}, {"I", Op::input_gradient}, {"W", Op::weight_gradient}, {"B", Op::backward}};
    const auto message =
        std::find_if(std::begin(kMessages), std::end(kMessages), [&](auto w) { return take(rest, w); });
    cell.kind = CellKind(message - std::begin(kMessages));
    if (cell.kind == kCompute) {
      cell.both = rest.substr(0, 2) == "BW";
      const auto op = std::find_if(std::begin(kOps), std::end(kOps), [&](auto& o) { return take(rest, o.first); });
      if (op == std::end(kOps)) return false;
      cell.action.op = op->second;
      if (cell.both) take(rest, "W");
    }
    const auto microbatch = take_number(rest, UINT32_MAX - 2);
    if (!microbatch) return false;
    if (take(rest, ".") && !(cell.piece = take_number(rest, UINT32_MAX - 2))) return false;
    cell.action.stage = static_cast<std::uint16_t>(*stage), cell.action.microbatch = *microbatch;
    sheet_.cells.push_back(cell);
    return true;
  }

  // Pieces are numbered through: micro-batch * pieces + piece.
  void number_pieces() {
    std::uint64_t pieces = 1;
    const bool cut = sheet_.find([](const Cell& cell) { return cell.piece.has_value(); });
    for (const Cell& cell : sheet_.cells) pieces = std::max(pieces, std::uint64_t(cell.piece.value_or(0)) + 1);
    sheet_.pieces = static_cast<std::uint32_t>(pieces);
    for (Cell& cell : sheet_.cells) {
      if (cut && !cell.piece)
        error(cell.line, cell.column, "other cells name a piece of their micro-batch (3F0.1), but this one does not");
      const std::uint64_t unit = cell.action.microbatch * pieces + cell.piece.value_or(0);
      if (unit > UINT32_MAX - 2) error(cell.line, cell.column, "its micro-batch or piece number is too large");
      cell.action.microbatch = static_cast<std::uint32_t>(unit);
    }
  }

  // The older dialect: B is the input gradient, BW both. Without a BW it is told by a stage with both B and W for one
  // micro-batch.
  void modernise() {
    const Cell* const both = sheet_.find([](const Cell& cell) { return cell.both; });
    if (sheet_.find([](const Cell& cell) { return cell.is(Op::input_gradient); })) {
      if (!both) return;
      throw UserError(
          std::vector{Diagnostic{sheet_.at(*both),
                                 "the file mixes two dialects: in the older one BW is both gradients and B the input "
                                 "gradient, in the newer one B is both and I the input gradient; use one of them"}});
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> weights;  // (stage, micro-batch)
    for (const Cell& cell : sheet_.cells)
      if (cell.is(Op::weight_gradient)) weights.insert({cell.action.stage, cell.action.microbatch});
    const auto split = [&](const Cell& cell) {
      return cell.is(Op::backward) && weights.count({cell.action.stage, cell.action.microbatch}) > 0;
    };
    if (!both && !sheet_.find(split)) return;
    for (Cell& cell : sheet_.cells)
      if (cell.is(Op::backward) && !cell.both) cell.action.op = Op::input_gradient;
  }

  Sheet sheet_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

Sheet read_cells(std::string_view text, const std::string& file) { return Reader(file).read(text); }

}  // namespace rehearsal::schedule
