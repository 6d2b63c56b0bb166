// The places of the ranks of a job: every rank has a coordinate along four axes, whose order says which ranks are
// neighbours. Rank numbers are GPU numbers.
//
//   rank = sum over the factors of coordinate x stride, stride = product of the sizes of the axes further inside.
//
// Experts fold the ranks of one pipeline rank a second time. Number those ranks 0, 1, ... as they follow each other; of
// that number expert_tensor, expert and expert_data are the digits, in the order in which `tensor`, `expert` and `data`
// stand in the placement. Expert ranks are thus neighbours where `expert` stands innermost.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/axes.hpp"
#include "base/kernels.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::plan {

// As users write it, from the innermost: tensor, context, expert, data and pipeline, each once.
using AxisOrder = std::array<Axis, 5>;
inline constexpr AxisOrder kUsualOrder{Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline};

class Mesh {
 public:
  using Sizes = std::array<std::uint32_t, kFactors>;  // indexed by Axis
  struct Experts {
    std::uint32_t expert = 1, tensor = 1;  // the rest of tensor x context x data is expert_data
  };

  Mesh() : Mesh(Sizes{1, 1, 1, 1}) {}
  // `shard`: the size of Axis::shard, which divides that of data; 0: as large. `secondary`, `near`: theirs, which
  // divide that. Throws UserError when the experts do not divide tensor x context x data.
  explicit Mesh(const Sizes& sizes, const AxisOrder& order = kUsualOrder, Experts experts = {1, 1},
                std::uint32_t shard = 0, std::uint32_t secondary = 1, std::uint32_t near = 1);

  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t size(Axis axis) const { return size_[index(axis)]; }
  // Ranks from one to the next along a factor.
  std::uint32_t stride(Axis factor) const { return stride_[index(factor)]; }
  const AxisOrder& order() const { return order_; }
  // Axes along which ranks hold the same parameters, apart from experts: a context group sees parts of the same
  // sequences.
  Axes replicas() const { return with_context(Axis::data); }
  Axes with_context(Axis axis) const { return size(Axis::context) > 1 ? Axis::context | axis : Axes(axis); }

  std::uint32_t rank(const RankPlace& place) const;
  RankPlace at(std::uint32_t rank) const;
  std::uint32_t along(Axis axis, std::uint32_t rank) const;  // its coordinate, of either folding

  // Ranks that differ from this one along these axes of one folding only, ascending: along one axis by coordinate.
  std::vector<std::uint32_t> group(Axes axes, std::uint32_t rank) const;
  // All such groups, by their lowest rank: a partition of the ranks.
  std::vector<std::vector<std::uint32_t>> groups(Axes axes) const;
  // The member with coordinate 0 in a rank's group along an axis.
  std::uint32_t first(Axis axis, std::uint32_t rank) const { return moved(rank, axis, 0); }
  // The lowest rank of the i-th group along a factor, without listing any.
  std::uint32_t lowest(Axis factor, std::uint32_t i) const;

  // The shape of such groups for prices; all of them communicate at once. Throws UserError if their ranks are not
  // evenly spaced.
  GroupShape shape(Axes axes) const;
  // The shape of the first and the last rank along a factor.
  GroupShape ends(Axis factor) const;

 private:
  // The number of a rank among those of its pipeline rank, and back.
  std::uint32_t within_stage(std::uint32_t rank) const;
  std::uint32_t of_stage(std::uint32_t number, std::uint32_t pipeline) const;
  std::uint32_t moved(std::uint32_t rank, Axis axis, std::uint32_t to) const;  // along one axis

  std::array<std::uint32_t, kAxes> size_{};
  std::array<std::uint32_t, kAxes> stride_{};  // of the second folding: within the pipeline rank
  AxisOrder order_;
  std::uint32_t ranks_ = 1;
};

// The mesh of a job with this parallelism.
Mesh mesh_of(const Parallelism& parallelism, const AxisOrder& placement);

}  // namespace rehearsal::plan
