// `job.phases` and `job.ramp`: the parts of a training, each of which is the scenario with some sections laid over it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr std::int64_t kMostPhases = 1000;
constexpr std::array kAmounts{"tokens", "steps", "samples", "share"};
// Of a whole training, and not of a phase.
constexpr std::array kOfAll{"version", "name", "model", "cluster", "job", "plan", "jobs", "costs"};

template <class Keys>
bool is_one_of(const Keys& keys, const Node& key) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* one) { return key.text == one; });
}

class Phases {
 public:
  Phases(Context& context, const std::string& path, const Node& root, Scenario& scenario)
      : context_(context), path_(path), root_(root), scenario_(scenario), job_(*scenario.job) {}

  void read(const Node* ramp, const Node* list) {
    const auto& problems = context_.problems;
    if (ramp && job_.ramp) read_ramp(*ramp);
    if (!list) {
      add({}, nothing(root_), root_);
    } else if (const auto* items = read_items(context_.problems, *list, "'phases'", fields::list_of({}, "phases"))) {
      for (const Node* item : *items) read_phase(*item);
    }
    if (problems.count() == 0) check_amounts(list ? *list : *ramp);
  }

 private:
  Node* nothing(const Node& at) { return context_.documents.make(Node::Kind::map, at); }
  Node* text(const Node& at, std::string what) {
    Node* node = context_.documents.make(Node::Kind::scalar, at);
    node->text = std::move(what);
    return node;
  }

  void read_phase(const Node& item) {
    MapReader map(context_.problems, item, "phases");
    if (!map.node()) return;
    Node* differs = nothing(item);
    for (const auto& entry : item.entries) {
      if (is_one_of(kOfAll, *entry.key))
        context_.problems.error(
            entry.value->where(),
            fmt::format(
                "'{}' applies to the whole training; a phase may change the batch, the layout and other sections",
                entry.key->text));
      else if (!is_one_of(kAmounts, *entry.key))
        differs->entries.push_back(entry);
    }
    job::Phase phase;
    map.fill(job::phase_fields(), &phase);
    add(std::move(phase), differs, item);
  }

  // Batches of from, from + by, ... below that of the scenario, each until its equal part of the samples is over. The
  // last batch of a part reaches into the next, whose steps are then fewer, as in Megatron-LM's schedule.
  void read_ramp(const Node& at) {
    const auto& ramp = *job_.ramp;
    const auto grows = scenario_.batch.global - ramp.from;
    if (grows <= 0 || grows % ramp.by != 0 || grows / ramp.by > kMostPhases)
      return context_.problems.error(at.where(),
                                     fmt::format("'ramp' cannot go from {} in steps of {} to the {} sequences of "
                                                 "'batch': the steps must divide the distance, into at most {}",
                                                 ramp.from, ramp.by, scenario_.batch.global, kMostPhases));
    const auto sizes = grows / ramp.by;
    double done = 0;  // samples
    for (std::int64_t i = 0; i < sizes; ++i) {
      const auto batch_of_part = double(ramp.from + i * ramp.by);
      const double until = ramp.samples.value() * double(i + 1) / double(sizes);
      const double steps = std::ceil((until - done) / batch_of_part - 1e-9);
      if (steps < 1) continue;  // the batch before has gone past it
      done += steps * batch_of_part;
      Node *differs = nothing(at), *batch = nothing(at);
      batch->entries.push_back({text(at, "global"), text(at, fmt::format("{}", ramp.from + i * ramp.by))});
      differs->entries.push_back({text(at, "batch"), batch});
      job::Phase phase;
      phase.steps = Count(steps);
      if (!add(std::move(phase), differs, at)) return;
    }
  }

  // False after an error.
  bool add(job::Phase phase, const Node* differs, const Node& at) {
    Node* alone = nothing(root_);  // without the job, whose phase it is
    for (const auto& entry : root_.entries)
      if (entry.key->text != "job" && entry.key->text != "plan") alone->entries.push_back(entry);
    Context inner(context_.files);
    inner.backend = context_.backend;
    auto one = std::make_shared<Scenario>(read_scenario(inner, path_, *context_.documents.overlay(alone, differs)));
    for (const auto& error : inner.problems.errors()) context_.problems.error(error.where, error.message);
    if (inner.problems.count() > 0) return false;
    if (one->parallelism.gpus() != scenario_.parallelism.gpus() ||
        one->concrete->cluster.nodes != scenario_.concrete->cluster.nodes)
      context_.problems.error(
          at.where(), fmt::format("this phase uses {} GPUs, but the job has {}; all phases must use the same machine",
                                  one->parallelism.gpus(), scenario_.parallelism.gpus()));
    one->digest = digest(*one);
    phase.scenario = one->digest;
    job_.phases.push_back(std::move(phase)), scenario_.phases.push_back(std::move(one));
    return true;
  }

  void check_amounts(const Node& at) {
    const bool whole = job_.tokens || job_.steps || job_.samples;
    const auto said = [](const job::Phase& phase) { return phase.tokens || phase.steps || phase.samples; };
    const auto shared = std::count_if(job_.phases.begin(), job_.phases.end(), [](auto& phase) { return phase.share; });
    const auto open = std::count_if(job_.phases.begin(), job_.phases.end(),
                                    [&](auto& phase) { return !said(phase) && !phase.share; });
    if (!whole && (shared > 0 || open > 0))
      context_.problems.error(
          at.where(),
          "a phase without 'tokens', 'steps' or 'samples' needs those of the job; give one of them beside 'phases'");
    else if (open > 1)
      context_.problems.error(at.where(),
                              fmt::format("{} phases have no amount; only one may take what the others leave", open));
  }

  Context& context_;
  const std::string& path_;
  const Node& root_;
  Scenario& scenario_;
  job::Job& job_;
};

}  // namespace

void load_phases(Context& context, const std::string& path, const Node& root, Scenario& scenario) {
  const Node* job = root.find("job");
  if (!job || job->kind != Node::Kind::map || !scenario.job || context.problems.count() > 0) return;
  const Node *ramp = job->find("ramp"), *list = job->find("phases");
  if (ramp || list) Phases(context, path, root, scenario).read(ramp, list);
}

}  // namespace rehearsal::scenario
