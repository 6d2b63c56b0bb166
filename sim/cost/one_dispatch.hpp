// Tokens on their way to their experts, or back, by themselves: what `rehearse collective dispatch` and `combine` ask,
// of the price that experts have in a step.
#pragma once
#include <string>
#include <vector>

#include "cost/cost_model.hpp"
#include "cost/one_collective.hpp"

namespace rehearsal::cost {

struct DispatchQuestion {
  bool combine = false;                       // back from the experts, in 16 bits whatever is said
  std::int64_t tokens = 4096, hidden = 7168;  // of each rank; values of each
  std::int64_t experts = 256, per_token = 8;  // of all ranks together
  models::Dispatcher dispatcher = models::Dispatcher::nccl;
  bool narrow = false;             // 8 bits a value on the way there
  std::vector<double> loads = {};  // of the ranks, in any unit; empty: all are as busy as each other
};

struct OneDispatch {
  DispatchQuestion question;
  graph::Dispatch work;
  CostModel::Hops sent;  // bytes of each rank, over NVLink and over NICs
  double seconds = 0;
  double inside_rate() const { return sent.inside / seconds; }  // bytes/s of one GPU
  double out_rate() const { return sent.out / seconds; }
};

// The ranks by how busy they are, the busiest first. Throws UserError if a token sees more experts than there are, or
// the ranks do not divide them, or there are not as many loads.
OneDispatch one_dispatch(const cluster::ClusterSpec& machine, const collective::SizeCurves& curves,
                         const DispatchQuestion& question, const GroupShape& group);

}  // namespace rehearsal::cost
