#include "plan/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::plan {
namespace {

// A factor, or a part of one.
constexpr bool is_factor(Axis axis) { return index(axis) < kFactors || cuts_data(axis); }

// Whether the axes belong to one folding; either has the pipeline.
bool of_one_folding(Axes axes) {
  bool first = false, second = false;
  for (std::size_t a = 0; a < kAxes; ++a)
    if (const auto axis = static_cast<Axis>(a); axes.holds(axis) && axis != Axis::pipeline)
      (is_factor(axis) ? first : second) = true;
  return !(first && second);
}

// The axis of the second folding in the place of this one; context has none.
Axis folded(Axis axis) {
  return axis == Axis::tensor ? Axis::expert_tensor : axis == Axis::data ? Axis::expert_data : axis;
}

}  // namespace

Mesh::Mesh(const Sizes& sizes, const AxisOrder& order, Experts experts, std::uint32_t shard, std::uint32_t secondary,
           std::uint32_t near)
    : order_(order) {
  std::copy(sizes.begin(), sizes.end(), size_.begin());
  for (const Axis axis : kUsualOrder)
    INVARIANT(std::count(order.begin(), order.end(), axis) == 1, "an order names each axis once");
  for (const Axis axis : order) {
    if (!is_factor(axis)) continue;
    INVARIANT(size(axis) >= 1, "a mesh has at least one rank along every axis");
    stride_[index(axis)] = ranks_;
    ranks_ *= size(axis);
  }
  INVARIANT(shard == 0 || size(Axis::data) % shard == 0, "shards divide the replicas");
  size_[index(Axis::shard)] = shard == 0 ? size(Axis::data) : shard;
  size_[index(Axis::copy)] = size(Axis::data) / size(Axis::shard);
  INVARIANT(size(Axis::shard) % secondary == 0 && size(Axis::shard) % near == 0, "parts divide the shards");
  size_[index(Axis::secondary)] = secondary, size_[index(Axis::near)] = near;
  size_[index(Axis::across)] = near == 1 ? 1 : size(Axis::shard) / near;
  for (const Axis axis : {Axis::shard, Axis::secondary, Axis::near}) stride_[index(axis)] = stride(Axis::data);
  stride_[index(Axis::copy)] = stride(Axis::data) * size(Axis::shard);
  stride_[index(Axis::across)] = stride(Axis::data) * near;
  const std::uint32_t stage = ranks_ / size(Axis::pipeline);
  if (experts.expert < 1 || experts.tensor < 1 || stage % (std::uint64_t{experts.expert} * experts.tensor) != 0)
    throw UserError(fmt::format("expert {} x expert-tensor {} does not divide tensor x context x data = {} GPUs",
                                experts.expert, experts.tensor, stage));
  size_[index(Axis::expert_tensor)] = experts.tensor;
  size_[index(Axis::expert)] = experts.expert;
  size_[index(Axis::expert_data)] = stage / (experts.tensor * experts.expert);
  std::uint32_t inside = 1;
  for (const Axis axis : order) {
    const Axis second = folded(axis);
    if (is_factor(second)) continue;
    stride_[index(second)] = inside;
    inside *= size(second);
  }
}

std::uint32_t Mesh::rank(const RankPlace& place) const {
  std::uint32_t rank = 0;
  for (std::size_t f = 0; f < kFactors; ++f) {
    INVARIANT(place.along[f] < size_[f], "a place on the mesh");
    rank += place.along[f] * stride_[f];
  }
  return rank;
}

RankPlace Mesh::at(std::uint32_t rank) const {
  INVARIANT(rank < ranks_, "a rank of the mesh");
  RankPlace place;
  for (std::size_t a = 0; a < kAxes; ++a) place.along[a] = along(static_cast<Axis>(a), rank);
  const auto data = size(Axis::data), context = size(Axis::context);
  place.expert_replica = place[Axis::expert_data];
  const auto with_context = [&](Axis axis, std::uint32_t size) {
    return stride(Axis::context) < stride(Axis::data) ? place[axis] * context + place[Axis::context]
                                                      : place[Axis::context] * size + place[axis];
  };
  place.replica = with_context(Axis::data, data), place.share = with_context(Axis::shard, size(Axis::shard));
  return place;
}

// Removing a digit from a number closes its gap.
std::uint32_t Mesh::within_stage(std::uint32_t rank) const {
  const auto s = stride(Axis::pipeline);
  return rank % s + rank / (s * size(Axis::pipeline)) * s;
}

std::uint32_t Mesh::of_stage(std::uint32_t number, std::uint32_t pipeline) const {
  return lowest(Axis::pipeline, number) + pipeline * stride(Axis::pipeline);
}

std::uint32_t Mesh::lowest(Axis factor, std::uint32_t i) const {
  const auto s = stride(factor);
  return i % s + i / s * s * size(factor);
}

std::uint32_t Mesh::along(Axis axis, std::uint32_t rank) const {
  return (is_factor(axis) ? rank : within_stage(rank)) / stride_[index(axis)] % size(axis);
}

std::uint32_t Mesh::moved(std::uint32_t rank, Axis axis, std::uint32_t to) const {
  const auto s = stride_[index(axis)];
  const auto shifted = [&](std::uint32_t number) { return number - number / s % size(axis) * s + to * s; };
  return is_factor(axis) ? shifted(rank) : of_stage(shifted(within_stage(rank)), along(Axis::pipeline, rank));
}

std::vector<std::uint32_t> Mesh::group(Axes axes, std::uint32_t rank) const {
  INVARIANT(of_one_folding(axes), "axes of one folding");
  std::vector<std::uint32_t> ranks{rank};
  for (std::size_t a = 0; a < kAxes; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (!axes.holds(axis)) continue;
    std::vector<std::uint32_t> more;
    for (const auto r : ranks)
      for (std::uint32_t to = 0; to < size(axis); ++to) more.push_back(moved(r, axis, to));
    ranks = std::move(more);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<std::vector<std::uint32_t>> Mesh::groups(Axes axes) const {
  std::vector<std::vector<std::uint32_t>> all;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    bool lowest = true;
    for (std::size_t a = 0; a < kAxes; ++a)
      if (const auto axis = static_cast<Axis>(a); axes.holds(axis)) lowest = lowest && along(axis, rank) == 0;
    if (lowest) all.push_back(group(axes, rank));
  }
  return all;
}

GroupShape Mesh::shape(Axes axes) const {
  const auto uneven = [&] {
    return UserError(
        fmt::format("the ranks of a group along {} are not evenly spaced with this placement", name(axes)));
  };
  GroupShape shape;
  const bool second = !of_one_folding(axes | Axis::tensor);
  const auto p = stride(Axis::pipeline), stages = size(Axis::pipeline);
  if (second && p > 1 && p * stages < ranks_) {  // a pipeline in the middle splits the second numbering
    for (const auto& group : groups(axes)) {
      if (group.front() == 0 && group.size() > 1) shape.stride = group[1];
      shape.ranks = static_cast<std::uint32_t>(group.size());
      for (std::size_t i = 1; i < group.size(); ++i)
        if (group[i] - group[i - 1] != shape.stride) throw uneven();
    }
    return shape;
  }
  for (const Axis axis : order_) {
    Axis here = second ? folded(axis) : axis;
    for (const Axis part : {Axis::shard, Axis::copy, Axis::secondary, Axis::near, Axis::across})
      if (here == Axis::data && axes.holds(part)) here = part;
    if (!axes.holds(here)) continue;
    const auto s = stride_[index(here)] * (second && p == 1 && here != Axis::pipeline ? stages : 1);
    if (shape.ranks > 1 && size(here) > 1 && s != shape.ranks * shape.stride) throw uneven();
    if (shape.ranks == 1) shape.stride = s;
    shape.ranks *= size(here);
  }
  return shape;
}

GroupShape Mesh::ends(Axis factor) const { return {2, std::max(1u, (size(factor) - 1) * stride(factor))}; }

Mesh mesh_of(const Parallelism& p, const AxisOrder& placement) {
  Mesh::Sizes sizes{1, 1, 1, 1};
  sizes[index(Axis::tensor)] = static_cast<std::uint32_t>(p.tensor);
  sizes[index(Axis::context)] = static_cast<std::uint32_t>(p.context);
  sizes[index(Axis::data)] = static_cast<std::uint32_t>(p.data);
  sizes[index(Axis::pipeline)] = static_cast<std::uint32_t>(p.pipeline);
  return Mesh(sizes, placement, {static_cast<std::uint32_t>(p.expert), static_cast<std::uint32_t>(p.expert_tensor)},
              static_cast<std::uint32_t>(p.shard), static_cast<std::uint32_t>(p.again),
              static_cast<std::uint32_t>(p.near));
}

}  // namespace rehearsal::plan
