// A graph with one rank of each class: its ranks, channels and groups, and the resources that they load.
#pragma once
#include <functional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/job_actors.hpp"

namespace rehearsal::lower {

class GraphAssembler {
 public:
  // `class_of`: of each actor. Both arguments must outlive this object.
  GraphAssembler(const JobActors& actors, const std::vector<std::uint32_t>& class_of)
      : actors_(actors), of_(class_of), size_(actors.size()), at_(actors.size(), kNone), first_of_(actors.size()) {
    for (auto a = actors.size(); a-- > 0;) ++size_[of_[a]], first_of_[of_[a]] = a;
  }

  struct GpuSlot {
    ProgramId program;
    std::uint32_t stands_for = 1;  // times the members of its class
    std::uint32_t job_rank = 0, node = 0;
    RankPlace place = {};
  };
  void ranks(graph::GraphBuilder& builder, const std::function<GpuSlot(std::uint32_t rank)>& seat);
  void connect(graph::GraphBuilder& builder);
  // The load that all members of a class put on the first resource of each class.
  graph::ResourceTable places(const Csr<ActorLoad>& loads, const std::vector<cluster::Resource>& resources,
                              const Classes* classes, const cluster::Machine& machine) const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  bool first(std::uint32_t actor) const { return first_of_[of_[actor]] == actor; }
  RankId rank(std::uint32_t job_rank) const { return RankId(at_[of_[job_rank]]); }

  const JobActors& actors_;
  const std::vector<std::uint32_t>& of_;
  std::vector<std::uint32_t> size_, at_;  // by class: member count; its number in the graph
  std::vector<std::uint32_t> first_of_;
  std::uint32_t groups_ = 0;
};

}  // namespace rehearsal::lower
