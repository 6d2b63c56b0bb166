// How shards of ZeRO-3 travel: parameters from all ranks that share them, or from fewer that have kept what a pass
// before gathered (plan::StatePolicy::Again), in 16 bits or in 8; gradients reduced in 16 bits or exchanged in 4,
// inside nodes and then across (ZeRO++, arXiv 2306.10209, section 3). Kernels that quantise and widen run on the lane
// of the collective, as on DeepSpeed's streams of gathers and of reductions.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

class ShardTraffic {
 public:
  using Place = std::pair<std::uint32_t, std::size_t>;  // a stage, and which of its uses

  ShardTraffic(ProgramDraft& draft, const plan::StatePolicy& policy);

  // Gathers `count` parameters of a part: of all else, then of experts. `uses`: of the gather; the last of them
  // allocates the whole.
  LocalTask gather(Place place, graph::Collective what, double count, const graph::Coordinates& at,
                   std::vector<LocalTask> after, std::vector<graph::BufferUse> uses, bool experts);
  // Whether a part that is dropped behind a pass is kept by fewer ranks, whose task keep() adds. It frees `dropped`.
  bool keeps(Place place, graph::Pass pass) const;
  LocalTask keep(Place place, const std::array<double, 2>& parameters, double each, const models::Part& part,
                 const graph::Coordinates& at, std::vector<graph::BufferUse> dropped);
  // Exchanges gradients in 4 bits; each rank has the sums of its shard after the task that is returned. It frees what
  // `uses` frees.
  LocalTask exchange(const models::Part& part, double count, bool experts, const graph::Coordinates& at,
                     std::vector<LocalTask> after, std::vector<graph::BufferUse> uses);
  // A step has updated the parameters: nothing that was kept is true any more.
  void updated() { copied_.clear(); }

 private:
  void take_part(Place place, std::vector<graph::BufferUse>& uses);
  bool again(Place place) const { return copied_.count(place) > 0 || parts_.count(place) > 0; }
  LocalTask kernel(double bytes, std::int64_t kernels, const graph::Coordinates& at, std::vector<LocalTask> after,
                   std::vector<graph::BufferUse> uses);
  BufferId buffer(double bytes);

  ProgramDraft& draft_;
  const plan::Plan& plan_;
  const plan::StatePolicy::Again again_;
  std::set<Place> copied_;                        // of which there is a second copy
  std::map<Place, std::vector<BufferId>> parts_;  // that ranks have kept of a forward, in the order of gathers
};

}  // namespace rehearsal::lower
