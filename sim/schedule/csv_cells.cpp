#include "schedule/csv_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "schedule/text.hpp"

namespace rehearsal::schedule {
namespace {

constexpr std::size_t kMostErrors = 20;

// For messages to users: without control characters and endless cells.
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
  Reader(std::string_view text, const std::string& file) : text_(text) { sheet_.file = file; }

  Sheet read() {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") text_.remove_prefix(3);
    std::uint32_t line = 0, empty_since = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      std::string_view row = text_.substr(at, end - at);
      if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
      ++line;
      if (row.find_first_not_of(" \t,") == std::string_view::npos) {
        if (!empty_since) empty_since = line;
      } else {
        for (; empty_since && empty_since < line; ++empty_since)
          error(empty_since, 1, fmt::format("rank {} has no cell; every rank needs a row of its own", empty_since - 1));
        empty_since = 0;
        read_row(row, line);
      }
      at = end + 1;
    }
    if (sheet_.rows.empty() && errors_.empty())
      error(1, 1, "there is no cell; write one row per rank, for example 0F0,0B0");
    number_pieces();
    if (!errors_.empty()) throw UserError(std::move(errors_));
    modernise();
    return std::move(sheet_);
  }

 private:
  struct Pending {  // a number `3F0.1` before the count of pieces is known
    std::uint32_t microbatch, piece;
    bool has_piece;
  };

  void error(std::uint32_t line, std::size_t column, std::string message) {
    if (errors_.size() < kMostErrors) errors_.push_back({{sheet_.file, int(line), int(column)}, std::move(message)});
  }

  void read_row(std::string_view row, std::uint32_t line) {
    line_ = line, index_ = 0;
    auto& cells = sheet_.rows.emplace_back();
    numbers_.emplace_back();
    for (std::size_t at = 0; at <= row.size(); ++index_) {
      const std::size_t end = std::min(row.find(',', at), row.size());
      std::size_t from = at, to = end;
      const auto blank = [&](char c) { return c == ' ' || c == '\t'; };
      while (from < to && blank(row[from])) ++from;
      while (to > from && blank(row[to - 1])) --to;
      if (to - from >= 2 && row[from] == '"' && row[to - 1] == '"') ++from, --to;
      if (to > from) read_cell(row.substr(from, to - from), std::uint32_t(from + 1), cells);
      at = end + 1;
    }
    sheet_.row_ends.push_back({sheet_.file, int(line), int(row.size() + 1)});
  }

  void read_cell(std::string_view cell, std::uint32_t column, std::vector<Cell>& cells) {
    column_ = column;
    const std::size_t before = cells.size();
    std::string_view rest = cell;
    const bool pair = take(rest, "(");
    bool good = action(rest, cells);
    if (pair && good) {
      good = take(rest, ";") && action(rest, cells) && take(rest, ")OVERLAP_F_B") && rest.empty() &&
             cells.size() == before + 2;
      const auto op = [&](std::size_t i) { return cells[before + i].action.op; };
      const auto compute = [&](std::size_t i) { return cells[before + i].kind == CellKind::compute; };
      good = good && compute(0) && compute(1) && op(0) == Op::forward &&
             (op(1) == Op::backward || op(1) == Op::input_gradient);
      if (good) cells[before].action.overlaps_next = true;
    }
    if (good && rest.empty()) return;
    cells.resize(before);
    numbers_.back().resize(before);
    if (pair)
      error(line_, column,
            fmt::format("{} is no overlapped pair: write (<stage>F<micro-batch>;<stage>B<micro-batch>)"
                        "OVERLAP_F_B, with one forward and then one backward (B or I)",
                        quoted(cell)));
    else
      error(line_, column,
            fmt::format("{} is no action: write <stage><type><micro-batch>, for example 3F0, with one of the types F, "
                        "I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, or <stage>UNSHARD, RESHARD, REDUCE_GRAD",
                        quoted(cell)));
  }

  // Stage, type, micro-batch.
  bool action(std::string_view& rest, std::vector<Cell>& cells) {
    const auto stage = take_number(rest, kMaxStages - 1);
    if (!stage) return false;
    for (const std::string_view word : {"UNSHARD", "RESHARD", "REDUCE_GRAD"})
      if (take(rest, word)) return ++sheet_.sharding, true;
    Cell cell;
    cell.line = line_, cell.column = column_, cell.index = index_;
    cell.action.stage = static_cast<std::uint16_t>(*stage);
    bool both = false;
    if (take(rest, "SEND_F"))
      cell.kind = CellKind::send_forward;
    else if (take(rest, "RECV_F"))
      cell.kind = CellKind::receive_forward;
    else if (take(rest, "SEND_B"))
      cell.kind = CellKind::send_backward;
    else if (take(rest, "RECV_B"))
      cell.kind = CellKind::receive_backward;
    else if (take(rest, "BW"))
      cell.action.op = Op::backward, both = true;
    else if (take(rest, "F"))
      cell.action.op = Op::forward;
    else if (take(rest, "I"))
      cell.action.op = Op::input_gradient, has_input_ = true;
    else if (take(rest, "W"))
      cell.action.op = Op::weight_gradient;
    else if (take(rest, "B"))
      cell.action.op = Op::backward;
    else
      return false;
    const auto microbatch = take_number(rest, UINT32_MAX - 2);
    if (!microbatch) return false;
    Pending number{*microbatch, 0, take(rest, ".")};
    if (number.has_piece) {
      const auto piece = take_number(rest, UINT32_MAX - 2);
      if (!piece) return false;
      number.piece = *piece;
    }
    if (both && !first_both_) first_both_ = Location{sheet_.file, int(line_), int(column_)};
    if (both) both_.push_back({sheet_.rows.size() - 1, cells.size()});
    sheet_.messages = sheet_.messages || cell.kind != CellKind::compute;
    cells.push_back(cell);
    numbers_.back().push_back(number);
    return true;
  }

  // Numbers pieces consecutively: micro-batch * pieces + piece.
  void number_pieces() {
    bool cut = false;
    std::uint64_t pieces = 1;
    for (const auto& row : numbers_)
      for (const auto& n : row) cut = cut || n.has_piece, pieces = std::max(pieces, std::uint64_t(n.piece) + 1);
    sheet_.pieces = cut ? static_cast<std::uint32_t>(pieces) : 1;
    for (std::size_t r = 0; r < sheet_.rows.size(); ++r)
      for (std::size_t i = 0; i < sheet_.rows[r].size(); ++i) {
        Cell& cell = sheet_.rows[r][i];
        const Pending& n = numbers_[r][i];
        if (cut && !n.has_piece)
          error(cell.line, cell.column, "other cells name a piece of their micro-batch (3F0.1), this one does not");
        const std::uint64_t unit = n.microbatch * std::uint64_t(sheet_.pieces) + n.piece;
        if (unit > UINT32_MAX - 2)
          error(cell.line, cell.column, "its micro-batch and piece are too large to be counted");
        cell.action.microbatch = static_cast<std::uint32_t>(unit);
      }
  }

  // The older dialect: B is the input gradient, BW both.
  void modernise() {
    if (first_both_ && has_input_)
      throw UserError(std::vector{
          Diagnostic{*first_both_,
                     "the file mixes two dialects: BW is both gradients in the older one, where B is the input "
                     "gradient; I is the input gradient in the newer one, where B is both; use one of them"}});
    if (has_input_ || (!first_both_ && !splits_without_input())) return;
    for (auto& row : sheet_.rows)
      for (Cell& cell : row)
        if (cell.kind == CellKind::compute && cell.action.op == Op::backward) cell.action.op = Op::input_gradient;
    for (const auto& [row, cell] : both_) sheet_.rows[row][cell].action.op = Op::backward;
  }

  // Has any stage both B and W for one micro-batch?
  bool splits_without_input() const {
    std::vector<std::tuple<std::uint16_t, std::uint32_t, Op>> gradients;
    for (const auto& row : sheet_.rows)
      for (const Cell& cell : row)
        if (cell.kind == CellKind::compute && cell.action.op != Op::forward)
          gradients.emplace_back(cell.action.stage, cell.action.microbatch, cell.action.op);
    std::sort(gradients.begin(), gradients.end());
    for (std::size_t i = 1; i < gradients.size(); ++i) {
      const auto& [stage, microbatch, op] = gradients[i];
      const auto& [stage_before, microbatch_before, op_before] = gradients[i - 1];
      if (stage == stage_before && microbatch == microbatch_before && op != op_before) return true;
    }
    return false;
  }

  std::string_view text_;
  Sheet sheet_;
  std::vector<Diagnostic> errors_;
  std::vector<std::vector<Pending>> numbers_;              // beside sheet_.rows
  std::vector<std::pair<std::size_t, std::size_t>> both_;  // BW cells: row, position
  std::optional<Location> first_both_;
  bool has_input_ = false;
  std::uint32_t line_ = 0, column_ = 0, index_ = 0;
};

}  // namespace

std::string Sheet::place(std::uint32_t rank, const Cell& cell) const {
  return fmt::format("rank {}, cell {}", rank, cell.index);
}

std::string Sheet::text(Action action) const {
  std::string text;
  action.overlaps_next = false;
  RowText(pieces).append(text, action);
  return text;
}

Sheet read_cells(std::string_view text, const std::string& file) { return Reader(text, file).read(); }

}  // namespace rehearsal::schedule
