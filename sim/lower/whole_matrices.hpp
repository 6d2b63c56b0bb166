// A step on whole matrices, by native kernels (models/optimizers/muon.cpp): of the momentum of each its orthogonal
// factor, by five Newton-Schulz iterations (Jordan et al. 2024; coefficients: base/kernels.hpp).
#pragma once
#include <optional>
#include <vector>

#include "lower/sequencer.hpp"
#include "lower/shard_state.hpp"

namespace rehearsal::lower {

// Where ranks share the states of a segment, they gather what each has of its momenta and deal its matrices out whole,
// by shape: an owner makes the factors of its own, and all gather those (Liu et al., arXiv 2502.16982, section 3.1).
// Each then steps on its own shard. Without shards every rank makes all of them, in place.
class WholeMatrices {
 public:
  WholeMatrices(ProgramDraft& draft, Sequencer& sequencer) : draft_(draft), sequencer_(sequencer) {}

  // `gradient`: of all of the segment, or (`shard`) of the own shard. It is clear afterwards; of a whole one that has
  // shards, only the own part. The last task frees `free`.
  void step(const ShardState& held, models::OwnShard own, BufferId gradient, bool shard, const graph::Coordinates& at,
            std::optional<BufferId> free);

 private:
  struct Shape {
    std::int64_t rows = 0, columns = 0;
    std::int64_t elements() const { return rows * columns; }
    std::int64_t side() const { return std::min(rows, columns); }
    // Of an iteration: X X^T and its square on the shorter side, and their sum times X.
    std::int64_t work() const { return 2 * side() * side() + elements(); }
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };
  using Uses = std::vector<graph::BufferUse>;

  // A kernel in fp32, whatever the network computes in.
  void wide(Kernel kernel, const graph::Coordinates& at, const Uses& uses);
  // In place of the elements of `matrix` from `first` on.
  void orthogonalise(const Shape& shape, BufferId matrix, std::int64_t first, BufferId work,
                     const graph::Coordinates& at);
  void by_owners(const ShardState& held, const Shape& shape, const std::vector<std::int64_t>& places, BufferId whole,
                 BufferId work, const graph::Coordinates& at);
  BufferId made(std::int64_t elements);

  ProgramDraft& draft_;
  Sequencer& sequencer_;
};

}  // namespace rehearsal::lower
