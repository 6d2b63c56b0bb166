// All ranks of a job: one mesh, or, if layouts of stages differ, a mesh for each pipeline rank, whose ranks follow
// those of the previous one.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/mesh.hpp"

namespace rehearsal::plan {

class RankLayout {
 public:
  RankLayout(Mesh mesh);  // NOLINT(google-explicit-constructor): a mesh is one
  // One mesh per stage, without a pipeline axis.
  explicit RankLayout(std::vector<Mesh> of_stages);

  bool uniform() const { return first_.empty(); }
  const Mesh& mesh() const { return meshes_.front(); }  // of a uniform one
  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t pipeline() const { return pipeline_; }
  std::uint32_t stage(std::uint32_t rank) const;  // its pipeline rank
  // Ranks of a stage: numbered from 0, and as ranks of the job.
  std::uint32_t members(std::uint32_t stage) const;
  std::uint32_t member(std::uint32_t stage, std::uint32_t number) const;
  std::uint32_t number(std::uint32_t rank) const;  // in its stage

  RankPlace at(std::uint32_t rank) const;
  std::uint32_t size(Axis axis, std::uint32_t rank) const;   // of the groups along it that a rank is in
  bool meets(Axis axis) const;                               // some group along it has two members
  std::uint32_t first(Axis axis, std::uint32_t rank) const;  // of its group
  std::vector<std::uint32_t> group(Axes axes, std::uint32_t rank) const;
  std::vector<std::vector<std::uint32_t>> groups(Axes axes) const;  // Axis::pipeline: of the first and the last stage,
                                                                    // where these are cut alike

 private:
  const Mesh& mesh_of(std::uint32_t rank) const { return meshes_[uniform() ? 0 : stage(rank)]; }
  std::uint32_t base(std::uint32_t rank) const { return uniform() ? 0 : first_[stage(rank)]; }

  std::vector<Mesh> meshes_;
  std::vector<std::uint32_t> first_;  // rank of each stage
  std::uint32_t ranks_ = 0, pipeline_ = 0;
};

}  // namespace rehearsal::plan
