// The lanes of all ranks over time, as boxes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "page/grid.hpp"
#include "report/picture.hpp"
#include "report/run_page.hpp"
#include "timeline/split.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using graph::Lane;

// With more ranks than the first number, or more boxes than kMostBoxes, ranks in the middle are left out.
constexpr std::uint32_t kMostRanks = 32, kFewestRanks = 4;
constexpr std::size_t kMostDrawn = 24'000;
constexpr std::size_t kMostBoxes = 12'000;  // beyond it, consecutive tasks of one pass and micro-batch are merged

// Collectives look the same on whichever lane they run: that of computing, if it waits for them.
char kind_of(const graph::Work& work, Lane lane, graph::Pass pass) {
  switch (timeline::category_of(work, pass, lane)) {
    case graph::Category::tensor_comm:
      return 'T';
    case graph::Category::data_comm:
      return 'D';
    case graph::Category::context_comm:
      return 'C';
    case graph::Category::expert_comm:
      return 'E';
    default:
      return letter_of(lane, pass);
  }
}

class Boxes {
 public:
  Boxes(const Result& answer, std::uint32_t most_ranks) : answer_(answer), graph_(answer.graph()) {
    const auto fold = elided_rows(std::uint32_t(graph_.ranks().size()), most_ranks);
    for (std::uint32_t r = 0; r < graph_.ranks().size(); ++r)
      if (!fold.hidden || r < fold.first || r >= fold.first + fold.hidden) shown_.push_back(r);
    hidden_ = fold.hidden;
    std::size_t tasks = 0;
    for (const auto r : shown_) tasks += graph_.program_of(graph_.ranks()[r]).size();
    folds_ = tasks > kMostBoxes;
  }

  Block run() {
    for (const auto r : shown_) rank(r);
    wait_and_path();
    if (answer_.scenario().optimizer_sync.post_validation) next_iteration();
    drawing_.title = answer_.scenario().name, drawing_.subtitle = "who works when";
    Block timed{"", Timeline{std::move(drawing_)}, "timeline"};
    if (hidden_) timed.note += fmt::format("{} ranks in the middle are left out. ", hidden_);
    if (folds_)
      timed.note +=
          "Tasks of one pass and micro-batch that follow each other are drawn as one; a trace (--trace) has "
          "all of them. ";
    return timed;
  }

 private:
  void rank(std::uint32_t r) {
    const auto& rank = graph_.ranks()[r];
    const auto& program = graph_.program_of(rank);
    std::array<std::uint32_t, graph::kLanes> row;
    row.fill(kNoBox);
    // Receiving takes no time of its own: a message is drawn on the sender's lane.
    for (std::size_t lane = 0; lane < graph::kLanes; ++lane) {
      const auto l = static_cast<Lane>(lane);
      if (graph::info(l).kind == graph::LaneKind::receives) continue;
      if (std::find(program.lane.begin(), program.lane.end(), l) == program.lane.end()) continue;
      row[lane] = drawing_.rows++;
      const auto of = rank.multiplicity > 1 ? fmt::format(" x {}", rank.multiplicity) : "";
      drawing_.row_names.push_back(l == Lane::compute ? fmt::format("rank {}{}", rank.job_rank, of)
                                                      : std::string(graph::name(l)));
      drawing_.slim.push_back(l != Lane::compute);
    }
    std::array<std::size_t, graph::kLanes> open;  // the box being extended
    open.fill(kNoBox);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto lane = static_cast<std::size_t>(program.lane[i]);
      const auto task = rank.first_task + i;
      const Time start = answer_.timeline.start[task], end = answer_.timeline.end[task];
      if (row[lane] == kNoBox || start == end) continue;
      const auto& at = program.coordinates[i];
      // Where tasks are folded, a collective within a pass is part of it.
      const char kind = folds_ ? letter_of(program.lane[i], at.pass)
                               : kind_of(graph_.work(program.work[i]), program.lane[i], at.pass);
      if (folds_ && open[lane] != kNoBox) {
        auto& box = drawing_.boxes[open[lane]];
        if (box.kind == kind && like_[open[lane]] == at.microbatch && box.end == start) {
          box.end = end;
          box_of_[task] = std::uint32_t(open[lane]);
          continue;
        }
      }
      open[lane] = drawing_.boxes.size();
      box_of_[task] = std::uint32_t(open[lane]);
      SvgBox box;
      box.row = row[lane], box.start = start, box.end = end, box.kind = kind;
      if (at.microbatch != graph::kNoMicrobatch) box.label = std::to_string(at.microbatch);
      box.what = words_of(program, i);
      drawing_.boxes.push_back(std::move(box));
      like_.push_back(at.microbatch);
      first_.push_back(task);
    }
  }

  // "forward #, stage 2, layer 5: gemm 2048x12288x1536 bf16"; the script replaces '#' by the micro-batch.
  std::uint32_t words_of(const graph::Program& program, std::size_t i) {
    const auto& at = program.coordinates[i];
    const bool send = graph::is_send(program.lane[i]);
    auto words = fmt::format("{}{}{}, stage {}", send ? "message of " : "", graph::name(at.pass),
                             at.microbatch == graph::kNoMicrobatch ? "" : " #", at.stage);
    if (!folds_) {
      if (at.layer != graph::kNoLayer) words += fmt::format(", layer {}", at.layer);
      words += ": " + graph::describe(graph_.work(program.work[i]));
    }
    const auto [found, fresh] = known_.try_emplace(words, std::uint32_t(drawing_.words.size()));
    if (fresh) drawing_.words.push_back(words);
    return found->second;
  }

  void wait_and_path() {
    // Skips predecessors without duration, such as receiving, to the one that takes time.
    const auto before = timeline::awaited(graph_, answer_.timeline);
    for (std::size_t b = 0; b < first_.size(); ++b) {
      auto task = before[first_[b]];
      while (task && !box_of_.contains(task->value)) task = before[task->index()];
      if (task) drawing_.boxes[b].after = box_of_.at(task->value);
    }
    for (const auto& step : timeline::critical_path(graph_, answer_.timeline))
      if (const auto found = box_of_.find(step.task.value); found != box_of_.end())
        drawing_.boxes[found->second].critical = true;
  }

  // Without a barrier between them iterations overlap, which one of them does not show.
  void next_iteration() {
    const auto boxes = std::uint32_t(drawing_.boxes.size());
    for (std::uint32_t b = 0; b < boxes; ++b) {
      auto box = drawing_.boxes[b];
      box.start += answer_.summary.iteration, box.end += answer_.summary.iteration;
      box.chunk = 1, box.critical = false;
      if (box.after != kNoBox) box.after += boxes;
      drawing_.boxes.push_back(std::move(box));
    }
    drawing_.chunks = 2, drawing_.tints = "an iteration, and the next, which does not wait for its end";
  }

  const Result& answer_;
  const graph::TaskGraph& graph_;
  std::vector<std::uint32_t> shown_;  // ranks of the graph
  std::uint32_t hidden_ = 0;
  bool folds_ = false;
  page::Drawing drawing_;
  std::map<std::uint64_t, std::uint32_t> box_of_;  // by task
  std::vector<std::uint64_t> first_;               // first task of each box
  std::vector<std::uint32_t> like_;                // micro-batch of each box
  std::map<std::string, std::uint32_t> known_;
};

}  // namespace

Block timed(const Result& answer) {
  for (auto ranks = kMostRanks;; ranks /= 2) {
    auto timed = Boxes(answer, ranks).run();
    if (std::get<Timeline>(timed.content).drawing.boxes.size() <= kMostDrawn || ranks <= kFewestRanks) return timed;
  }
}

}  // namespace rehearsal::report
