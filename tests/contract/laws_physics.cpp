// Laws of physics and bookkeeping that hold within one answer: nothing computes above its peak or moves faster than its
// links, shares are between 0 and 1, parts sum to the whole, and all outputs agree.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/quantity_text.hpp"

#include "laws.hpp"
#include "report/run_report.hpp"

namespace rehearsal::contract {

namespace {

constexpr double kRounded = 1e-9;  // rounding of sums of doubles

// Executed FLOPs include those of the model, and no GPU reaches its peak.
void keeps_below_peak(Trial& trial, const answer::Summary& s) {
  if (!s.mfu || !s.hfu) return;
  trial.hold(*s.mfu > 0 && *s.mfu <= *s.hfu * (1 + kRounded) && *s.hfu <= 1, {},
             fmt::format("MFU <= HFU <= 1: MFU {:.4f}, HFU {:.4f}", *s.mfu, *s.hfu));
}

// Every picosecond of the iteration belongs to one category.
void sums_to_the_iteration(Trial& trial, const answer::Summary& s) {
  Time sum{}, least{};
  for (const auto part : s.breakdown) sum += part, least = std::min(least, part);
  trial.hold(sum == s.iteration && least == Time{}, {},
             fmt::format("a breakdown sums to the iteration: {} ps of {}, the least part is {}", sum.count(),
                         s.iteration.count(), least.count()));
}

// No link carries more than its capacity, and no resource is busy more than all the time.
void has_shares(Trial& trial, const answer::Summary& s) {
  std::string beyond;
  const auto within = [&](double share, const std::string& what) {
    if (!(share >= 0 && share <= 1 + kRounded)) beyond += fmt::format("{} is {:.4f}; ", what, share);
  };
  within(s.bubble_rate, "the bubble");
  for (const auto& rank : s.ranks)
    within(double(rank.busy.count()) / double(s.iteration.count()), "a rank's busy share");
  for (const auto& link : s.traffic.links) within(link.busy_share, link.name);
  for (const auto& place : s.contended) within(place.busy, place.name);
  trial.hold(beyond.empty(), {}, "shares are between 0 and 1: " + beyond);
}

// All that leaves a GPU at once goes over its links inside the node and the NICs of the node.
void moves_below_wires(Trial& trial, const answer::Summary& s) {
  const auto& c = trial.concrete().cluster;
  const double out = c.nvlink.value() + (c.nodes > 1 ? c.node_rate().value() : 0);
  std::string beyond;
  for (const auto& part : answer::AxisBytes::parts()) {
    const double bytes = s.traffic.per_gpu.*part.bytes;
    if (!std::string_view(part.name).starts_with("offload") && bytes / out > to_seconds(s.iteration) * (1 + kRounded))
      beyond += fmt::format("{} bytes of axis {} at {:.4g} B/s; ", bytes, part.name, out);
  }
  trial.hold(beyond.empty(), {}, "no step is shorter than its bytes over the wires: " + beyond);
}

void rates_are_of_the_step(Trial& trial, const answer::Summary& s) {
  if (!s.tokens_per_s || !s.samples_per_s || s.useful) return;
  const auto& b = trial.scenario().batch;
  const double time = to_seconds(s.iteration);
  trial.within(*s.tokens_per_s * time / double(b.global * b.sequence), 1 - kRounded, 1 + kRounded, {}, "tokens a step");
  trial.within(*s.samples_per_s * time / double(b.global), 1 - kRounded, 1 + kRounded, {}, "samples a step");
}

// Replicas send each other what theory says (arXiv 1910.02054, section 7): a ring's share, twice that from an inner
// rank of a tree, half of it with a switch that adds.
void reduces_gradients(Trial& trial, const answer::Summary& s) {
  const auto& data = s.traffic.data_parallel;
  if (!data || data->closed_form_bytes <= 0) return;
  trial.within(data->bytes / data->closed_form_bytes, .5, 2, {}, "bytes over replicas beside the closed form, times");
}

// States are read and written once, the parts of the peak are within it, and the job's peak is that of its fullest
// rank.
void holds_its_parts(Trial& trial, const answer::Summary& s) {
  const auto& c = trial.concrete();
  double most = 0, ranks = 0;
  std::string wrong;
  for (const auto& rank : s.ranks) {
    most = std::max(most, rank.peak.allocated), ranks += rank.count;
    double parts = 0;
    for (const auto size : rank.memory) parts += double(size.count());
    if (rank.peak.allocated < parts * (1 - kRounded))
      wrong += fmt::format("rank {}: {} bytes allocated, its parts are {}; ", rank.rank, rank.peak.allocated, parts);
    if (rank.peak.reserved.value_or(rank.peak.allocated) < rank.peak.allocated)
      wrong += fmt::format("{} reserved of {} allocated; ", *rank.peak.reserved, rank.peak.allocated);
    const double moved = 2 * held(rank, graph::MemoryCategory::optimizer);
    if (c.training.offload.optimizer == Tier::device &&
        moved / c.cluster.gpu.memory_bandwidth.value() > to_seconds(s.iteration))
      wrong += fmt::format("rank {} reads and writes states of {} bytes in {}; ", rank.rank, moved / 2,
                           to_seconds(s.iteration));
  }
  if (s.peak.allocated != most) wrong += fmt::format("{} is not the peak {} of a rank; ", s.peak.allocated, most);
  const auto servers = trial.scenario().data_parallel.own_nodes();
  if (ranks != double(s.gpus + servers)) wrong += fmt::format("{} ranks of {} GPUs", ranks, s.gpus);
  trial.hold(wrong.empty(), {}, "a peak holds its parts: " + wrong);
}

}  // namespace

TEST_CASE("law: an answer by itself keeps to physics and adds up") {
  keeps({"an answer by itself", 1600, true}, [](Trial& trial) {
    const auto answer = trial.ask();
    if (!answer) return;
    for (const auto law : {keeps_below_peak, sums_to_the_iteration, has_shares, moves_below_wires,
                           rates_are_of_the_step, reduces_gradients, holds_its_parts})
      law(trial, answer->summary);
  });
}

TEST_CASE("law: a training is its steps, and lies between its ends") {
  keeps({"a training is its steps", 80}, [](Trial& trial) {
    const double steps = double(1 + trial.random.below(100000));
    const bool fails = trial.chance(30);
    if (!trial.settle({fmt::format("job={{steps: {}, gpu_hour: 2, currency: USD{}}}", std::int64_t(steps),
                                   fails ? ", failures: {per_1000_node_days: 2}" : "")}))
      return;
    const auto answer = trial.ask();
    if (!answer || !answer->summary.job || answer->summary.useful) return;
    const auto& run = *answer->summary.job;
    const double days = steps * step(*answer) / 86400;
    trial.within(run.expected.days / days, 1 - 1e-6, fails ? 1e9 : 1 + 1e-6, {}, "days of its steps, times");
    trial.hold(run.expected.goodput > 0 && run.expected.goodput <= 1 + kRounded, {},
               fmt::format("goodput {}", run.expected.goodput));
    if (run.low && run.high && answer->summary.error_band.low <= 1 && answer->summary.error_band.high >= 1)
      trial.hold(run.low->days <= run.expected.days && run.expected.days <= run.high->days &&
                     run.low->cost <= run.expected.cost && run.expected.cost <= run.high->cost,
                 {}, fmt::format("{} days between {} and {}", run.expected.days, run.low->days, run.high->days));
  });
}

TEST_CASE("law: text, JSON and CSV say one number") {
  keeps({"text, JSON and CSV say one number", 90, true}, [](Trial& trial) {
    const auto answer = trial.ask();
    if (!answer) return;
    const std::vector<answer::Result> one{*answer};
    const auto json = nlohmann::json::parse(report::run_json(one));
    const auto& said = json.is_array() ? json.at(0) : json;
    trial.within(said.at("iteration_s").get<double>() / step(*answer), 1 - 1e-6, 1 + 1e-6, {}, "iteration_s of JSON");
    trial.within(said.at("peak_memory_bytes").at("allocated").get<double>() / answer->summary.peak.allocated,
                 1 - kRounded, 1 + kRounded, {}, "peak of JSON");
    const auto csv = report::run_csv(one);
    const auto columns = csv.substr(0, csv.find('\n')), row = csv.substr(csv.find('\n') + 1);
    auto left = std::count(columns.begin(), columns.begin() + std::ptrdiff_t(columns.find("iteration_s")), ',');
    std::size_t begin = 0;
    while (left-- > 0) begin = row.find(',', begin) + 1;
    trial.within(std::atof(row.c_str() + begin) / step(*answer), 1 - 1e-6, 1 + 1e-6, {}, "iteration_s of CSV");
    const auto text = report::run_text(*answer, {});
    trial.hold(text.find(show(answer->summary.iteration)) != std::string::npos, {},
               "the text does not say " + show(answer->summary.iteration));
  });
}

}  // namespace rehearsal::contract
