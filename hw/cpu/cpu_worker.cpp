#include "cpu/cpu_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <optional>

#include "base/error.hpp"
#include "cpu/arena.hpp"
#include "cpu/offload_memory.hpp"
#include "cpu/operands.hpp"
#include "cpu/synthetic.hpp"
#include "cpu/training_state.hpp"
#include "kernels/host.hpp"

namespace rehearsal::cpu {
namespace {

using graph::Access;

class CpuWorker final : public dispatch::Worker {
 public:
  CpuWorker(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, GemmFunction product)
      : graph_(graph),
        id_(rank),
        rank_(graph.ranks()[rank.index()]),
        program_(graph.program_of(rank_)),
        learning_(options.learning.of(rank_.place)),
        responses_(options.responses),
        product_(product),
        state_(graph, rank, options),
        arena_(program_.buffers, !options.times_matter) {
    if (std::ranges::any_of(program_.buffers, OffloadMemory::keeps))
      beyond_.emplace(graph, rank, options, arena_, state_);
    for (std::size_t b = 0; b < program_.residents; ++b) {
      allocate(BufferId(b), "resident buffers");
      if (is_beyond(BufferId(b))) {
        beyond_->clear(BufferId(b));
        continue;
      }
      const auto bytes = arena_.bytes(BufferId(b));
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
    state_.initialise([this](const Extent& to, std::span<const std::byte> values) {
      if (is_beyond(to.buffer)) return beyond_->write(to, values);
      std::copy(values.begin(), values.end(), at(to).begin());
    });
  }

  void begin_step(int step) override {
    learned_.loss.resize(static_cast<std::size_t>(step) + 1);
    learned_.squared_gradients.resize(static_cast<std::size_t>(step) + 1);
    if (state_.loss()) loss() = 0;
  }

  void enter(LocalTask task) override {
    for (const graph::BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::allocate) allocate(use.id(), "'" + graph_.label(id_, task) + "'");
  }

  void perform(LocalTask task) override {
    INVARIANT(!learned_.loss.empty(), "a step has begun");
    const KernelOperands operands = kernel_operands(graph_, id_, task);
    const auto& kernel = std::get<Kernel>(graph_.work(program_.work[task.index()]));
    std::array<void*, kMostOperands> pointers{};
    for (std::size_t i = 0; i < operands.count; ++i) pointers[i] = at(operands.at[i]).data();

    KernelContext around{.tensor = rank_.place[Axis::tensor],
                         .data = rank_.place.among(replicas(kernel)),
                         .context = state_.sequence_part(task),
                         .learning = &learning_};
    if (uses_data(kernel)) around.batch = batch(task);
    TrainingState::Update update;
    if (traits(kernel.kind).optimizer) {
      update = state_.update(task);
      around.step = update.steps;
      around.counted = update.counted;
      around.squared_gradients = &learned_.squared_gradients.back();
    }
    if (kernel.precision == Precision::fp32)
      perform_wide(kernel, pointers, operands.count, around);
    else
      kernels::perform_on_host(call(kernel, pointers, around), product_);
    if (responses_ && (kernel.kind == KernelKind::adamw || kernel.kind == KernelKind::adamw_keep))
      state_.note_response(update.segment, update.steps,
                           {static_cast<const float*>(pointers[2]), 2 * static_cast<std::size_t>(kernel.dims[0])});
    if (adds_loss(kernel.kind)) learned_.loss.back() = loss();
  }

  std::span<std::byte> payload(LocalTask task) override { return at(payload_of(graph_, id_, task)); }

  dispatch::Operands operands(LocalTask task) override {
    const auto [in, out, part] = collective_operands(graph_, id_, task);
    return {at(in), at(out)};
  }

  void begin(LocalTask task) override { beyond_->begin(task); }
  std::optional<Time> ended(LocalTask task) override { return beyond_->ended(task, learned_.squared_gradients.back()); }

  void leave(LocalTask task) override {
    for (const graph::BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::free) is_beyond(use.id()) ? beyond_->free(use.id()) : arena_.free(use.id());
  }

  dispatch::Learned learned() override {
    dispatch::Learned result = learned_;
    result.peak = arena_.peak();
    if (beyond_) {
      for (const Tier tier : kTierTable)
        result.beyond.push_back(tier == Tier::device ? Bytes{} : beyond_->high_water(tier));
      result.disk = beyond_->disk();
    }
    state_.show_parameters(
        [this](const Extent& extent) {
          if (is_beyond(extent.buffer)) return beyond_->read(extent);
          const auto bytes = at(extent);
          return std::vector<std::byte>(bytes.begin(), bytes.end());
        },
        result);
    return result;
  }

 private:
  bool is_beyond(BufferId id) const { return OffloadMemory::keeps(program_.buffers[id.index()]); }
  void allocate(BufferId id, const std::string& whose) {
    if (is_beyond(id)) return beyond_->allocate(id);
    try {
      arena_.allocate(id);
    } catch (const std::bad_alloc&) {
      throw MachineError(fmt::format("rank {}: out of memory for {}: {} bytes wanted while {} are in use", id_.value,
                                     whose, program_.buffers[id.index()].size.count(), arena_.live().count()));
    }
  }

  std::span<std::byte> at(const Extent& extent) const {
    return arena_.bytes(extent.buffer).subspan(extent.offset, extent.size);
  }
  double& loss() const { return *reinterpret_cast<double*>(arena_.bytes(*state_.loss()).data()); }

  void perform_wide(const Kernel& kernel, const std::array<void*, kMostOperands>& pointers, std::size_t count,
                    const KernelContext& around) const {
    std::array<float*, kMostOperands> operands{};
    std::transform(pointers.begin(), pointers.end(), operands.begin(), [](void* p) { return static_cast<float*>(p); });
    cpu::perform(kernel, {operands.data(), count}, around, product_);
  }
  kernels::Call call(const Kernel& kernel, const std::array<void*, kMostOperands>& pointers,
                     const KernelContext& around) {
    const auto pointer = [](const auto& values) { return values.empty() ? nullptr : values.data(); };
    return {
        .kernel = kernel,
        .operands = pointers,
        .tensor = around.tensor,
        .data = around.data,
        .context = around.context,
        .tokens = pointer(around.batch.tokens),
        .targets = pointer(around.batch.targets),
        .rows = pointer(around.batch.rows),
        .row_targets = pointer(around.batch.row_targets),
        .documents = pointer(around.batch.documents),
        .rates = {learning_.learning_rate, learning_.beta1, learning_.beta2, learning_.epsilon, learning_.weight_decay},
        .steps = &around.step,
        .squared_gradients = around.squared_gradients,
        .counted = pointer(around.counted),
        .ranges = static_cast<std::int64_t>(around.counted.size()),
        .scratch = scratch_.data()};
  }

  // The data set of a rank is drawn once, micro-batch by micro-batch on demand. It is input, not memory of the network,
  // so it is not counted.
  Batch batch(LocalTask task) {
    const std::pair key{state_.global_microbatch(task), state_.sequence_part(task)};
    auto found = samples_.find(key);
    if (found == samples_.end()) found = samples_.emplace(key, sample(learning_, key.first, key.second)).first;
    return found->second.batch();
  }

  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  backend::TrainingData learning_;
  bool responses_;
  GemmFunction product_;
  TrainingState state_;
  Arena arena_;
  std::optional<OffloadMemory> beyond_;
  std::vector<double> scratch_ = std::vector<double>(kernels::kScratch);
  std::map<std::pair<std::int64_t, std::int64_t>, Sample> samples_;  // by global micro-batch and part of sequences
  dispatch::Learned learned_;                                        // losses and gradients so far
};

}  // namespace

std::unique_ptr<dispatch::Worker> make_worker(const graph::TaskGraph& graph, RankId rank,
                                              const backend::RunOptions& options, GemmFunction gemm) {
  return std::make_unique<CpuWorker>(graph, rank, options, gemm);
}

}  // namespace rehearsal::cpu
