// A vocabulary that is cut over the pipeline ranks (arXiv 2411.05288): what its parts read from the last stage of the
// layers, what they agree on, and their sum back to it, as collectives of all pipeline ranks beside the passes. Each of
// the three has a lane and a group of its own, whose meetings are in the order of the micro-batches on every rank.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "graph/builder.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::lower {

struct Ends;

struct VocabularyWorks {
  WorkId in{}, sums{}, out{};  // the output of the last layer; largest logit and sum of each token; input gradients
};
VocabularyWorks vocabulary_works(const plan::Plan& plan, graph::GraphBuilder& builder);
// Edges of the stages as a schedule sees them. Times of the collectives, where each is alone.
std::vector<schedule::Edge> vocabulary_edges(std::uint32_t ranks, Time in, Time sums, Time out);

// Of one rank: called around its passes.
class VocabularyMeetings {
 public:
  // `splits`: input gradients are made with the logits, before the ranks agree (one barrier instead of two).
  VocabularyMeetings(const VocabularyWorks& works, std::uint32_t rank, std::uint32_t ranks, bool splits,
                     graph::ProgramBuilder& program, Ends& ends)
      : works_(works), rank_(rank), ranks_(ranks), splits_(splits), program_(program), ends_(ends) {}

  void before(const graph::Coordinates& at, std::vector<LocalTask>& waits);
  void after(const graph::Coordinates& at, LocalTask done);

 private:
  struct Meeting {
    WorkId work;
    graph::Lane lane{};
    std::size_t end = 0;
  };
  LocalTask meet(const Meeting& meeting, const graph::Coordinates& at, const std::vector<LocalTask>& after);
  bool part(const graph::Coordinates& at) const { return at.stage >= ranks_; }
  bool last_stage(const graph::Coordinates& at) const { return at.stage + 1u == ranks_; }

  const VocabularyWorks& works_;
  std::uint32_t rank_, ranks_;
  bool splits_;
  graph::ProgramBuilder& program_;
  Ends& ends_;
  std::map<std::uint32_t, LocalTask> sums_, out_;  // by micro-batch, until they are awaited
};

}  // namespace rehearsal::lower
