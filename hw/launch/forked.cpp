// Ranks that are children of this process: no mpirun, one host.
#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>

#include "dispatch/clock.hpp"
#include "launch/launcher.hpp"
#include "launch/rank_environment.hpp"
#include "launch/star.hpp"

namespace rehearsal::launch {
namespace {

// Grace time for the other ranks once one has given up: they often have the same to report.
const Time kLastWords = seconds(0.5);

ChildEnvironment environment(const Start& start, std::size_t rank, int socket) {
  ChildEnvironment e(start);
  e.set(kRankVariable, std::to_string(rank));
  e.set(kSocketVariable, std::to_string(socket));
  // For libraries that read these; our own variables take precedence.
  e.set("RANK", std::to_string(rank)), e.set("LOCAL_RANK", std::to_string(rank));
  e.set("WORLD_SIZE", std::to_string(start.ranks)), e.set("LOCAL_WORLD_SIZE", std::to_string(start.ranks));
  return e;
}

std::vector<std::string> command(const Start& start) {
  std::vector<std::string> all = {this_program()};
  all.insert(all.end(), start.arguments.begin(), start.arguments.end());
  return all;
}

class Forked : public Launcher {
 public:
  explicit Forked(const Start& start) : folder_(start.folder), signals_(start.signals), star_(start.ranks) {
    const auto arguments = command(start);
    for (std::size_t rank = 0; rank < start.ranks; ++rank) {
      const int socket = star_.end_of(rank);
      ranks_.push_back(std::make_unique<Process>(arguments[0], arguments, environment(start, rank, socket).entries(),
                                                 signals_, socket));
      all_.push_back(ranks_.back().get());
      star_.started(rank);
    }
  }
  ~Forked() override { end(); }

  std::string name() const override { return "a rank"; }
  void wait(Time patience) override {
    launch::wait(all_, signals_, patience, star_.events());
    star_.relay();
  }

  bool ended() override {
    bool all = true;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      all &= ranks_[rank]->ended();
      if (first_ || ending_ || !failed(rank)) continue;
      first_ = blamed();
      end_at_ = dispatch::now() + (WIFSIGNALED(ranks_[*first_]->status()) ? Time{} : kLastWords);
    }
    if (!all && first_ && dispatch::now() >= end_at_) end(), all = true;
    return all;
  }

  void end() override {
    ending_ = true;
    launch::end(all_);
  }

  std::optional<std::string> who_died() override {
    if (!first_) return std::nullopt;
    const Process& rank = *ranks_[*first_];
    if (const auto error = folder_.read(*first_, Leaf::error))
      return fmt::format("rank {}: {}", *first_, message(*error));
    const int status = rank.status();
    return fmt::format("rank {} (pid {}) {}{}", *first_, rank.pid(),
                       WIFSIGNALED(status)
                           ? fmt::format("was killed by signal {}", WTERMSIG(status))
                           : fmt::format("ended with status {} and without a result", WEXITSTATUS(status)),
                       quoted(rank.said()));
  }

  std::optional<std::string> failure() override { return std::nullopt; }

  std::string said() override {
    for (const auto& rank : ranks_)
      if (!rank->said().empty()) return quoted(rank->said());
    return "";
  }

 private:
  bool failed(std::size_t rank) {
    return ranks_[rank]->ended() && (ranks_[rank]->status() != 0 || !folder_.has(rank, Leaf::result));
  }

  // Of the ranks that have failed so far, the first that was killed: others may have noticed and given up.
  std::size_t blamed() {
    std::size_t first = ranks_.size();
    for (std::size_t rank = ranks_.size(); rank-- > 0;)
      if (failed(rank) &&
          (first == ranks_.size() || WIFSIGNALED(ranks_[rank]->status()) || !WIFSIGNALED(ranks_[first]->status())))
        first = rank;
    return first;
  }

  const RunFolder& folder_;
  HeldSignals& signals_;
  Star star_;
  std::vector<std::unique_ptr<Process>> ranks_;
  std::vector<Process*> all_;
  std::optional<std::size_t> first_;
  Time end_at_;  // deadline of the other ranks
  bool ending_ = false;
};

}  // namespace

std::unique_ptr<Launcher> start_by_fork(const Start& start) { return std::make_unique<Forked>(start); }

}  // namespace rehearsal::launch
