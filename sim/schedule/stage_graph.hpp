// What feeds a stage: a chain, one for each direction of the model, or any graph whose edges ascend (Problem::edges).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

class StageGraph {
 public:
  StageGraph(const Schedule& schedule, const Problem& problem);

  // Edges that end at a stage, by the stage they come from, and those that begin there, by the stage they go to, both
  // ascending. Messages of one pass go out in this order forward, and in the order of into() backward.
  std::span<const Edge> into(std::uint32_t stage) const { return of(into_, into_first_, stage); }
  std::span<const Edge> out_of(std::uint32_t stage) const { return of(out_, out_first_, stage); }
  // Edges that turn (Edge::turns), likewise: those that the gradient of a stage waits for, and those that its forward
  // sends to.
  std::span<const Edge> turned_into(std::uint32_t stage) const { return of(turned_in_, turned_in_first_, stage); }
  std::span<const Edge> turned_out_of(std::uint32_t stage) const { return of(turned_out_, turned_out_first_, stage); }
  bool chain() const { return chain_; }  // or chains: no stage feeds several

 private:
  static std::span<const Edge> of(const std::vector<Edge>& edges, const std::vector<std::uint32_t>& first,
                                  std::uint32_t stage) {
    return {edges.data() + first[stage], first[stage + 1] - first[stage]};
  }
  std::vector<Edge> into_, out_, turned_in_, turned_out_;
  std::vector<std::uint32_t> into_first_, out_first_, turned_in_first_, turned_out_first_;
  bool chain_ = true;
};

// How the edges differ from the one chain 0, 1, 2, ...: "stage 0 also feeds stage 3", "stage 1 does not feed stage 2".
// Nothing if they do not.
std::optional<std::string> no_chain(const Problem& problem);

}  // namespace rehearsal::schedule
