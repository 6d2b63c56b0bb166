// The order in which interleaved schedules take micro-batches through the chunks of a rank: in groups of g, the whole
// group through chunk 0, then through chunk 1, and so on (Megatron-LM, arXiv 2104.04473, section 2.2).
#pragma once
#include <algorithm>
#include <cstdint>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

// Walks the m*v (chunk, micro-batch) pairs; the last group may be shorter.
class GroupOrder {
 public:
  GroupOrder(const Problem& problem, std::uint32_t group)
      : microbatches_(problem.microbatches),
        chunks_(problem.chunks),
        group_(group),
        end_(std::min(group, problem.microbatches)) {}

  std::uint32_t microbatch() const { return microbatch_; }
  std::uint32_t chunk() const { return chunk_; }
  void advance() {
    if (++microbatch_ < end_) return;
    if (++chunk_ < chunks_) {
      microbatch_ = begin_;
      return;
    }
    chunk_ = 0;
    begin_ = end_;
    end_ += std::min(group_, microbatches_ - end_);
  }

  // The pair as an action: forwards take the chunks upwards, backwards downwards.
  Action action(const Problem& problem, std::uint32_t rank, Op op) const {
    const std::uint32_t chunk = op == Op::forward ? chunk_ : chunks_ - 1 - chunk_;
    return {microbatch_, static_cast<std::uint16_t>(stage_of(Placement::loop, problem, rank, chunk)), op};
  }

 private:
  std::uint32_t microbatches_, chunks_, group_;
  std::uint32_t begin_ = 0, end_;  // micro-batches of the current group
  std::uint32_t microbatch_ = 0, chunk_ = 0;
};

}  // namespace rehearsal::schedule
