#include <fmt/format.h>

#include "job/job.hpp"

namespace rehearsal::job {

using namespace fields;

namespace {

const Description& supply_fields() {
  using P = Supply;
  static const Description all = describe<P>(
      {}, field<&P::gpu>("gpu", power(), std::nullopt, "mean power of a GPU over the run (the GPU's limit)"),
      field<&P::node>("node", power(), kDefault, "mean power of a node beyond its GPUs"),
      field<&P::pue>("pue", number(1, 10), kDefault,
                     "power usage effectiveness: power of the building over that of its computers"));
  return all;
}

void says_how_often(const Failures& f, Keys& keys) {
  const bool groups = f.group_nodes > 0 && f.group_per_1000_days > 0;
  if (f.per_1000_node_days <= 0 && !groups && f.slow_per_1000_node_days <= 0)
    keys.refuse("", "'failures' says of nothing how often it fails; give 'per_1000_node_days' (Llama 3: 3.8)");
  if ((f.group_nodes > 0) != (f.group_per_1000_days > 0))
    keys.refuse("", "'group' needs both: 'nodes' that fail together, and 'per_1000_days'");
  if (keys.given("slow") && f.slow_per_1000_node_days <= 0)
    keys.refuse("slow", "'slow' needs how often a node becomes slow: 'per_1000_node_days'");
}

const Description& failure_fields() {
  using F = Failures;
  static const Description all = describe<F>(
      {.groups = {{.key = "group", .help = "nodes that fail together"},
                  {.key = "slow", .help = "nodes that become slow"}},
       .rules = {check(says_how_often)}},
      field<&F::per_1000_node_days>("per_1000_node_days", number(0, 1e6), kDefault,
                                    "failures that stop the job (Llama 3: 3.8; Meta's RSC-1 6.5, RSC-2 2.3; BLOOM "
                                    "about 3; OPT about 16)"),
      field<&F::process_share>("process_share", share_or_none(), kDefault,
                               "share of these in which only processes die, and the node and its memory stay"),
      field<&F::detect>("detect", duration_or_none(), kDefault, "time until a failure is detected"),
      field<&F::restart>("restart", duration_or_none(), kDefault,
                         "time until all ranks are back; reading the checkpoint comes on top"),
      field<&F::repair>("repair", duration_or_none(), kDefault, "time until a failed node is a spare again"),
      field<&F::group_nodes>("group.nodes", whole(0, 1e6), kDefault,
                             "nodes that fail together, such as those of a rack or a switch"),
      field<&F::group_per_1000_days>("group.per_1000_days", number(0, 1e6), kDefault,
                                     "failures of each such group per 1000 days"),
      field<&F::slow_per_1000_node_days>("slow.per_1000_node_days", number(0, 1e6), kDefault,
                                         "nodes that become slow and hold up the others, per 1000 node-days"),
      field<&F::slowdown>("slow.slowdown", number(1, 1e3), kDefault, "factor on the step time while a node is slow"),
      field<&F::notice>("slow.notice", duration_or_none(), kDefault,
                        "time until a slow node is replaced, with a checkpoint and a restart"),
      choice<&F::shrink>("without_spare", {{"wait", false}, {"shrink", true}}, kDefault,
                         "if there is no spare: wait for a repair, or continue with fewer replicas"));
  return all;
}

// Of a checkpoint in memory. The one on the own node has only what is the same for both.
Description memory_fields(const char* rate, bool own) {
  using M = MemoryCheckpoint;
  auto async =
      field<&M::async>("async", boolean(), kDefault, "ranks copy to their hosts, which send in the background");
  auto survives = choice<&M::apart>("survives", {{"node", false}, {"group", true}}, kDefault,
                                    "what may fail without it: a node, or a group that fails together");
  if (own) async = settled(std::move(async)), survives = settled(std::move(survives));
  return describe<M>(
      {},
      or_word(field<&M::interval>("interval", duration(), {[](const M&) { return std::optional<Duration>(); }, "auto"},
                                  "training time between checkpoints; auto: the best, or none"),
              "auto"),
      field<&M::rate>("rate", bandwidth(), std::nullopt, rate), std::move(async),
      field<&M::stall>("stall", duration_or_none(), std::nullopt,
                       "time that training stops for a checkpoint (bytes / rates)"),
      field<&M::restart>("restart", duration_or_none(), std::nullopt,
                         "time until all ranks are back, without reading the checkpoint (job.failures.restart)"),
      std::move(survives));
}

const Description& host_fields() {
  static const Description all = memory_fields("bandwidth of one GPU (that of its link to its host)", true);
  return all;
}

const Description& peer_fields() {
  static const Description all = memory_fields("bandwidth of one GPU (its share of the NICs)", false);
  return all;
}

const Description& checkpoint_fields() {
  using C = Checkpoint;
  static const Description all = describe<C>(
      {},
      or_word(field<&C::interval>("interval", duration(), {[](const C&) { return std::optional<Duration>(); }, "auto"},
                                  "training time between checkpoints; auto: the best"),
              "auto"),
      or_word(field<&C::bytes>("bytes", size(), {[](const C&) { return std::optional<Bytes>(); }, "auto"},
                               "bytes per checkpoint; auto: parameters and optimizer states"),
              "auto"),
      field<&C::rate>("rate", bandwidth(), kDefault, "storage bandwidth for all ranks together"),
      field<&C::async>("async", boolean(), kDefault, "ranks copy to their hosts, which write in the background"),
      field<&C::stall>("stall", duration_or_none(), std::nullopt,
                       "time that training stops for a checkpoint (bytes / rates)"),
      nested<&C::host>("host", host_fields(),
                       {.help = "further checkpoints in the memory of each node, from which processes restart"}),
      nested<&C::peer>("peer", peer_fields(),
                       {.help = "further checkpoints in the memory of other nodes, from which a lost node restarts"}));
  return all;
}

template <class Amount>
int amounts_of(const Amount& said) {
  return said.tokens.has_value() + said.steps.has_value() + said.samples.has_value();
}

void one_amount(const Phase& phase, Keys& keys) {
  if (amounts_of(phase) + phase.share.has_value() > 1)
    keys.refuse("", "a phase has one of 'tokens', 'steps', 'samples' and 'share', or takes what the others leave");
}

const Description& ramp_fields() {
  using R = Ramp;
  static const Description all =
      describe<R>({}, field<&R::from>("from", whole(1, 1e9), kRequired, "sequences in the first batch"),
                  field<&R::by>("by", whole(1, 1e9), kRequired, "sequences by which the batch grows each time"),
                  field<&R::samples>("samples", count(), kRequired, "sequences until the batch has its full size"));
  return all;
}

void one_length(const Evaluation& e, Keys& keys) {
  if (e.time.has_value() == (e.steps > 0))
    keys.refuse("", "'evaluation' needs either 'time', of one, or 'steps', whose forward passes it is");
}

const Description& evaluation_fields() {
  using E = Evaluation;
  static const Description all = describe<E>(
      {.rules = {check(one_length)}}, field<&E::every>("every", whole(1, 1e12), kRequired, "steps between evaluations"),
      field<&E::time>("time", duration(), std::nullopt, "time of one evaluation"),
      field<&E::steps>("steps", number(0, 1e9), kDefault,
                       "instead of `time`: an evaluation takes the forward passes of this many steps"));
  return all;
}

void how_often(const Stop& stop, Keys& keys) {
  if (stop.every.has_value() == stop.times.has_value())
    keys.refuse("", "a stop needs either 'every', from one to the next, or 'times', how many in all");
  if (stop.every && stop.every->value() <= stop.time.value())
    keys.refuse("every", "a stop begins before the last one has ended: 'every' is from one to the next");
}

const Description& stop_fields() {
  using S = Stop;
  static const Description all = describe<S>(
      {.rules = {check(how_often)}}, field<&S::time>("time", duration(), kRequired, "that one takes, restart included"),
      field<&S::every>("every", duration(), std::nullopt, "from one to the next"),
      field<&S::times>("times", whole(1, 1e6), std::nullopt, "in all"));
  return all;
}

std::string written_phases(const std::vector<Phase>& phases) {
  std::string text;
  for (const auto& phase : phases) text += line_of(phase_fields(), &phase) + ";";
  return text;
}

// Where something says how much.
void consistent(const Job& job, Keys& keys) {
  const int amounts = amounts_of(job);
  if (amounts > 1 || (amounts == 0 && !keys.given("phases")))
    keys.refuse("", fmt::format("'job' needs one of 'tokens', 'steps' and 'samples' (tokens: 2T); found {}",
                                amounts ? "more" : "none"));
  for (const char* key : {"gpu_hour", "budget"})
    if (keys.given(key) && job.currency.empty())
      keys.refuse(key, fmt::format("'{}' has no unit; say in which 'currency' (currency: USD)", key));
  if (job.budget && !job.gpu_hour)
    keys.refuse("budget", "'budget' needs a price: give 'gpu_hour', what a GPU costs for an hour");
  if (!job.currency.empty() && !job.gpu_hour)
    keys.refuse("currency", "'currency' has nothing to price; give 'gpu_hour', what a GPU costs for an hour");
  for (const char* key : {"checkpoint", "spares", "seed"})
    if (!job.failures && keys.given(key))
      keys.refuse(
          key,
          fmt::format("'{}' acts where something fails; give 'failures', such as {{per_1000_node_days: 3.8}}", key));
  const auto& f = job.failures;
  if (f && !job.spares && keys.given("failures.repair"))
    keys.refuse("failures.repair", "'repair' acts where spares run out; say how many 'spares' there are");
  if (f && !job.spares && f->shrink)
    keys.refuse("failures", "'without_spare' acts where spares run out; say how many 'spares' there are");
}

}  // namespace

const Description& phase_fields() {
  using P = Phase;
  static const Description all =
      describe<P>({.rules = {check(one_amount)}}, field<&P::tokens>("tokens", count(), std::nullopt, "of this phase"),
                  field<&P::steps>("steps", count(), std::nullopt, "steps to train, instead of `tokens`"),
                  field<&P::samples>("samples", count(), std::nullopt, "sequences to train on, instead of `tokens`"),
                  field<&P::share>("share", share(), std::nullopt, "of what the job trains"),
                  settled(field<&P::scenario>("scenario", text(), kDefault, "")));
  return all;
}

const Description& job_fields() {
  using J = Job;
  static const Description all = describe<J>(
      {.rules = {check(consistent)}},
      field<&J::tokens>("tokens", count(), std::nullopt, "tokens to train on, such as 2T"),
      field<&J::steps>("steps", count(), std::nullopt, "steps to train, instead of `tokens`"),
      field<&J::samples>("samples", count(), std::nullopt, "sequences to train on, instead of `tokens`"),
      opaque<&J::phases>("phases", "{tokens, steps, samples or share, and sections that differ}", written_phases,
                         "phases of the run, each with its own step: `batch: {sequence: 128k}` and other sections "
                         "override the scenario's; a phase without an amount takes what the others leave"),
      nested<&J::ramp>("ramp", ramp_fields(), {.help = "batch-size ramp-up (Megatron's --rampup-batch-size)"}),
      nested<&J::evaluation>("evaluation", evaluation_fields(), {.help = "evaluation between steps"}),
      list_of<&J::stops>("stops", entries<Stop>(stop_fields(), "{time, every or times}"),
                         "planned interruptions, such as maintenance"),
      field<&J::deadline>("deadline", duration(), std::nullopt, "time limit of the run, such as 30d"),
      field<&J::budget>("budget", count(), std::nullopt, "cost limit of the run, in `currency`"),
      field<&J::gpu_hour>("gpu_hour", positive(), std::nullopt, "price of a GPU-hour, in `currency`"),
      field<&J::currency>("currency", text(), kDefault, "currency of prices, such as USD"),
      nested<&J::power>("power", supply_fields(), {.help = "power, for energy and carbon"}),
      field<&J::carbon>("carbon", carbon(), std::nullopt, "carbon intensity of the electricity, such as 0.4kg/kWh"),
      nested<&J::failures>("failures", failure_fields(), {.help = "what interrupts the run; absent: nothing"}),
      nested<&J::checkpoint>("checkpoint", checkpoint_fields(), {.help = "checkpoints of the run"}),
      field<&J::spares>("spares", whole(0, 1e6), std::nullopt, "spare nodes (as many as needed)"),
      field<&J::seed>("seed", whole(0, 9e15), kDefault, "seed of the simulated failures"));
  return all;
}

}  // namespace rehearsal::job
