// From the cells of a file to a Schedule: which rank holds which stage, how many micro-batches there are, and whether
// the order can run. Every check has its own message and its location in the file; the walk that all schedules share
// has neither.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "schedule/csv.hpp"
#include "schedule/csv_cells.hpp"

namespace rehearsal::schedule {
namespace {

class Importer {
 public:
  explicit Importer(Sheet sheet) : sheet_(std::move(sheet)) {}

  Imported run(const std::string& name) {
    place_stages();
    count_chunks();
    recognise_placement();
    count_microbatches();
    progress_.assign(std::size_t(problem_.stages()) * units_, 0);
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank) check_row(rank);
    check_complete();
    check_deadlock();
    return finish(name);
  }

 private:
  [[noreturn]] void fail(const Location& where, std::string message) const {
    throw UserError(std::vector{Diagnostic{where, std::move(message)}});
  }
  [[noreturn]] void fail(std::uint32_t rank, const Cell& cell, const std::string& why) const {
    fail(sheet_.at(cell), fmt::format("{} ({}): {}", sheet_.place(rank, cell), cell_text(cell), why));
  }
  std::string cell_text(const Cell& cell) const {
    constexpr std::array kNames{"", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
    if (cell.kind == CellKind::compute) return sheet_.text(cell.action);
    return message_text(cell.action.stage, kNames[std::size_t(cell.kind)], cell.action.microbatch);
  }
  std::string message_text(std::uint32_t stage, const char* name, std::uint32_t unit) const {
    const std::string number = sheet_.text({unit, 0, Op::forward}).substr(2);
    return fmt::format("{}{}{}", stage, name, number);
  }
  std::string text(std::uint32_t stage, std::uint32_t unit, Op op) const {
    return sheet_.text({unit, static_cast<std::uint16_t>(stage), op});
  }

  // --- where the stages lie -----------------------------------------------------------------------------------------
  void place_stages() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> cells;  // (stage, rank)
    std::uint32_t last = 0;
    problem_.ranks = static_cast<std::uint32_t>(sheet_.rows.size());
    if (problem_.ranks > kMaxStages)
      fail(sheet_.row_ends[kMaxStages],
           fmt::format("this is rank {}; at most {} ranks are possible", kMaxStages, kMaxStages));
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
      for (const Cell& cell : sheet_.rows[rank]) {
        ++cells[{cell.action.stage, rank}];
        last = std::max<std::uint32_t>(last, cell.action.stage);
      }
    if (cells.empty()) fail(sheet_.row_ends.at(0), "the file holds no forward and no backward, such as 0F0");
    // A stage belongs to the rank that names it most often: one slip does not move a stage.
    constexpr std::uint32_t kNowhere = UINT32_MAX;
    ranks_.assign(std::size_t(last) + 1, kNowhere);
    std::vector<std::uint64_t> most(ranks_.size());
    for (const auto& [key, n] : cells)
      if (n > most[key.first]) most[key.first] = n, ranks_[key.first] = key.second;
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
      for (const Cell& cell : sheet_.rows[rank]) {
        const std::uint32_t stage = cell.action.stage;
        if (ranks_[stage] != rank)
          fail(rank, cell, fmt::format("stage {} lies on rank {}; only that rank may run it", stage, ranks_[stage]));
        const auto gap = std::find(ranks_.begin(), ranks_.begin() + stage, kNowhere);
        if (gap != ranks_.begin() + stage)
          fail(rank, cell,
               fmt::format("there is no stage {}; stages are numbered from 0 without gaps", gap - ranks_.begin()));
      }
  }

  void count_chunks() {
    std::vector<std::uint32_t> held(problem_.ranks);
    for (const std::uint32_t rank : ranks_) ++held[rank];
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank) {
      if (held[rank] == held[0] && held[rank] > 0) continue;
      fail({sheet_.file, sheet_.row_ends[rank].line, 1},
           fmt::format("rank {} holds {} stage{}, rank 0 holds {}; every rank must hold equally many", rank, held[rank],
                       held[rank] == 1 ? "" : "s", held[0]));
    }
    problem_.chunks = held[0];
  }

  void recognise_placement() {
    const auto fits = [&](Placement placement) {
      for (std::uint32_t s = 0; s < ranks_.size(); ++s)
        if (rank_of(placement, problem_, s) != ranks_[s]) return false;
      return true;
    };
    problem_.stage_ranks = ranks_;
    placement_ = fits(Placement::loop) ? Placement::loop : fits(Placement::wave) ? Placement::wave : Placement::listed;
    if (placement_ == Placement::wave && problem_.chunks == 2)
      placement_ = two_directions() ? Placement::bidirectional : Placement::vee;
  }
  // A V and two directions have equal placements. In a V, stage p of the last rank follows stage p-1 forwards and
  // precedes it backwards; in two directions it starts one chain while stage p-1 ends the other.
  bool two_directions() const {
    const std::uint32_t last = problem_.ranks - 1;
    const auto first = [&](bool forward) -> std::int64_t {
      for (const Cell& cell : sheet_.rows[last])
        if (cell.kind == CellKind::compute && (cell.action.op == Op::forward) == forward) return cell.action.stage;
      return -1;
    };
    return first(true) == problem_.ranks && first(false) == last;
  }

  bool first_stage(std::uint32_t stage) const { return first_of_chain(placement_, problem_, stage); }
  bool last_stage(std::uint32_t stage) const { return last_of_chain(placement_, problem_, stage); }

  // --- how many micro-batches ---------------------------------------------------------------------------------------
  void count_microbatches() {
    struct Forward {
      std::uint32_t stage, unit, rank;
      const Cell* cell;
    };
    std::vector<Forward> forwards;
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
      for (const Cell& cell : sheet_.rows[rank])
        if (cell.kind == CellKind::compute && cell.action.op == Op::forward)
          forwards.push_back({cell.action.stage, cell.action.microbatch, rank, &cell});
    std::stable_sort(forwards.begin(), forwards.end(), [](const Forward& a, const Forward& b) {
      return std::tie(a.stage, a.unit) < std::tie(b.stage, b.unit);
    });
    std::vector<std::uint32_t> count(ranks_.size());
    for (std::size_t i = 0; i < forwards.size(); ++i) {
      if (i > 0 && forwards[i].stage == forwards[i - 1].stage && forwards[i].unit == forwards[i - 1].unit)
        fail(forwards[i].rank, *forwards[i].cell,
             "has run before, in " + where(forwards[i - 1].rank, *forwards[i - 1].cell));
      ++count[forwards[i].stage];
    }
    units_ = *std::max_element(count.begin(), count.end());
    if (units_ == 0) fail({sheet_.file, 1, 1}, "there is no forward");
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
      for (const Cell& cell : sheet_.rows[rank])
        if (cell.action.microbatch >= units_)
          fail(rank, cell,
               fmt::format("a stage has {} forwards, so the last micro-batch is {}", units_,
                           sheet_.text({units_ - 1, 0, Op::forward}).substr(2)));
    // From here on units x stages is at most the number of cells.
    std::size_t at = 0;
    for (std::uint32_t s = 0; s < ranks_.size(); ++s) {
      std::uint32_t unit = 0;
      for (; unit < units_ && at < forwards.size() && forwards[at].stage == s && forwards[at].unit == unit; ++at)
        ++unit;
      if (unit < units_) missing(s, unit, Op::forward);
    }
    if (units_ % sheet_.pieces != 0)
      fail({sheet_.file, 1, 1}, fmt::format("{} forwards of a stage are no whole number of micro-batches of {} pieces",
                                            units_, sheet_.pieces));
    problem_.microbatches = units_ / sheet_.pieces * (placement_ == Placement::bidirectional ? 2 : 1);
  }
  [[noreturn]] void missing(std::uint32_t stage, std::uint32_t unit, Op op) const {
    const std::uint32_t rank = ranks_[stage];
    fail(sheet_.row_ends[rank], fmt::format("rank {} ends without {}", rank, text(stage, unit, op)));
  }
  std::string where(std::uint32_t rank, const Cell& cell) const {
    return fmt::format("{} (line {}, column {})", sheet_.place(rank, cell), cell.line, cell.column);
  }

  // --- each rank for itself -----------------------------------------------------------------------------------------
  enum : std::uint8_t {
    kForward = 1,
    kInput = 2,
    kWeight = 4,
    kHasActivation = 8,
    kHasGradient = 16,
    kSentActivation = 32,
    kSentGradient = 64
  };
  std::uint8_t& progress(std::uint32_t stage, std::uint32_t unit) {
    return progress_[std::size_t(stage) * units_ + unit];
  }
  static std::uint8_t result(Op op) {
    return op == Op::forward           ? kForward
           : op == Op::input_gradient  ? kInput
           : op == Op::weight_gradient ? kWeight
                                       : kInput | kWeight;
  }
  bool local(std::uint32_t stage, std::uint32_t other) const { return ranks_[stage] == ranks_[other]; }

  void check_row(std::uint32_t rank) {
    const auto& row = sheet_.rows[rank];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      if (cell.kind != CellKind::compute) {
        check_message(rank, cell);
        continue;
      }
      const std::size_t last = cell.action.overlaps_next ? i + 1 : i;
      for (std::size_t k = i; k <= last; ++k) check_action(rank, row[k]);  // neither half of a pair enables the other
      for (;; ++i) {
        progress(row[i].action.stage, row[i].action.microbatch) |= result(row[i].action.op);
        if (i == last) break;
      }
    }
  }

  void check_action(std::uint32_t rank, const Cell& cell) {
    const auto [unit, stage, op, pair] = cell.action;
    const std::uint8_t now = progress(stage, unit);
    if (now & result(op)) {
      if (op == Op::forward || (now & kWeight && op != Op::input_gradient))
        fail(rank, cell, "its work has been done before on this rank");
      fail(rank, cell, "this gradient has run before on this rank");
    }
    const auto need = [&](bool there, const std::string& what) {
      if (!there) fail(rank, cell, fmt::format("comes before {} of the same rank; put it after that", what));
    };
    switch (op) {
      case Op::forward:
        if (!first_stage(stage)) {
          if (local(stage, stage - 1u))
            need(progress(stage - 1u, unit) & kForward, text(stage - 1u, unit, Op::forward));
          else if (sheet_.messages)
            need(now & kHasActivation, message_text(stage, "RECV_F", unit));
        }
        if (unit % sheet_.pieces != 0) need(progress(stage, unit - 1) & kForward, text(stage, unit - 1, op));
        break;
      case Op::input_gradient:
      case Op::backward:
        need(now & kForward, text(stage, unit, Op::forward));
        if (!last_stage(stage)) {
          if (local(stage, stage + 1u))
            need(progress(stage + 1u, unit) & kInput,
                 fmt::format("the backward of stage {} of micro-batch {}", stage + 1, number(unit)));
          else if (sheet_.messages)
            need(now & kHasGradient, message_text(stage, "RECV_B", unit));
        }
        if ((unit + 1) % sheet_.pieces != 0) need(progress(stage, unit + 1) & kInput, text(stage, unit + 1, op));
        break;
      case Op::weight_gradient:
        need(now & kInput, text(stage, unit, Op::input_gradient));
        break;
    }
  }
  std::string number(std::uint32_t unit) const { return sheet_.text({unit, 0, Op::forward}).substr(2); }

  void check_message(std::uint32_t rank, const Cell& cell) {
    std::uint8_t& now = progress(cell.action.stage, cell.action.microbatch);
    const auto once = [&](std::uint8_t bit) {
      if (now & bit) fail(rank, cell, "this message has been there before");
      now |= bit;
    };
    switch (cell.kind) {
      case CellKind::send_forward:
        if (!(now & kForward))
          fail(rank, cell, "sends the result of a forward that has not run yet; put it after that");
        return once(kSentActivation);
      case CellKind::send_backward:
        if (!(now & kInput)) fail(rank, cell, "sends the result of a backward that has not run yet; put it after that");
        return once(kSentGradient);
      case CellKind::receive_forward:
        if (now & kForward) fail(rank, cell, "comes after the forward that needs it; put it before that");
        return once(kHasActivation);
      case CellKind::receive_backward:
        if (now & kInput) fail(rank, cell, "comes after the backward that needs it; put it before that");
        return once(kHasGradient);
      case CellKind::compute:
        return;
    }
  }

  void check_complete() {
    for (std::uint32_t s = 0; s < problem_.stages(); ++s)
      for (std::uint32_t k = 0; k < units_; ++k) {
        const std::uint8_t now = progress(s, k);
        if (!(now & kInput)) missing(s, k, splits() ? Op::input_gradient : Op::backward);
        if (!(now & kWeight)) missing(s, k, Op::weight_gradient);
        if (!sheet_.messages) continue;
        const Location& end = sheet_.row_ends[ranks_[s]];
        if (!last_stage(s) && !local(s, s + 1) && !(now & kSentActivation))
          fail(end, fmt::format("rank {} ends without {}", ranks_[s], message_text(s, "SEND_F", k)));
        if (!first_stage(s) && !local(s, s - 1) && !(now & kSentGradient))
          fail(end, fmt::format("rank {} ends without {}", ranks_[s], message_text(s, "SEND_B", k)));
      }
  }
  bool splits() const {
    for (const auto& row : sheet_.rows)
      for (const Cell& cell : row)
        if (cell.kind == CellKind::compute &&
            (cell.action.op == Op::input_gradient || cell.action.op == Op::weight_gradient))
          return true;
    return false;
  }

  // --- all ranks together -------------------------------------------------------------------------------------------
  // Every rank runs as far as it can, again and again, until nothing moves.
  void check_deadlock() {
    std::fill(progress_.begin(), progress_.end(), std::uint8_t(0));
    std::vector<std::size_t> head(problem_.ranks);
    const auto blocked = [&](const Cell& cell) {
      const auto [unit, stage, op, pair] = cell.action;
      if (cell.kind != CellKind::compute || op == Op::weight_gradient) return false;
      if (op == Op::forward) return !first_stage(stage) && !(progress(stage - 1u, unit) & kForward);
      return !last_stage(stage) && !(progress(stage + 1u, unit) & kInput);
    };
    // A pair waits as a whole.
    const auto waits = [&](const std::vector<Cell>& row, std::size_t i) {
      return blocked(row[i]) || (row[i].action.overlaps_next && blocked(row[i + 1]));
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank) {
        const auto& row = sheet_.rows[rank];
        for (std::size_t& i = head[rank]; i < row.size() && !waits(row, i); moved = true)
          for (bool more = true; more; ++i) {
            more = row[i].kind == CellKind::compute && row[i].action.overlaps_next;
            if (row[i].kind == CellKind::compute)
              progress(row[i].action.stage, row[i].action.microbatch) |= result(row[i].action.op);
          }
      }
    }
    constexpr std::size_t kShown = 8;
    std::vector<Diagnostic> errors;
    for (std::uint32_t rank = 0; rank < problem_.ranks && errors.size() < kShown; ++rank) {
      const auto& row = sheet_.rows[rank];
      if (head[rank] == row.size()) continue;
      const Cell& cell = blocked(row[head[rank]]) ? row[head[rank]] : row[head[rank] + 1];
      errors.push_back({sheet_.at(cell), waiting_text(rank, cell, head)});
    }
    if (!errors.empty()) throw UserError(std::move(errors));
  }
  std::string waiting_text(std::uint32_t rank, const Cell& cell, const std::vector<std::size_t>& head) const {
    const std::uint32_t unit = cell.action.microbatch, stage = cell.action.stage;
    const Op op = cell.action.op;
    const std::uint32_t source = op == Op::forward ? stage - 1 : stage + 1, other = ranks_[source];
    const auto& row = sheet_.rows[other];
    const auto giver = std::find_if(row.begin(), row.end(), [&](const Cell& c) {
      return c.kind == CellKind::compute && c.action.stage == source && c.action.microbatch == unit &&
             (op == Op::forward ? c.action.op == Op::forward : (result(c.action.op) & kInput) != 0);
    });
    const Cell& stuck = row[head[other]];
    return fmt::format(
        "deadlock: {} ({}) waits for {} in {}, which rank {} runs only after {} in {}; move it forward there",
        sheet_.place(rank, cell), cell_text(cell), cell_text(*giver), where(other, *giver), other, cell_text(stuck),
        where(other, stuck));
  }

  // --- the result ---------------------------------------------------------------------------------------------------
  static Order walk(std::shared_ptr<const std::vector<std::vector<Action>>> rows, std::uint32_t rank) {
    for (const Action& action : (*rows)[rank]) co_yield action;
  }

  Imported finish(const std::string& name) {
    Imported result;
    result.ranks = problem_.ranks, result.chunks = problem_.chunks, result.microbatches = problem_.microbatches;
    if (sheet_.pieces > 1) result.pieces = sheet_.pieces;
    if (placement_ == Placement::listed) result.stage_ranks = ranks_;
    if (sheet_.messages)
      result.warnings.push_back("the SEND and RECV cells of " + sheet_.file +
                                " were checked and left out: every result is sent as soon as it is there");
    if (sheet_.sharding > 0)
      result.warnings.push_back(
          fmt::format("{} UNSHARD, RESHARD and REDUCE_GRAD cells of {} were left out: the schedule of a pipeline does "
                      "not hold them",
                      sheet_.sharding, sheet_.file));

    Schedule& schedule = result.schedule;
    schedule.name = name;
    schedule.summary = "An order read from " + sheet_.file + ".";
    schedule.placement = placement_;
    schedule.min_chunks = schedule.max_chunks = problem_.chunks;
    schedule.splits_backward = splits();
    schedule.cuts_sequences = sheet_.pieces > 1;
    schedule.check = [name, own = problem_, pieces = sheet_.pieces](const Problem& asked) {
      const auto same = [&](const char* what, std::uint32_t of_file, std::uint32_t found) {
        if (of_file != found)
          throw UserError(fmt::format("schedule {}: the file is for {} {}, not {}; set {} to {}", name, of_file, what,
                                      found,
                                      what[0] == 'r'   ? "pipeline"
                                      : what[0] == 'm' ? "microbatches"
                                                       : "pieces",
                                      of_file));
      };
      same("ranks", own.ranks, asked.ranks);
      same("micro-batches", own.microbatches, asked.microbatches);
      if (pieces > 1) same("pieces", pieces, asked.pieces.value_or(kUsualPieces));
    };
    const auto rows = std::make_shared<std::vector<std::vector<Action>>>(problem_.ranks);
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
      for (const Cell& cell : sheet_.rows[rank])
        if (cell.kind == CellKind::compute) (*rows)[rank].push_back(cell.action);
    schedule.order = [rows = std::shared_ptr<const std::vector<std::vector<Action>>>(rows)](
                         const Problem&, std::uint32_t rank) { return walk(rows, rank); };
    return result;
  }

  Sheet sheet_;
  Problem problem_;  // only its sizes
  Placement placement_ = Placement::loop;
  std::vector<std::uint32_t> ranks_;  // of the stages
  std::uint32_t units_ = 0;           // of every stage: micro-batches, or pieces of them
  std::vector<std::uint8_t> progress_;
};

}  // namespace

Imported import_csv(std::string_view text, const std::string& file, const std::string& name) {
  return Importer(read_cells(text, file)).run(name);
}

}  // namespace rehearsal::schedule
