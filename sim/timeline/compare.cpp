#include "timeline/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.hpp"

namespace rehearsal::timeline {
namespace {

double relative(Time predicted, Time measured) { return predicted / measured - 1; }

// Sorts `values`.
template <class T>
T nearest_rank(std::vector<T>& values, double q) {
  if (values.empty()) return {};
  const double rank = std::ceil(q * double(values.size()));
  const auto at = std::min(values.size(), static_cast<std::size_t>(std::max(1., rank))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// Signed errors as they come in; float, because there is one per task and iteration.
struct Errors {
  std::vector<float> all;

  void add(double error) { all.push_back(static_cast<float>(error)); }
  double median() { return double(nearest_rank(all, .5)); }
  double p90_of_absolute() {
    for (float& e : all) e = std::abs(e);
    return double(nearest_rank(all, .9));
  }
};

// One measured iteration, wherever the timeline keeps it.
struct Iteration {
  const std::vector<Time>* start;
  const std::vector<Time>* end;
  Time length;
};
std::vector<Iteration> iterations_of(const Timeline& timeline) {
  std::vector<Iteration> list;
  if (timeline.iterations.empty()) list.push_back({&timeline.start, &timeline.end, timeline.makespan()});
  for (std::size_t i = 0; i < timeline.iterations.size(); ++i)
    list.push_back({&timeline.iterations[i].start, &timeline.iterations[i].end, timeline.iteration_end[i]});
  return list;
}

bool is_receive(const graph::TaskGraph& graph, const graph::Program& program, std::size_t task) {
  return std::holds_alternative<graph::Receive>(graph.work(program.work[task]));
}

// Gathers classes over programs; a class is numbered when it is first seen.
class Classes {
 public:
  Classes(const graph::TaskGraph& graph, std::span<const Sampling> sampling) : graph_(graph) {
    std::map<std::pair<std::string, Sampling>, std::size_t> numbers;
    for (const graph::Program& program : graph.programs()) {
      auto& of_task = of_task_.emplace_back(program.size(), kNone);
      for (std::size_t i = 0; i < program.size(); ++i) {
        if (is_receive(graph, program, i)) continue;
        const auto known = sampling.empty() ? Sampling::unknown : sampling[program.work[i].index()];
        const auto [at, fresh] = numbers.try_emplace({task_class(graph, program, i), known}, numbers.size());
        if (fresh) {
          auto& c = result_.emplace_back();
          std::tie(c.name, c.sampling) = at->first;
        }
        of_task[i] = at->second;
      }
    }
    errors_.resize(result_.size());
    sums_.resize(result_.size());
  }

  void add(const Timeline& predicted, const std::vector<Iteration>& measured) {
    for (std::size_t n = 0; n < measured.size(); ++n) {
      for (auto& sums : sums_) sums.emplace_back();
      for (const graph::Rank& rank : graph_.ranks()) {
        const auto& of_task = of_task_[rank.program.index()];
        for (std::size_t i = 0; i < of_task.size(); ++i) {
          if (of_task[i] == kNone) continue;
          const auto task = rank.first_task + i;
          const Time rehearsed = predicted.end[task] - predicted.start[task];
          const Time real = (*measured[n].end)[task] - (*measured[n].start)[task];
          auto& c = result_[of_task[i]];
          sums_[of_task[i]].back() += real;
          // A task shorter than the clock's resolution has no relative error.
          if (real > Time{}) errors_[of_task[i]].add(relative(rehearsed, real)), c.of_tasks.compared++;
          if (n == 0) c.tasks++, c.of_tasks.predicted += rehearsed;
        }
      }
    }
  }

  std::vector<ClassDifference> take() && {
    for (std::size_t c = 0; c < result_.size(); ++c) {
      auto& of_tasks = result_[c].of_tasks;
      of_tasks.measured = nearest_rank(sums_[c], .5);
      if (of_tasks.measured > Time{}) result_[c].sum_error = relative(of_tasks.predicted, of_tasks.measured);
      of_tasks.median_error = errors_[c].median();
      of_tasks.p90_error = errors_[c].p90_of_absolute();
    }
    std::sort(result_.begin(), result_.end(), [](const auto& a, const auto& b) {
      if (a.of_tasks.measured != b.of_tasks.measured) return a.of_tasks.measured > b.of_tasks.measured;
      return std::pair(a.name, a.sampling) < std::pair(b.name, b.sampling);
    });
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const graph::TaskGraph& graph_;
  std::vector<std::vector<std::size_t>> of_task_;  // by program and local task
  std::vector<ClassDifference> result_;
  std::vector<Errors> errors_;
  std::vector<std::vector<Time>> sums_;  // by class and iteration
};

void compare_ends(const Timeline& predicted, const std::vector<Iteration>& measured, Comparison& result) {
  Errors errors;
  result.measured_end.resize(predicted.end.size());
  std::vector<Time> ends;
  for (std::size_t task = 0; task < predicted.end.size(); ++task) {
    ends.clear();
    for (const Iteration& m : measured) {
      ends.push_back((*m.end)[task]);
      if (m.length > Time{}) errors.add((predicted.end[task] - ends.back()) / m.length);
    }
    result.measured_end[task] = nearest_rank(ends, .5);
  }
  result.end_median_error = errors.median();
  result.end_p90_error = errors.p90_of_absolute();
}

}  // namespace

double quantile(std::vector<double> values, double q) { return nearest_rank(values, q); }

Spread spread(const Timeline& timeline) {
  auto lengths = timeline.iteration_end;
  Spread s;
  s.iterations = lengths.size();
  s.median = timeline.makespan();
  s.p10 = nearest_rank(lengths, .1), s.p90 = nearest_rank(lengths, .9);
  if (!lengths.empty()) s.minimum = *std::min_element(lengths.begin(), lengths.end());
  return s;
}

std::string task_class(const graph::TaskGraph& graph, const graph::Program& program, std::size_t task) {
  const graph::Work& work = graph.work(program.work[task]);
  const std::string pass = graph::name(program.coordinates[task].pass);
  if (graph::is_send(program.lane[task])) return "send, " + pass;
  // A given time and a sequence of operators are whole passes.
  if (std::holds_alternative<graph::FixedDelay>(work) || std::holds_alternative<graph::Sequence>(work)) return pass;
  const std::string text = graph::describe(work);
  return text.substr(0, text.find(' ')) + ", " + pass;
}

Comparison compare(const graph::TaskGraph& graph, const Timeline& predicted, const Timeline& measured,
                   std::span<const Sampling> sampling) {
  INVARIANT(predicted.end.size() == graph.tasks() && measured.end.size() == graph.tasks(),
            fmt::format("timelines of {} and {} tasks for a graph of {}", predicted.end.size(), measured.end.size(),
                        graph.tasks()));
  const auto iterations = iterations_of(measured);
  Comparison result;
  result.iterations = spread(measured);
  result.iteration.predicted = predicted.makespan();
  result.iteration.measured = result.iterations.median;
  Errors errors;
  for (const Iteration& i : iterations)
    if (i.length > Time{}) errors.add(relative(predicted.makespan(), i.length));
  result.iteration.compared = errors.all.size();
  // The error of the median iteration: for an even number of them the two middle ones differ.
  if (result.iteration.measured > Time{})
    result.iteration.median_error = relative(result.iteration.predicted, result.iteration.measured);
  result.iteration.p90_error = errors.p90_of_absolute();

  compare_ends(predicted, iterations, result);
  Classes classes(graph, sampling);
  classes.add(predicted, iterations);
  result.classes = std::move(classes).take();
  return result;
}

}  // namespace rehearsal::timeline
