// From the cells of a file to a Schedule: which rank holds which stage, how many micro-batches there are, and whether
// the order can run. Every check has its own words and its place in the file; the walk that all schedules share knows
// neither.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "schedule/csv.hpp"
#include "schedule/csv_cells.hpp"
#include "schedule/text.hpp"

namespace rehearsal::schedule {
namespace {

class Importer {
 public:
  explicit Importer(Sheet sheet)
      : sheet_(std::move(sheet)), messages_(sheet_.find([](const Cell& cell) { return cell.kind != kCompute; })) {}

  Imported run(const std::string& name) {
    place_stages();
    count_chunks();
    recognise_placement();
    count_microbatches();
    progress_.assign(std::size_t(problem_.stages()) * units_, 0);
    check_rows();
    check_complete();
    check_deadlock();
    return finish(name);
  }

 private:
  [[noreturn]] void fail(const Location& where, std::string message) const {
    throw UserError(std::vector{Diagnostic{where, std::move(message)}});
  }
  [[noreturn]] void fail(const Cell& cell, const std::string& why) const {
    fail(sheet_.at(cell), fmt::format("{}: {}", described(cell), why));
  }
  std::string place(const Cell& cell) const { return fmt::format("rank {}, cell {}", cell.rank, cell.index); }
  std::string where(const Cell& cell) const {
    return fmt::format("{} (line {}, column {})", place(cell), cell.line, cell.column);
  }
  std::string described(const Cell& cell) const { return fmt::format("{} ({})", place(cell), cell_text(cell)); }
  std::string cell_text(const Cell& cell) const {
    const auto [unit, stage, op, pair] = cell.action;
    return cell.kind == kCompute ? text(stage, unit, op) : message_text(stage, cell.kind, unit);
  }
  std::string message_text(std::uint32_t stage, CellKind kind, std::uint32_t unit) const {
    return fmt::format("{}{}{}", stage, kMessages[kind], number(unit));
  }
  std::string text(std::uint32_t stage, std::uint32_t unit, Op op) const {
    std::string text;
    RowText(sheet_.pieces).append(text, {unit, static_cast<std::uint16_t>(stage), op});
    return text;
  }
  std::string number(std::uint32_t unit) const { return text(0, unit, Op::forward).substr(2); }

  // --- where the stages lie -----------------------------------------------------------------------------------------
  void place_stages() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> cells;  // (stage, rank)
    problem_.ranks = static_cast<std::uint32_t>(sheet_.row_ends.size());
    if (problem_.ranks > kMaxStages)
      fail(sheet_.row_ends[kMaxStages],
           fmt::format("this is rank {}, but a file may have at most {} ranks", kMaxStages, kMaxStages));
    for (const Cell& cell : sheet_.cells) ++cells[{cell.action.stage, cell.rank}];
    if (cells.empty()) fail(sheet_.row_ends.at(0), "the file has no forward and no backward; write cells such as 0F0");
    // The rank that names a stage most often holds it: one slip does not move a stage.
    constexpr std::uint32_t kNowhere = UINT32_MAX;
    ranks_.assign(std::size_t(cells.rbegin()->first.first) + 1, kNowhere);
    std::vector<std::uint64_t> most(ranks_.size());
    for (const auto& [key, n] : cells)
      if (n > most[key.first]) most[key.first] = n, ranks_[key.first] = key.second;
    const auto gap = std::find(ranks_.begin(), ranks_.end(), kNowhere) - ranks_.begin();
    for (const Cell& cell : sheet_.cells) {
      const std::uint32_t stage = cell.action.stage;
      if (ranks_[stage] != cell.rank)
        fail(cell, fmt::format("stage {} is on rank {}, and only that rank may run it", stage, ranks_[stage]));
      if (gap < stage) fail(cell, fmt::format("there is no stage {}; stages are numbered from 0 without gaps", gap));
    }
  }

  void count_chunks() {
    std::vector<std::uint32_t> held(problem_.ranks);
    for (const std::uint32_t rank : ranks_) ++held[rank];
    for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
      if (held[rank] != held[0] || held[rank] == 0)
        fail({sheet_.file, sheet_.row_ends[rank].line, 1},
             fmt::format("rank {} has {} stage{}, but rank 0 has {}; every rank must have the same number", rank,
                         held[rank], held[rank] == 1 ? "" : "s", held[0]));
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
  // A V and two directions lie on the same ranks. In a V, stage p of the last rank follows stage p-1 forwards and
  // precedes it backwards; in two directions it starts one chain while stage p-1 ends the other.
  bool two_directions() const {
    const auto first = [&](bool forward) -> std::int64_t {
      const Cell* const cell = sheet_.find([&](const Cell& c) {
        return c.rank == problem_.ranks - 1 && c.kind == kCompute && (c.action.op == Op::forward) == forward;
      });
      return cell ? cell->action.stage : -1;
    };
    return first(true) == problem_.ranks && first(false) == problem_.ranks - 1;
  }

  // The stage whose forward the forward of a stage waits for, or whose gradient its gradient.
  std::optional<std::uint32_t> source(std::uint32_t stage, bool forward) const {
    if ((forward ? first_of_chain : last_of_chain)(placement_, problem_, stage)) return std::nullopt;
    return forward ? stage - 1 : stage + 1;
  }

  // --- how many micro-batches ---------------------------------------------------------------------------------------
  void count_microbatches() {
    std::vector<const Cell*> forwards;
    for (const Cell& cell : sheet_.cells)
      if (cell.is(Op::forward)) forwards.push_back(&cell);
    const auto key = [](const Cell* cell) { return std::pair(cell->action.stage, cell->action.microbatch); };
    std::stable_sort(forwards.begin(), forwards.end(), [&](auto a, auto b) { return key(a) < key(b); });
    std::vector<std::uint32_t> count(ranks_.size());
    for (std::size_t i = 0; i < forwards.size(); ++i) {
      if (i > 0 && key(forwards[i]) == key(forwards[i - 1]))
        fail(*forwards[i], "already runs in " + where(*forwards[i - 1]));
      units_ = std::max(units_, ++count[forwards[i]->action.stage]);
    }
    if (units_ == 0) fail({sheet_.file, 1, 1}, "the file has no forward");
    if (const auto cell = sheet_.find([&](const Cell& c) { return c.action.microbatch >= units_; }))
      fail(*cell, fmt::format("there is no such micro-batch: each stage has {} forwards, so the last one is {}", units_,
                              number(units_ - 1)));
    // From here on units x stages is at most the number of cells.
    auto next = forwards.begin();
    for (std::uint32_t s = 0; s < ranks_.size(); ++s)
      for (std::uint32_t unit = 0; unit < units_; ++unit, ++next)
        if (next == forwards.end() || key(*next) != std::pair(std::uint16_t(s), unit))
          missing(s, text(s, unit, Op::forward));
    if (units_ % sheet_.pieces != 0)
      fail({sheet_.file, 1, 1},
           fmt::format("a stage has {} forwards, which is not a whole number of micro-batches of {} pieces", units_,
                       sheet_.pieces));
    problem_.microbatches = units_ / sheet_.pieces * (placement_ == Placement::bidirectional ? 2 : 1);
  }
  [[noreturn]] void missing(std::uint32_t stage, const std::string& what) const {
    fail(sheet_.row_ends[ranks_[stage]], fmt::format("rank {} ends without {}", ranks_[stage], what));
  }

  // --- each rank for itself -----------------------------------------------------------------------------------------
  enum : std::uint8_t { kForward = 1, kInput = 2, kWeight = 4 };  // and a bit for each kind of message
  static std::uint8_t seen(CellKind message) { return std::uint8_t(8 << message); }
  static std::uint8_t handed_on(bool forward) { return forward ? kForward : kInput; }
  static std::uint8_t result(Op op) {
    constexpr std::uint8_t kResult[]{kForward, kInput, kWeight, kInput | kWeight};
    return kResult[std::size_t(op)];
  }
  std::uint8_t& progress(std::uint32_t stage, std::uint32_t unit) {
    return progress_[std::size_t(stage) * units_ + unit];
  }
  std::uint8_t& progress(const Cell& cell) { return progress(cell.action.stage, cell.action.microbatch); }

  void check_rows() {
    for (std::size_t i = 0; i < sheet_.cells.size();) {
      const Cell *const cell = &sheet_.cells[i], *const end = cell + block(i);
      // Neither of a pair helps the other to start.
      for (auto c = cell; c != end; ++c) c->kind == kCompute ? check_action(*c) : check_message(*c);
      for (auto c = cell; c != end; ++c, ++i) done(*c);
    }
  }
  // How many cells from this one on run as one block.
  std::size_t block(std::size_t i) const { return sheet_.cells[i].action.overlaps_next ? 2 : 1; }
  void done(const Cell& cell) {
    if (cell.kind == kCompute) progress(cell) |= result(cell.action.op);
  }

  void check_action(const Cell& cell) {
    const auto [unit, stage, op, pair] = cell.action;
    const bool forward = op == Op::forward;
    const std::uint8_t now = progress(cell);
    if (now & result(op))
      fail(cell, forward || (now & kWeight && op != Op::input_gradient)
                     ? "this work is already done on this rank"
                     : "this gradient is already computed on this rank");
    const auto need = [&](bool there, const std::string& what) {
      if (!there) fail(cell, fmt::format("runs before {} on the same rank; put it after that", what));
    };
    if (op == Op::weight_gradient) return need(now & kInput, text(stage, unit, Op::input_gradient));
    if (!forward) need(now & kForward, text(stage, unit, Op::forward));
    if (const auto other = source(stage, forward)) {
      const CellKind message = forward ? kReceiveForward : kReceiveBackward;
      if (ranks_[*other] == cell.rank)
        need(progress(*other, unit) & handed_on(forward),
             forward ? text(*other, unit, op)
                     : fmt::format("the backward of stage {} of micro-batch {}", *other, number(unit)));
      else if (messages_)
        need(now & seen(message), message_text(stage, message, unit));
    }
    if ((forward ? unit : unit + 1) % sheet_.pieces == 0) return;
    const std::uint32_t before = forward ? unit - 1 : unit + 1;
    need(progress(stage, before) & handed_on(forward), text(stage, before, op));
  }

  void check_message(const Cell& cell) {
    std::uint8_t& now = progress(cell);
    const char* const what = of_forward(cell.kind) ? "forward" : "backward";
    const bool there = now & handed_on(of_forward(cell.kind));
    if (sends(cell.kind) && !there)
      fail(cell, fmt::format("sends the result of a {} that has not run yet; put it after that", what));
    if (!sends(cell.kind) && there)
      fail(cell, fmt::format("comes after the {} that needs it; put it before that", what));
    if (now & seen(cell.kind)) fail(cell, "this message is already listed on this rank");
    now |= seen(cell.kind);
  }

  void check_complete() {
    for (std::uint32_t s = 0; s < problem_.stages(); ++s)
      for (std::uint32_t k = 0; k < units_; ++k) {
        const std::uint8_t now = progress(s, k);
        if (!(now & kInput)) missing(s, text(s, k, splits() ? Op::input_gradient : Op::backward));
        if (!(now & kWeight)) missing(s, text(s, k, Op::weight_gradient));
        for (const CellKind kind : {kSendForward, kSendBackward}) {
          const auto reader = source(s, !of_forward(kind));
          if (messages_ && reader && ranks_[*reader] != ranks_[s] && !(now & seen(kind)))
            missing(s, message_text(s, kind, k));
        }
      }
  }
  bool splits() const {
    return sheet_.find([](const Cell& cell) { return cell.is(Op::input_gradient) || cell.is(Op::weight_gradient); });
  }

  // --- all ranks together -------------------------------------------------------------------------------------------
  bool blocked(const Cell& cell) {
    if (cell.kind != kCompute || cell.action.op == Op::weight_gradient) return false;
    const bool forward = cell.action.op == Op::forward;
    const auto other = source(cell.action.stage, forward);
    return other && !(progress(*other, cell.action.microbatch) & handed_on(forward));
  }
  // Every rank runs as far as it can, again and again, until nothing moves. A pair waits as a whole.
  void check_deadlock() {
    const auto& cells = sheet_.cells;
    std::fill(progress_.begin(), progress_.end(), std::uint8_t(0));
    std::vector<std::size_t> head(sheet_.begin.begin(), sheet_.begin.end() - 1);  // of each rank: its next cell
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < problem_.ranks; ++rank)
        for (std::size_t& i = head[rank]; i < sheet_.begin[rank + 1]; moved = true) {
          const std::size_t end = i + block(i);
          if (blocked(cells[i]) || blocked(cells[end - 1])) break;
          for (; i < end; ++i) done(cells[i]);
        }
    }
    constexpr std::size_t kShown = 8;
    std::vector<Diagnostic> errors;
    for (std::uint32_t rank = 0; rank < problem_.ranks && errors.size() < kShown; ++rank) {
      if (head[rank] == sheet_.begin[rank + 1]) continue;
      const Cell& cell = cells[blocked(cells[head[rank]]) ? head[rank] : head[rank] + 1];
      errors.push_back({sheet_.at(cell), waiting_text(cell, head)});
    }
    if (!errors.empty()) throw UserError(std::move(errors));
  }
  std::string waiting_text(const Cell& cell, const std::vector<std::size_t>& head) const {
    const bool forward = cell.action.op == Op::forward;
    const std::uint32_t other = *source(cell.action.stage, forward), rank = ranks_[other];
    const Cell& giver = *sheet_.find([&](const Cell& c) {
      return c.kind == kCompute && c.action.stage == other && c.action.microbatch == cell.action.microbatch &&
             (result(c.action.op) & handed_on(forward));
    });
    const Cell& stuck = sheet_.cells[head[rank]];
    return fmt::format("deadlock: {} waits for {} in {}, which rank {} runs only after {} in {}; move it forward there",
                       described(cell), cell_text(giver), where(giver), rank, cell_text(stuck), where(stuck));
  }

  // --- the result ---------------------------------------------------------------------------------------------------
  using Rows = std::vector<std::vector<Action>>;
  static Order walk(std::shared_ptr<const Rows> rows, std::uint32_t rank) {
    for (const Action& action : (*rows)[rank]) co_yield action;
  }

  Imported finish(const std::string& name) const {
    Imported result;
    result.ranks = problem_.ranks, result.chunks = problem_.chunks, result.microbatches = problem_.microbatches;
    if (sheet_.pieces > 1) result.pieces = sheet_.pieces;
    if (placement_ == Placement::listed) result.stage_ranks = ranks_;
    if (messages_)
      result.warnings.push_back("the SEND and RECV cells of " + sheet_.file +
                                " were checked and left out: every result is sent as soon as it is ready");
    if (sheet_.sharding > 0)
      result.warnings.push_back(fmt::format(
          "{} UNSHARD, RESHARD and REDUCE_GRAD cells of {} were left out: they are not part of a pipeline schedule",
          sheet_.sharding, sheet_.file));

    Schedule& schedule = result.schedule;
    schedule.name = name;
    schedule.summary = "An order read from " + sheet_.file + ".";
    schedule.placement = placement_;
    schedule.min_chunks = schedule.max_chunks = problem_.chunks;
    schedule.splits_backward = splits();
    schedule.cuts_sequences = sheet_.pieces > 1;
    schedule.check = [name, own = problem_, pieces = sheet_.pieces](const Problem& asked) {
      const auto same = [&](const char* what, const char* key, std::uint32_t of_file, std::uint32_t found) {
        if (of_file != found)
          throw UserError(fmt::format("schedule {}: the file is for {} {}, not {}; set {} to {}", name, of_file, what,
                                      found, key, of_file));
      };
      same("ranks", "pipeline", own.ranks, asked.ranks);
      same("micro-batches", "microbatches", own.microbatches, asked.microbatches);
      if (pieces > 1) same("pieces", "pieces", pieces, asked.pieces.value_or(kUsualPieces));
    };
    const auto rows = std::make_shared<Rows>(problem_.ranks);
    for (const Cell& cell : sheet_.cells)
      if (cell.kind == kCompute) (*rows)[cell.rank].push_back(cell.action);
    schedule.order = [rows](const Problem&, std::uint32_t rank) { return walk(rows, rank); };
    return result;
  }

  Sheet sheet_;
  bool messages_;    // has any SEND or RECV
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
