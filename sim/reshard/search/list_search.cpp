#include "reshard/search/list_search.hpp"

#include <array>

namespace rehearsal::reshard {
namespace {

// How far a perturbation moves a task in the list, as a share of the makespan: small ones improve ends, large ones
// escape local optima.
constexpr std::array kShakes{0.02, 0.05, 0.1, 0.3};

}  // namespace

void ListSearch::keep(std::vector<Sending> schedule) {
  const auto makespan = makespan_of(schedule);
  if (makespan > makespan_) return;  // equal ones are accepted: other surroundings to search
  schedule_ = std::move(schedule), makespan_ = makespan;
}

void ListSearch::by_rules(std::int64_t lower, std::int64_t most) {
  for (const int rule : {0, 1, 2})
    if (makespan_ > lower && (rule == 0 || scheduler_.effort() < most))
      keep(scheduler_.run(scheduler_.priorities(rule, 0, random_)));
}

// Alternates new lists and perturbations.
void ListSearch::attempt(std::int64_t times, std::int64_t lower, std::int64_t most) {
  for (std::int64_t i = 0; i < times && makespan_ > lower && scheduler_.effort() < most; i++)
    if (i % 4 == 0 || schedule_.empty())
      keep(scheduler_.run(scheduler_.priorities(int(i / 4 % 3), i % 8 ? 0.3 : 1.0, random_), &random_));
    else
      disturb(kShakes[std::size_t(i) % kShakes.size()]);
}

// Lists tasks by their ends in the best schedule, last first, with random shifts; reversed in time, the result is a
// schedule as well. Then lists them by their starts in that one. Each pass closes the gaps at the beginning of the
// other.
void ListSearch::disturb(double shake) {
  std::vector<double> priority(schedule_.size());
  const double range = shake * double(makespan_);
  for (const auto& s : schedule_) priority[s.task] = double(s.end) + range * random_.fraction();
  auto turned = scheduler_.run(priority, nullptr, &schedule_);
  for (const auto& s : turned) priority[s.task] = double(s.end);
  keep(scheduler_.run(priority, nullptr, &turned));
  const auto end = makespan_of(turned);
  for (auto& s : turned) s = {s.task, s.sender, end - s.end, end - s.start};
  keep(std::move(turned));
}

}  // namespace rehearsal::reshard
