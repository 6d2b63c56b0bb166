#include "plan/rank_layout.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::plan {

RankLayout::RankLayout(Mesh mesh) : ranks_(mesh.ranks()), pipeline_(mesh.size(Axis::pipeline)) {
  meshes_.push_back(std::move(mesh));
}

RankLayout::RankLayout(std::vector<Mesh> of_stages)
    : meshes_(std::move(of_stages)), pipeline_(static_cast<std::uint32_t>(meshes_.size())) {
  for (const auto& mesh : meshes_) {
    INVARIANT(mesh.size(Axis::pipeline) == 1, "the mesh of one stage");
    first_.push_back(ranks_);
    ranks_ += mesh.ranks();
  }
}

std::uint32_t RankLayout::stage(std::uint32_t rank) const {
  if (uniform()) return mesh().along(Axis::pipeline, rank);
  return static_cast<std::uint32_t>(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin() - 1);
}

std::uint32_t RankLayout::members(std::uint32_t stage) const {
  return uniform() ? ranks_ / pipeline_ : meshes_[stage].ranks();
}

std::uint32_t RankLayout::member(std::uint32_t stage, std::uint32_t number) const {
  if (!uniform()) return first_[stage] + number;
  return mesh().lowest(Axis::pipeline, number) + stage * mesh().stride(Axis::pipeline);
}

std::uint32_t RankLayout::number(std::uint32_t rank) const {
  if (!uniform()) return rank - base(rank);
  const auto s = mesh().stride(Axis::pipeline);
  return rank % s + rank / (s * pipeline_) * s;
}

RankPlace RankLayout::at(std::uint32_t rank) const {
  auto place = mesh_of(rank).at(rank - base(rank));
  if (!uniform()) place.along[index(Axis::pipeline)] = stage(rank);
  return place;
}

std::uint32_t RankLayout::size(Axis axis, std::uint32_t rank) const {
  return axis == Axis::pipeline ? pipeline_ : mesh_of(rank).size(axis);
}

bool RankLayout::meets(Axis axis) const {
  return std::any_of(meshes_.begin(), meshes_.end(), [&](const Mesh& mesh) { return mesh.size(axis) > 1; });
}

std::uint32_t RankLayout::first(Axis axis, std::uint32_t rank) const {
  return base(rank) + mesh_of(rank).first(axis, rank - base(rank));
}

std::vector<std::uint32_t> RankLayout::group(Axes axes, std::uint32_t rank) const {
  auto ranks = mesh_of(rank).group(axes, rank - base(rank));
  for (auto& r : ranks) r += base(rank);
  return ranks;
}

std::vector<std::vector<std::uint32_t>> RankLayout::groups(Axes axes) const {
  if (uniform()) return mesh().groups(axes);
  std::vector<std::vector<std::uint32_t>> all;
  if (axes == Axes(Axis::pipeline)) {
    for (std::uint32_t i = 0; i < std::min(members(0), members(pipeline_ - 1)); ++i)
      all.push_back({member(0, i), member(pipeline_ - 1, i)});
    return all;
  }
  for (std::uint32_t s = 0; s < pipeline_; ++s)
    for (auto& group : meshes_[s].groups(axes)) {
      for (auto& r : group) r += first_[s];
      all.push_back(std::move(group));
    }
  return all;
}

}  // namespace rehearsal::plan
