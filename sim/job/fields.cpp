#include "job/job.hpp"

namespace rehearsal::job {

using namespace fields;

namespace {

Form automatic() {
  Form form{Form::Kind::choice};
  form.names = {"auto"};
  return form;
}

const Description& supply_fields() {
  using P = Supply;
  static const Description all = describe<P>(
      {}, field<&P::gpu>("gpu", power(), std::nullopt, "what each GPU draws, as a mean over the run (the GPU's limit)"),
      field<&P::node>("node", power(), kDefault, "what each node draws besides its GPUs"),
      field<&P::pue>("pue", number(1, 10), kDefault, "of the building: all that it draws over what computers draw"));
  return all;
}

const Description& failure_fields() {
  using F = Failures;
  static const Description all = describe<F>(
      {},
      field<&F::per_1000_node_days>("per_1000_node_days", number(0, 1e6), kDefault,
                                    "failures that stop the job (Llama 3: 3.8; Meta's RSC-1 6.5, RSC-2 2.3; BLOOM "
                                    "about 3; OPT about 16)"),
      field<&F::detect>("detect", duration_or_none(), kDefault, "until a failure is seen"),
      field<&F::restart>("restart", duration_or_none(), kDefault,
                         "until all ranks are there again; reading the checkpoint comes on top"),
      field<&F::repair>("repair", duration_or_none(), kDefault, "until a node that failed is among the spares again"),
      field<&F::group_nodes>("group.nodes", whole(0, 1e6), kDefault, "that fail together: of a rack, a switch"),
      field<&F::group_per_1000_days>("group.per_1000_days", number(0, 1e6), kDefault, "failures of each such group"),
      field<&F::slow_per_1000_node_days>("slow.per_1000_node_days", number(0, 1e6), kDefault,
                                         "nodes that become slow and hold the others up"),
      field<&F::slowdown>("slow.slowdown", number(1, 1e3), kDefault, "of a step, while a node is slow"),
      field<&F::notice>("slow.notice", duration_or_none(), kDefault,
                        "until a slow node is replaced, with a checkpoint and a restart"),
      choice<&F::shrink>("without_spare", {{"wait", false}, {"shrink", true}}, kDefault,
                         "without a spare: wait for a repair, or go on with fewer replicas"));
  return all;
}

const Description& checkpoint_fields() {
  using C = Checkpoint;
  static const Description all = describe<C>(
      {},
      or_also(field<&C::interval>("interval", duration(), {[](const C&) { return std::optional<Duration>(); }, "auto"},
                                  "of training between two; auto: the best"),
              {automatic()}),
      or_also(field<&C::bytes>("bytes", size(), {[](const C&) { return std::optional<Bytes>(); }, "auto"},
                               "of one; auto: parameters and optimizer states"),
              {automatic()}),
      field<&C::rate>("rate", bandwidth(), kDefault, "of the storage, from all ranks together"),
      field<&C::async>("async", boolean(), kDefault, "ranks copy to their hosts, which write while training goes on"),
      field<&C::stall>("stall", duration_or_none(), std::nullopt,
                       "how long one stops the training (bytes over rates)"));
  return all;
}

}  // namespace

const Description& job_fields() {
  using J = Job;
  static const Description all = describe<J>(
      {.groups = {{.key = "power", .help = "for energy and carbon"},
                  {.key = "failures", .help = "what stops the run; absent: nothing does"},
                  {.key = "failures.group", .help = "nodes that fail together"},
                  {.key = "failures.slow", .help = "nodes that become slow"},
                  {.key = "checkpoint", .help = "what is kept of a run for when it is stopped"}}},
      field<&J::tokens>("tokens", count(), std::nullopt, "to train on, such as 2T"),
      field<&J::steps>("steps", count(), std::nullopt, "instead of `tokens`"),
      field<&J::samples>("samples", count(), std::nullopt, "sequences, instead of `tokens`"),
      field<&J::deadline>("deadline", duration(), std::nullopt, "to be done within, such as 30d"),
      field<&J::budget>("budget", count(), std::nullopt, "not to be exceeded, in `currency`"),
      field<&J::gpu_hour>("gpu_hour", positive(), std::nullopt, "price of a GPU for an hour, in `currency`"),
      field<&J::currency>("currency", text(), kDefault, "of prices, such as USD"),
      nested<&J::power>("power", supply_fields()),
      field<&J::carbon>("carbon", carbon(), std::nullopt, "of the electricity, such as 0.4kg/kWh"),
      nested<&J::failures>("failures", failure_fields()), nested<&J::checkpoint>("checkpoint", checkpoint_fields()),
      field<&J::spares>("spares", whole(0, 1e6), std::nullopt, "nodes beside the job's (as many as are needed)"),
      field<&J::seed>("seed", whole(0, 9e15), kDefault, "of the simulated failures"));
  return all;
}

}  // namespace rehearsal::job
