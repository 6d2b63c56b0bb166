// `job`: the whole training run that the step belongs to.
#include <fmt/format.h>

#include "base/error.hpp"
#include "job/job.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// A value, or `auto` to let the program choose it.
template <class T>
void read_or_auto(MapReader& map, const char* key, std::optional<T>& to,
                  std::optional<T> (*read)(Diagnostics&, const Node&, const std::string&)) {
  const Node* node = map.find(key);
  if (!node || (node->kind == Node::Kind::scalar && node->text == "auto")) return;
  to = read(map.problems(), *node, fmt::format("'{}'", key));
  if (to && *to == T{}) map.problems().error(node->where(), fmt::format("'{}' must be above zero", key));
}

void read_checkpoint(Diagnostics& problems, const Node& node, job::Checkpoint& checkpoint) {
  MapReader map(problems, node, "checkpoint");
  read_or_auto(map, "interval", checkpoint.interval, read_duration);
  read_or_auto(map, "bytes", checkpoint.bytes, read_bytes);
  const job::Job blank;
  checkpoint.rate = map.bandwidth("rate", blank.checkpoint.rate);
  checkpoint.async = map.boolean("async", blank.checkpoint.async);
  if (const Node* stall = map.find("stall")) checkpoint.stall = read_duration(problems, *stall, "'stall'");
  map.finish();
}

}  // namespace

std::optional<job::Job> load_job(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  job::Job job;
  MapReader map(problems, node, "job");
  if (!map.node()) return std::nullopt;
  if (map.given("failures")) job.failures.emplace();
  map.fill(job::job_fields(), &job, {"checkpoint"});
  if (const Node* checkpoint = map.find("checkpoint")) read_checkpoint(problems, *checkpoint, job.checkpoint);
  map.finish();
  if (problems.count() != before) return std::nullopt;
  const int amounts = job.tokens.has_value() + job.steps.has_value() + job.samples.has_value();
  if (amounts != 1)
    problems.error(node.where(),
                   fmt::format("'job' needs one of 'tokens', 'steps' and 'samples' (tokens: 2T); found {}",
                               amounts ? "more" : "none"));
  for (const auto& [key, given] : {std::pair{"gpu_hour", job.gpu_hour.has_value()}, {"budget", job.budget.has_value()}})
    if (given && job.currency.empty())
      problems.error(map.at(key), fmt::format("'{}' has no unit; say in which 'currency' (currency: USD)", key));
  if (job.budget && !job.gpu_hour)
    problems.error(map.at("budget"), "'budget' needs a price: give 'gpu_hour', what a GPU costs for an hour");
  if (!job.currency.empty() && !job.gpu_hour)
    problems.error(map.at("currency"),
                   "'currency' has nothing to price; give 'gpu_hour', what a GPU costs for an hour");
  if (!job.failures)
    for (const char* key : {"checkpoint", "spares", "seed"})
      if (map.given(key))
        problems.error(
            map.at(key),
            fmt::format("'{}' acts where something fails; give 'failures', such as {{per_1000_node_days: 3.8}}", key));
  if (job.failures) {
    const auto& f = *job.failures;
    const bool groups = f.group_nodes > 0 && f.group_per_1000_days > 0;
    if (f.per_1000_node_days <= 0 && !groups && f.slow_per_1000_node_days <= 0)
      problems.error(map.at("failures"),
                     "'failures' says of nothing how often it fails; give 'per_1000_node_days' (Llama 3: 3.8)");
    if ((f.group_nodes > 0) != (f.group_per_1000_days > 0))
      problems.error(map.at("failures"), "'group' needs both: 'nodes' that fail together, and 'per_1000_days'");
    MapReader below(problems, *map.find("failures"), "failures");
    if (below.given("repair") && !job.spares)
      problems.error(below.at("repair"), "'repair' acts where spares run out; say how many 'spares' there are");
    if (below.given("slow") && f.slow_per_1000_node_days <= 0)
      problems.error(below.at("slow"), "'slow' needs how often a node becomes slow: 'per_1000_node_days'");
    if (f.shrink && job.spares.value_or(-1) < 0)
      problems.error(map.at("failures"), "'without_spare' acts where spares run out; say how many 'spares' there are");
  }
  return job;
}

}  // namespace rehearsal::scenario
