// Data-parallel traffic in closed form: whole passes of all gradients, or all parameters, over the replicas.
// ZeRO (arXiv 1910.02054, section 7) counts an all-reduce as two passes, a reduce-scatter or an all-gather as one:
//   gradients all-reduced                                       2 Psi   ZeRO-0, DDP
//   gradients reduced to shards, parameters gathered            2 Psi   ZeRO-1, 2
//   gradients all-reduced, parameters gathered                  3 Psi   ZeRO-1 that reduces all
//   (framework.zero1_reduces) parameters gathered for forward and backward, gradients reduced to shards   3 Psi ZeRO-3
// of a step with one micro-batch. Here ZeRO-2 reduces, and ZeRO-3 gathers and reduces, in each of m micro-batches.
// ZeRO++ (arXiv 2306.10209, section 3) leaves one gather of a step to all, the others to fewer, and has fewer bits; of
// two hops of an exchange, (a-1)/a + (b-1)/(ab) = (n-1)/n of the whole are sent. Groups that hold copies (HSDP)
// all-reduce what each has summed.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "plan/plan.hpp"

namespace rehearsal::plan {

struct DataVolume {
  double parameters = 0;                           // Psi: of the GPU that sends most, before ZeRO shards them
  double experts = 0;                              // of these, in experts, whose replicas are fewer
  std::int64_t replicas = 1, expert_replicas = 1;  // n
  std::int64_t microbatches = 1;
  int zero = 0;
  std::int64_t gradients = 0, gathers = 0;         // passes
  std::int64_t again = 0, again_over = 1;          // of these gathers, among so many GPUs
  std::int64_t copies = 1;                         // groups that sum what they have reduced
  double gradient_bytes = 0, parameter_bytes = 0;  // of each, in the precision in which it travels

  // Sent by a GPU: a pass among n is (n-1)/n of the whole.
  double bytes() const {
    const auto sent = [](double whole, std::int64_t n) { return whole * double(n - 1) / double(n); };
    const double passes = double(gradients) * gradient_bytes + double(gathers - again) * parameter_bytes;
    const double all = passes * (sent(parameters - experts, replicas) + sent(experts, expert_replicas));
    const double summed =
        copies > 1 ? 2 * double(gradients) * gradient_bytes * sent(parameters, copies) / double(replicas) : 0;
    return all + double(again) * parameter_bytes * sent(parameters, again_over) + summed;
  }
  std::string form() const;  // "2 Psi", "(16 + 1) Psi", "16 x 3 Psi", "2 Psi, experts among 4"
};

// For a framework. `stage_ranks`: the pipeline rank of every stage.
DataVolume data_volume(const Plan& plan, std::span<const std::uint32_t> stage_ranks);

}  // namespace rehearsal::plan
