// Builds a TaskGraph: programs first, then ranks, then the channels and groups that join them.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::graph {

struct TaskSpec {
  WorkId work;
  Lane lane = Lane::compute;
  Coordinates coordinates;
  std::uint32_t endpoint = kNoEndpoint;
  std::uint32_t fold = 0;  // index from ProgramBuilder::fold
};

// Appends tasks in program order.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }

  EndpointId endpoint(EndpointKind kind);
  BufferId buffer(Buffer buffer);
  const Buffer& buffer(BufferId id) const { return program_.buffers[id.index()]; }
  BufferId resident(Buffer buffer);        // before the first other buffer
  std::uint32_t tensors(TensorList list);  // for Buffer::tensors
  std::uint32_t fold(FusedTask fold);
  std::size_t segment(Segment segment) {
    program_.segments.push_back(std::move(segment));
    return program_.segments.size() - 1;
  }
  void host_step(std::size_t segment, LocalTask task) { program_.segments[segment].host_step = task; }
  // `after` are earlier tasks of this program (on other lanes; order on one lane is implied).
  LocalTask add(const TaskSpec& spec, std::span<const LocalTask> after = {}, std::span<const BufferUse> uses = {});
  std::size_t size() const { return program_.size(); }
  WorkId work(LocalTask task) const { return program_.work[task.index()]; }
  std::optional<LocalTask> last(Lane lane) const { return last_[static_cast<std::size_t>(lane)]; }

  Program finish() &&;

 private:
  Program program_;
  std::vector<std::vector<LocalTask>> endpoint_tasks_;
  std::array<std::optional<LocalTask>, kLanes> last_;
};

class GraphBuilder {
 public:
  // Equal works under equal conditions get equal ids, in order of first appearance.
  WorkId intern(const Work& work, const Condition& condition = {});
  // The same work with its kernels and its links (collectives, messages) under these conditions; its components too.
  WorkId under(WorkId work, const Condition& kernels, const Condition& links);
  std::span<const Work> works() const { return graph_.works_; }
  std::span<const Condition> conditions() const { return graph_.conditions_; }
  ProgramId add(Program program);
  RankId add_rank(ProgramId program, std::uint32_t multiplicity = 1, std::uint32_t job_rank = 0, std::uint32_t node = 0,
                  const RankPlace& place = {});
  // Joins a send endpoint of one rank with a receive endpoint of another.
  void connect(RankId sender, EndpointId send, RankId receiver, EndpointId receive);
  void add_group(Axes axes, std::vector<GroupMember> members);

  // Appends a whole graph with its programs repeated, a barrier after each iteration: one more task per program and one
  // more group. Its works are not merged with equal ones; they follow in their order, and after them an empty one for
  // the barrier.
  void append(const TaskGraph& graph, std::uint32_t iterations);

  // Throws InternalError when an endpoint is left open or the two ends of a channel differ in length.
  TaskGraph finish() &&;

 private:
  TaskGraph graph_;
  std::map<std::pair<Work, Condition>, WorkId> interned_;
  std::vector<std::vector<bool>> attached_;
};

}  // namespace rehearsal::graph
