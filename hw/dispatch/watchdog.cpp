#include "dispatch/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dispatch/issue.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointKind;

constexpr std::size_t kShown = 32;  // per part of a report

// Derives from positions alone which tasks have passed and which are at the head of their lane.
class Standing {
 public:
  Standing(const graph::TaskGraph& graph, std::span<const Positions> ranks) : graph_(graph) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const graph::Program& program = graph.program_of(graph.ranks()[r]);
      std::vector<char>& passed = passed_.emplace_back(program.size(), 0);
      std::vector<LocalTask>& heads = heads_.emplace_back();
      const auto lists = issue_lists(program);
      for (std::size_t l = 0; l < lists.size(); ++l) {
        const std::size_t at = l < ranks[r].size() ? ranks[r][l] : 0;
        for (std::size_t i = 0; i < at; ++i) passed[lists[l].tasks[i].index()] = 1;
        if (at < lists[l].tasks.size()) heads.push_back(lists[l].tasks[at]);
      }
    }
  }

  // One line per head that is ready on its own rank and waits for another.
  std::vector<std::string> unmatched() const {
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < heads_.size(); ++r)
      for (LocalTask task : heads_[r]) {
        const graph::Program& program = graph_.program_of(graph_.ranks()[r]);
        const std::uint32_t endpoint = program.endpoint[task.index()];
        if (endpoint == graph::kNoEndpoint || !posted(RankId(r), task)) continue;
        const std::string what = fmt::format("  rank {}: {} waits for ", r, graph_.label(RankId(r), task));
        lines.push_back(what + (program.endpoints[endpoint] == EndpointKind::group
                                    ? missing_members(graph_.meeting(RankId(r), task).value())
                                    : far_end(RankId(r), task, program.endpoints[endpoint])));
      }
    return lines;
  }

 private:
  bool passed(RankId rank, LocalTask task) const { return passed_[rank.index()][task.index()] != 0; }
  // The task heads its lane and its dependencies are done, so only another rank can hold it up.
  bool posted(RankId rank, LocalTask task) const {
    const auto& heads = heads_[rank.index()];
    if (std::find(heads.begin(), heads.end(), task) == heads.end()) return false;
    const graph::Program& program = graph_.program_of(graph_.ranks()[rank.index()]);
    return std::ranges::all_of(program.dependencies[task.index()],
                               [&](LocalTask before) { return passed(rank, before); });
  }

  std::string far_end(RankId rank, LocalTask task, EndpointKind kind) const {
    const TaskId partner = graph_.partner(rank, task);
    const RankId peer = graph_.rank_of(partner);
    const LocalTask theirs = graph_.local(partner);
    const std::string who = fmt::format("rank {}: {}, ", peer.value, graph_.label(peer, theirs));
    if (!passed(peer, theirs)) return who + "which is not posted";
    return who + (kind == EndpointKind::receive ? "which that rank has passed, but nothing arrived"
                                                : "which that rank has passed");
  }

  std::string missing_members(const graph::Meeting& meeting) const {
    std::vector<std::uint32_t> missing;
    bool left_out = false;
    for (const auto [rank, task] : meeting) {
      left_out |= passed(rank, task);
      if (passed(rank, task) || !posted(rank, task)) missing.push_back(rank.value);
    }
    return fmt::format("member{} {} of group '{}', use {}{}", missing.size() == 1 ? "" : "s",
                       missing.empty() ? "(all have joined)" : fmt::format("{}", fmt::join(missing, ", ")),
                       name(meeting.group().axes), meeting.use(),
                       left_out ? "; some have passed it without joining" : "");
  }

  const graph::TaskGraph& graph_;
  std::vector<std::vector<char>> passed_;      // per rank and task
  std::vector<std::vector<LocalTask>> heads_;  // per rank
};

std::string show_some(std::vector<std::string> lines, const char* noun) {
  const std::size_t more = lines.size() > kShown ? lines.size() - kShown : 0;
  if (more > 0) {
    lines.resize(kShown);
    lines.push_back(fmt::format("  and {} more {}", more, noun));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

bool Watchdog::expired(std::span<const Progress* const> ranks, Time now) {
  std::uint64_t moves = 0;
  for (const Progress* rank : ranks) moves += rank->moves;
  if (moves != moves_ || last_move_ == Time(INT64_MIN)) moves_ = moves, last_move_ = now;
  for (const Progress* rank : ranks) {
    if (rank->computing) last_move_ = std::max(last_move_, now);
    last_move_ = std::max(last_move_, Time(rank->busy_until));
  }
  return now - last_move_ >= timeout_;
}

Positions positions(const Progress& progress) { return {progress.heads.begin(), progress.heads.end()}; }

std::vector<std::string> heads(const graph::TaskGraph& graph, RankId rank, const Positions& at) {
  std::vector<std::string> lines;
  const auto lists = issue_lists(graph.program_of(graph.ranks()[rank.index()]));
  for (std::size_t l = 0; l < std::min(lists.size(), at.size()); ++l)
    if (at[l] < lists[l].tasks.size())
      lines.push_back(fmt::format("  rank {}, lane {}, at {} ({} of {} done)", rank.value, graph::name(lists[l].lane),
                                  graph.label(rank, lists[l].tasks[at[l]]), at[l], lists[l].tasks.size()));
  return lines;
}

std::string hang_report(const graph::TaskGraph& graph, std::span<const Positions> ranks) {
  std::vector<std::string> lines;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (std::string& line : heads(graph, RankId(r), ranks[r])) lines.push_back(std::move(line));
  std::string text = "the lanes stand at:\n" + show_some(std::move(lines), "lanes");
  auto unmatched = Standing(graph, ranks).unmatched();
  if (!unmatched.empty()) text += "\nunmatched:\n" + show_some(std::move(unmatched), "of these");
  return text;
}

}  // namespace rehearsal::dispatch
