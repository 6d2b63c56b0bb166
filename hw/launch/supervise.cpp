#include "launch/supervise.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "dispatch/clock.hpp"
#include "launch/launcher.hpp"
#include "launch/run_folder.hpp"

namespace rehearsal::launch {
namespace {

constexpr std::string_view kError = "error: ";  // prefixed by the class of the error
const Time kWait = seconds(20e-3);
const Time kToExplain = seconds(5);
constexpr std::size_t kNamed = 8;  // ranks in a sentence

// Throws the ranks' errors: those of the machine and the user as such, all others as bugs.
void rethrow(const std::vector<std::optional<std::string>>& errors) {
  std::string text, first;
  int worst = 0, count = 0;
  bool same = true;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank]) continue;
    const std::string what = message(*errors[rank]);
    worst = std::max(worst, status(*errors[rank]));
    if (count++ == 0) first = what;
    same &= what == first;
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "\n", rank, what);
  }
  if (count == 0) return;
  if (same && count > 1) text = first;
  if (worst == 2) throw UserError(text.substr(text.starts_with(kError) ? kError.size() : 0));
  if (worst == 3) throw MachineError(text);
  throw InternalError(text);
}

class Running {
 public:
  explicit Running(const Job& job)
      : job_(job), folder_(RunFolder::make()), board_(folder_.board(), job.ranks, true), launcher_(start()) {}

  std::vector<std::string> results() {
    while (!launcher_->ended()) {
      launcher_->wait(kWait);
      if (const auto signal = signals_.ending())
        throw Interrupted{*signal, fmt::format("{} ranks were ended", job_.ranks)};
      watch();
      if (job_.progress) job_.progress(iterations());
    }
    return collect();
  }

 private:
  std::unique_ptr<Launcher> start() {
    const Start how{job_.ranks, job_.nodes, job_.arguments, folder_, board_, signals_};
    return job_.starter == Starter::fork ? start_by_fork(how) : start_with_mpirun(how);
  }

  // A rank that ended without a result: others wait for it in vain, and are about to be ended.
  std::optional<std::size_t> dead() {
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) {
      const Slot& slot = board_[rank];
      if (folder_.read(rank, Leaf::error)) return rank;
      if (slot.pid > 0 && slot.state != Slot::finished && kill(slot.pid, 0) != 0) return rank;
    }
    return std::nullopt;
  }

  // Of the rank with the fewest ended iterations.
  int iterations() const {
    std::uint32_t fewest = UINT32_MAX;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) fewest = std::min(fewest, board_[rank].iterations.load());
    return static_cast<int>(fewest);
  }

  // Throws when there is no more progress.
  void watch() {
    bool all_run = true, all_done = true;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) {
      const Slot& slot = board_[rank];
      seen_[rank].moves = slot.moves + static_cast<std::uint64_t>(slot.state.load());
      seen_[rank].busy_until = slot.busy_until.load();
      seen_[rank].computing = slot.computing != 0;
      all_run &= slot.state >= Slot::running;
      all_done &= slot.state == Slot::finished;
    }
    const Time now = dispatch::now();
    const bool expired = running_.expired(watched_, now), start_expired = starting_.expired(watched_, now);
    if (!(all_run ? expired : start_expired)) return;
    if (dead_ || (dead_ = dead())) {
      // A rank that died without a report: the launcher will say how, on a busy machine with some delay.
      if (dead_since_ == Time{}) dead_since_ = now;
      if (folder_.read(*dead_, Leaf::error) || now - dead_since_ > kToExplain) launcher_->end();
      return;
    }
    if (all_done)
      throw MachineError(launcher_->name() + " does not end although all ranks have finished" + launcher_->said());
    if (!all_run)
      throw MachineError(fmt::format("{} not started within {}{}{}", waiting(), show(job_.timeout),
                                     launcher_->silent_hosts(), launcher_->said()));
    std::vector<dispatch::Positions> positions(job_.ranks);
    for (std::size_t rank = 0; rank < job_.ranks; ++rank)
      for (std::uint32_t lane = 0; lane < std::min<std::uint32_t>(board_[rank].lanes, graph::kLanes); ++lane)
        positions[rank].push_back(board_[rank].heads[lane]);
    const std::string hosts = board_.hosts();
    throw MachineError((job_.hang_report ? job_.hang_report(positions) : "the ranks make no progress") +
                       (hosts.empty() ? "" : "; " + hosts));
  }

  // Those for whom the others wait, with their hosts: the ranks that are not there or, if all are, that do not begin.
  std::string waiting() {
    std::int32_t least = Slot::finished;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) least = std::min(least, board_[rank].state.load());
    std::vector<std::string> all;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank)
      if (board_[rank].state == least) all.push_back(fmt::format("rank {}{}", rank, launcher_->on_host(rank)));
    const auto more = all.size() > kNamed ? all.size() - kNamed : 0;
    all.resize(all.size() - more);
    return fmt::format("{}{} {}", fmt::join(all, ", "), more ? fmt::format(" and {} more", more) : "",
                       all.size() == 1 ? "has" : "have");
  }

  std::vector<std::string> collect() {
    std::vector<std::optional<std::string>> errors;
    std::vector<std::string> results;
    std::string missing;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) {
      errors.push_back(folder_.read(rank, Leaf::error));
      if (auto result = folder_.read(rank, Leaf::result))
        results.push_back(std::move(*result));
      else
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    }
    rethrow(errors);
    const auto died = launcher_->who_died(), failed = launcher_->failure();
    if (!died && !failed && missing.empty()) return results;
    if (died) throw MachineError(*died);
    if (dead_) throw MachineError(fmt::format("rank {} ({}) died", *dead_, board_.process(*dead_)));
    if (failed) throw MachineError(*failed + launcher_->said());
    throw MachineError(fmt::format("ranks {} ended without a result{}", missing, launcher_->said()));
  }

  const Job& job_;
  // In this order: the signals are held until everything else is destroyed.
  HeldSignals signals_;
  RunFolder folder_;
  Board board_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<dispatch::Progress> seen_{job_.ranks};
  std::optional<std::size_t> dead_;
  Time dead_since_;
  std::vector<const dispatch::Progress*> watched_ = pointers();
  dispatch::Watchdog running_{job_.timeout}, starting_{job_.timeout};

  std::vector<const dispatch::Progress*> pointers() const {
    std::vector<const dispatch::Progress*> list;
    for (const auto& progress : seen_) list.push_back(&progress);
    return list;
  }
};

}  // namespace

std::vector<std::string> run_ranks(const Job& job) {
  Running running(job);
  return running.results();
}

}  // namespace rehearsal::launch
