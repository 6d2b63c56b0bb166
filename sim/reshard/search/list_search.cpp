#include "reshard/search/list_search.hpp"

#include <array>

namespace rehearsal::reshard {
namespace {

// How far a disturbance moves a task in the list, as a part of the makespan: a little mends ends, much leaves dead
// ends.
constexpr std::array kShakes{0.02, 0.05, 0.1, 0.3};

}  // namespace

void ListSearch::keep(std::vector<Sending> schedule) {
  const auto makespan = makespan_of(schedule);
  if (makespan > makespan_) return;  // equals are taken: another place to look around
  schedule_ = std::move(schedule), makespan_ = makespan;
}

void ListSearch::by_rules(std::int64_t lower, std::int64_t most) {
  for (const int rule : {0, 1, 2})
    if (makespan_ > lower && (rule == 0 || scheduler_.effort() < most))
      keep(scheduler_.run(scheduler_.priorities(rule, 0, random_)));
}

// New lists and disturbances by turns.
void ListSearch::attempt(std::int64_t times, std::int64_t lower, std::int64_t most) {
  for (std::int64_t i = 0; i < times && makespan_ > lower && scheduler_.effort() < most; i++)
    if (i % 4 == 0 || schedule_.empty())
      keep(scheduler_.run(scheduler_.priorities(int(i / 4 % 3), i % 8 ? 0.3 : 1.0, random_), &random_));
    else
      disturb(kShakes[std::size_t(i) % kShakes.size()]);
}

// Lists tasks as the best schedule ends them, from its end backwards, each moved by lot; read against time, the result
// is a schedule as well. Then lists them as that one starts them. Each pass closes the gaps at the other one's
// beginning.
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
