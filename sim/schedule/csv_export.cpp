// Writing orders, and the SEND and RECV cells in the order of torch.distributed.pipelining (its _merge_bw and
// _add_send_recv): that order is free of deadlock when every rank runs its row one cell after the other.
#include <fmt/format.h>

#include <vector>

#include "base/error.hpp"
#include "schedule/csv.hpp"
#include "schedule/text.hpp"

namespace rehearsal::schedule {
namespace {

using Row = std::vector<Action>;

// An input gradient directly followed by its own weight gradient is one full backward. Pairs stay as they are.
Row merged(Order order) {
  Row row;
  bool in_pair = false;  // the last action is the second of a pair
  while (order.next()) {
    const Action action = order.value();
    const bool second = !row.empty() && row.back().overlaps_next;
    if (action.op == Op::weight_gradient && !row.empty() && !in_pair && row.back().op == Op::input_gradient &&
        row.back().stage == action.stage && row.back().microbatch == action.microbatch) {
      row.back().op = Op::backward;
      continue;
    }
    row.push_back(action);
    in_pair = second;
  }
  return row;
}

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Problem& problem)
      : placement_(schedule.placement),
        problem_(problem),
        units_(units(schedule, problem)),
        activation_(std::size_t(problem.stages()) * units_),
        gradient_(activation_),
        text_(problem.ranks) {
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) rows_.push_back(merged(schedule.order(problem, rank)));
    for (std::uint32_t s = 0; s < problem.stages(); ++s) ranks_.push_back(rank_of(placement_, problem, s));
  }

  // Ranks take turns, one action each; the sender puts the receive into the row of its reader at once.
  std::vector<std::string> run() {
    std::vector<std::size_t> head(rows_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < rows_.size(); ++rank) {
        const Row& row = rows_[rank];
        std::size_t& i = head[rank];
        if (i == row.size()) continue;
        const std::size_t n = row[i].overlaps_next ? 2 : 1;
        if (!ready(row[i]) || (n == 2 && !ready(row[i + 1]))) continue;
        RowText cell;
        std::string& text = text_[rank];
        if (!text.empty()) text += ',';
        for (std::size_t k = 0; k < n; ++k) cell.append(text, row[i + k]);
        for (std::size_t k = 0; k < n; ++k) hand_over(rank, row[i + k]);
        i += n;
        moved = true;
      }
    }
    for (std::size_t rank = 0; rank < rows_.size(); ++rank)
      if (head[rank] < rows_[rank].size())
        throw UserError(
            fmt::format("the order deadlocks: rank {} waits forever at {}", rank, to_text(rows_[rank][head[rank]])));
    return std::move(text_);
  }

 private:
  std::size_t at(std::uint32_t stage, std::uint32_t unit) const { return std::size_t(stage) * units_ + unit; }

  bool ready(const Action& a) const {
    if (a.op == Op::weight_gradient) return true;
    if (a.op == Op::forward)
      return first_of_chain(placement_, problem_, a.stage) || activation_[at(a.stage, a.microbatch)];
    return last_of_chain(placement_, problem_, a.stage) || gradient_[at(a.stage, a.microbatch)];
  }

  void hand_over(std::uint32_t rank, const Action& a) {
    if (a.op == Op::weight_gradient) return;
    const bool forward = a.op == Op::forward;
    if (forward ? last_of_chain(placement_, problem_, a.stage) : first_of_chain(placement_, problem_, a.stage)) return;
    const std::uint32_t to = forward ? a.stage + 1u : a.stage - 1u;
    (forward ? activation_ : gradient_)[at(to, a.microbatch)] = true;
    if (ranks_[to] == rank) return;
    const char kind = forward ? 'F' : 'B';
    std::string& there = text_[ranks_[to]];
    text_[rank] += fmt::format(",{}SEND_{}{}", a.stage, kind, a.microbatch);
    there += fmt::format("{}{}RECV_{}{}", there.empty() ? "" : ",", to, kind, a.microbatch);
  }

  Placement placement_;
  const Problem& problem_;
  std::uint32_t units_;
  std::vector<bool> activation_, gradient_;  // by (stage, unit): there, or a receive is posted for it
  std::vector<std::string> text_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace

void export_csv(const Schedule& schedule, const Problem& problem, CsvStyle style,
                const std::function<void(std::string_view)>& write) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  const std::uint32_t cut = pieces(ready, problem);
  if (style.messages) {
    if (cut > 1)
      throw UserError(
          fmt::format("schedule {} splits micro-batches into pieces, which SEND and RECV cells cannot express; export "
                      "it without them",
                      ready.name));
    for (const std::string& row : Lowering(ready, problem).run()) write(row), write("\n");
    return;
  }
  std::string piece;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    Order order = ready.order(problem, rank);
    for (RowText row(cut); order.next();) {
      row.append(piece, order.value());
      if (piece.size() > (1 << 16)) write(piece), piece.clear();
    }
    piece += '\n';
  }
  write(piece);
}

}  // namespace rehearsal::schedule
