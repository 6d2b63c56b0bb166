#include "lower/delayed.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"

namespace rehearsal::lower {
namespace {

using graph::Lane;
using graph::Pass;

class Copies {
 public:
  Copies(const graph::Program& one, const plan::DataParallel& data, std::uint32_t iterations)
      : one_(one),
        data_(data),
        n_(iterations),
        worker_(is_worker(one)),
        program_(one.name),
        at_(std::size_t{iterations} * one.size()) {
    for (const auto kind : one.endpoints) program_.endpoint(kind);
    for (const auto& buffer : one.resident()) residents_.push_back(program_.resident(buffer));
    for (std::size_t f = 1; f < one.folds.size(); f++) program_.fold(one.folds[f]);
    buffers_.resize(n_);
  }

  void run() {
    const auto behind = static_cast<std::uint32_t>(std::max<std::int64_t>(0, data_.delay)) + 1;
    for (std::uint32_t k = 0; k < n_; k++) {
      if (k >= behind) steps(k - behind);
      iteration(k, behind);
    }
    for (std::uint32_t k = n_ - std::min(n_, behind); k < n_; k++) steps(k);
  }

  graph::Program finish() && { return std::move(program_).finish(); }
  std::vector<LocalTask> at() && { return std::move(at_); }

 private:
  bool is_step(std::size_t task) const { return worker_ && one_.coordinates[task].pass == Pass::optimizer; }

  // The update of a worker comes before the passes that need it.
  void steps(std::uint32_t k) {
    for (std::size_t i = 0; i < one_.size(); i++)
      if (is_step(i)) add(k, i, {});
  }

  void iteration(std::uint32_t k, std::uint32_t behind) {
    buffers_[k] = residents_;
    for (std::size_t i = one_.residents; i < one_.buffers.size(); i++)
      buffers_[k].push_back(program_.buffer(one_.buffers[i]));
    bool begun = !worker_;
    for (std::size_t i = 0; i < one_.size(); i++) {
      if (is_step(i)) continue;
      std::vector<LocalTask> after;
      if (!begun && one_.lane[i] == Lane::compute) after = awaited(k, behind), begun = true;
      add(k, i, std::move(after));
    }
  }

  std::vector<LocalTask> awaited(std::uint32_t k, std::uint32_t behind) const {
    std::vector<LocalTask> tasks;
    const auto last = [&](std::uint32_t of, const auto& wanted) {
      for (std::size_t i = one_.size(); i-- > 0;)
        if (wanted(one_.lane[i], one_.coordinates[i].pass)) return tasks.push_back(at_[of * one_.size() + i]);
    };
    if (k >= behind && !data_.unbounded() && data_.update == plan::DataParallel::Update::server)
      last(k - behind, [](Lane lane, Pass) { return lane == Lane::receive; });
    for (const auto wire : {Lane::send, Lane::send_out})
      if (k >= 2) last(k - 2, [&](Lane lane, Pass) { return lane == wire; });
    return tasks;
  }

  void add(std::uint32_t k, std::size_t task, std::vector<LocalTask> after) {
    const std::size_t base = k * one_.size();
    for (const LocalTask before : one_.dependencies[task]) after.push_back(at_[base + before.index()]);
    std::vector<graph::BufferUse> uses;
    for (const auto& use : one_.uses[task]) uses.emplace_back(buffers_[k][use.id().index()], use.how());
    const auto fold = one_.fold.empty() ? 0 : one_.fold[task];
    at_[base + task] = program_.add(
        {one_.work[task], one_.lane[task], one_.coordinates[task], one_.endpoint[task], fold}, after, uses);
  }

  const graph::Program& one_;
  const plan::DataParallel& data_;
  std::uint32_t n_;
  bool worker_;
  graph::ProgramBuilder program_;
  std::vector<BufferId> residents_;
  std::vector<std::vector<BufferId>> buffers_;  // of each iteration
  std::vector<LocalTask> at_;
};

}  // namespace

bool is_worker(const graph::Program& program) {
  return std::any_of(program.coordinates.begin(), program.coordinates.end(),
                     [](const auto& at) { return at.microbatch != graph::kNoMicrobatch; });
}

Consecutive delayed(const graph::TaskGraph& one, const plan::DataParallel& data, std::uint32_t iterations) {
  INVARIANT(one.groups().empty(), "workers that may be ahead meet nobody");
  auto builder = with_works(one);
  Consecutive result;
  std::vector<ProgramId> ids;
  for (const auto& program : one.programs()) {
    Copies copies(program, data, iterations);
    copies.run();
    ids.push_back(builder.add(std::move(copies).finish()));
    result.at.push_back(std::move(copies).at());
  }
  for (const auto& rank : one.ranks())
    builder.add_rank(ids[rank.program.index()], rank.multiplicity, rank.job_rank, rank.node, rank.place);
  for (std::size_t r = 0; r < one.ranks().size(); r++) {
    const auto& rank = one.ranks()[r];
    const auto& kinds = one.program_of(rank).endpoints;
    for (std::size_t e = 0; e < kinds.size(); e++)
      if (kinds[e] == graph::EndpointKind::send)
        builder.connect(RankId(r), graph::EndpointId(e), rank.attachments[e].peer, rank.attachments[e].peer_endpoint);
  }
  result.graph = std::move(builder).finish();
  return result;
}

}  // namespace rehearsal::lower
