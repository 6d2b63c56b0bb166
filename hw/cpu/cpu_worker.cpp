#include "cpu/cpu_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>

#include "base/error.hpp"
#include "cpu/arena.hpp"
#include "cpu/synthetic.hpp"

namespace rehearsal::cpu {
namespace {

using graph::Access;

// The buffers that a task reads and writes, in the order in which its work names them.
std::vector<BufferId> operands_of(const graph::Program& program, LocalTask task) {
  std::vector<BufferId> result;
  for (const graph::BufferUse& use : program.uses[task.index()])
    if (use.how() == Access::read || use.how() == Access::write) result.push_back(use.id());
  return result;
}

bool uses_data(KernelKind kind) {
  switch (kind) {
    case KernelKind::load_rows:
    case KernelKind::embed:
    case KernelKind::embed_gradient:
    case KernelKind::cross_entropy_local:
    case KernelKind::cross_entropy_gradient:
    case KernelKind::squared_error:
    case KernelKind::squared_error_gradient:
      return true;
    default:
      return false;
  }
}
bool adds_loss(KernelKind kind) { return kind == KernelKind::cross_entropy || kind == KernelKind::squared_error; }
bool is_optimizer(KernelKind kind) {
  return kind == KernelKind::sgd || kind == KernelKind::adamw || kind == KernelKind::adamw_keep ||
         kind == KernelKind::adamw_rollback;
}

// Which of the elements that this rank's optimizer works on count for the norm of all gradients: every parameter of the
// job once. Of a tied embedding the original counts; of what all tensor ranks hold, that of the first; of what all
// data-parallel ranks update, that of the first, while the shards of ZeRO add up by themselves.
std::vector<Range> counted(const graph::Segment& segment, const graph::Rank& rank) {
  if (segment.copy || (segment.shards == 1 && rank.data > 0)) return {};
  const std::int64_t own = segment.elements / segment.shards, begin = segment.shards == 1 ? 0 : rank.data * own;
  std::vector<Range> ranges;
  for (const graph::Tensor& tensor : segment.tensors) {
    if (tensor.split == graph::Split::none && rank.tensor > 0) continue;
    const std::int64_t from = std::max(tensor.offset, begin);
    const std::int64_t to = std::min(tensor.offset + tensor.elements(), begin + own);
    if (from < to) ranges.push_back({from - begin, to - begin});
  }
  return ranges;
}

class CpuWorker final : public dispatch::Worker {
 public:
  CpuWorker(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, GemmFunction product)
      : graph_(graph),
        id_(rank),
        rank_(graph.ranks()[rank.index()]),
        program_(graph.program_of(rank_)),
        learning_(options.learning),
        other_microbatch_(options.tamper.other_microbatch),
        product_(product),
        arena_(program_.buffers, !options.times_matter) {
    for (std::size_t b = 0; b < program_.residents; ++b) {
      allocate(BufferId(b), "resident buffers");
      const auto bytes = arena_.bytes(BufferId(b));
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
    for (const graph::Segment& segment : program_.segments) {
      initialise(learning_.seed, segment, rank_, held(segment, segment.parameters));
      if (segment.previous) initialise(learning_.seed, segment, rank_, held(segment, *segment.previous));
      states_.push_back({.counted = counted(segment, rank_)});
    }
    for (std::size_t t = 0; t < program_.size(); ++t) note_loss(LocalTask(t));
  }

  void begin_step(int step) override {
    learned_.loss.resize(static_cast<std::size_t>(step) + 1);
    learned_.squared_gradients.resize(static_cast<std::size_t>(step) + 1);
    if (has_loss_) loss() = 0;
  }

  void enter(LocalTask task) override {
    for (const graph::BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::allocate) allocate(use.id(), "'" + graph_.label(id_, task) + "'");
  }

  void perform(LocalTask task) override {
    const graph::Work& work = graph_.work(program_.work[task.index()]);
    const Kernel* kernel = std::get_if<Kernel>(&work);
    INVARIANT(kernel, "only kernels compute for real, not '" + graph_.label(id_, task) + "'");
    INVARIANT(!learned_.loss.empty(), "a step has begun");
    const std::vector<BufferId> buffers = operands_of(program_, task);
    const std::array<float*, 6> at = addresses(task, *kernel, buffers);

    Surroundings around{.tensor = rank_.tensor, .data = rank_.data, .learning = &learning_};
    if (uses_data(kernel->kind)) around.batch = batch(task);
    if (is_optimizer(kernel->kind)) note_update(*kernel, buffers[1], around);
    cpu::perform(*kernel, {at.data(), buffers.size()}, around, product_);
    if (adds_loss(kernel->kind)) learned_.loss.back() = loss();
  }

  std::span<std::byte> payload(LocalTask task) override { return arena_.bytes(first_operand(task)); }

  Operands operands(LocalTask task) override {
    const auto* work = std::get_if<graph::Collective>(&graph_.work(program_.work[task.index()]));
    INVARIANT(work, "'" + graph_.label(id_, task) + "' is no collective");
    const std::vector<BufferId> buffers = operands_of(program_, task);
    INVARIANT(!buffers.empty() && buffers.size() <= 2, "a collective works in place, or from one buffer into another");
    const std::span<float> first = arena_.floats(buffers.front());
    if (buffers.size() == 2) return {first, arena_.floats(buffers.back())};
    switch (work->kind) {
      case CollectiveKind::all_reduce:
        return {first, first};
      case CollectiveKind::all_gather:
        return {own_part(task, first), first};
      case CollectiveKind::reduce_scatter:
        return {first, own_part(task, first)};
    }
    return {};
  }

  void leave(LocalTask task) override {
    for (const graph::BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::free) arena_.free(use.id());
  }

  dispatch::Learned learned() const override {
    dispatch::Learned result = learned_;
    result.peak = arena_.peak();
    for (const graph::Segment& segment : program_.segments) {
      const std::span<const float> values = held(segment, segment.parameters);
      result.parameters.emplace_back(values.begin(), values.end());
    }
    return result;
  }

 private:
  void allocate(BufferId id, const std::string& whose) {
    try {
      arena_.allocate(id);
    } catch (const std::bad_alloc&) {
      throw MachineError(fmt::format("rank {}: out of memory for {}: {} bytes wanted while {} are in use", id_.value,
                                     whose, program_.buffers[id.index()].size.count(), arena_.live().count()));
    }
  }

  // The parameters of a segment as this rank holds them, in the buffer of one version.
  std::span<float> held(const graph::Segment& segment, BufferId version) const {
    const std::int64_t elements = segment.sharded_parameters ? segment.elements / segment.shards : segment.elements;
    const std::span<float> all = arena_.floats(version);
    INVARIANT(elements <= static_cast<std::int64_t>(all.size()), "a segment fits its buffer");
    return all.first(static_cast<std::size_t>(elements));
  }

  BufferId first_operand(LocalTask task) const {
    const std::vector<BufferId> buffers = operands_of(program_, task);
    INVARIANT(!buffers.empty(), "'" + graph_.label(id_, task) + "' names no buffer");
    return buffers.front();
  }

  // Kernels trust their pointers, so what the task names is held against what the kernel touches, every time.
  std::array<float*, 6> addresses(LocalTask task, const Kernel& kernel, std::span<const BufferId> buffers) const {
    const OperandElements needed = operand_elements(kernel, rank_.data);
    INVARIANT(buffers.size() == needed.count,
              fmt::format("'{}' has {} operands, {} are named", graph_.label(id_, task), needed.count, buffers.size()));
    std::array<float*, 6> at{};
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::span<float> buffer = arena_.floats(buffers[i]);
      INVARIANT(
          kernel.offsets[i] >= 0 && kernel.offsets[i] + needed.elements[i] <= static_cast<std::int64_t>(buffer.size()),
          fmt::format("operand {} of '{}' is elements {} to {} of a buffer of {}", i, graph_.label(id_, task),
                      kernel.offsets[i], kernel.offsets[i] + needed.elements[i], buffer.size()));
      at[i] = buffer.data() + kernel.offsets[i];
    }
    return at;
  }

  // The data set of a rank is drawn once, micro-batch by micro-batch as it is needed. It is input, not memory of the
  // network: it does not count.
  Batch batch(LocalTask task) {
    std::uint32_t microbatch = program_.coordinates[task.index()].microbatch;
    INVARIANT(microbatch != graph::kNoMicrobatch, "'" + graph_.label(id_, task) + "' needs the data of a micro-batch");
    if (other_microbatch_) microbatch = other_microbatch_(id_, task, microbatch);
    const std::int64_t global = rank_.data * learning_.microbatches + microbatch;
    auto at = samples_.find(global);
    if (at == samples_.end()) at = samples_.emplace(global, sample(learning_, global)).first;
    return at->second.batch();
  }

  // An optimizer kernel: how many steps its segment has taken before, and whether its gradient counts. A rollback uses
  // none up, and the step after it takes the same gradient again.
  void note_update(const Kernel& kernel, BufferId parameters, Surroundings& around) {
    const auto segment = std::find_if(program_.segments.begin(), program_.segments.end(),
                                      [&](const graph::Segment& s) { return s.parameters == parameters; });
    INVARIANT(segment != program_.segments.end() && kernel.dims[0] == segment->elements / segment->shards,
              "an optimizer task updates the parameters of one segment");
    State& state = states_[static_cast<std::size_t>(segment - program_.segments.begin())];
    if (kernel.kind == KernelKind::adamw_rollback) {
      around.step = --state.steps;
      state.again = true;
      return;
    }
    around.step = state.steps++;
    if (!state.again) {
      around.counted = state.counted;
      around.squared_gradients = &learned_.squared_gradients.back();
    }
    state.again = false;
  }

  // The buffer of the loss is the one that the kernels of the loss name last.
  void note_loss(LocalTask task) {
    const auto* kernel = std::get_if<Kernel>(&graph_.work(program_.work[task.index()]));
    if (!kernel || !adds_loss(kernel->kind)) return;
    const BufferId buffer = operands_of(program_, task).back();
    INVARIANT(buffer.index() < program_.residents &&
                  program_.buffers[buffer.index()].size == Bytes(static_cast<std::int64_t>(sizeof(double))),
              "the loss is a resident buffer of one double");
    INVARIANT(!has_loss_ || buffer == loss_buffer_, "one loss per rank");
    has_loss_ = true;
    loss_buffer_ = buffer;
  }
  double& loss() const { return *reinterpret_cast<double*>(arena_.bytes(loss_buffer_).data()); }

  // Parts lie in the order of the group's members, which is that of the ranks' places: kernels that find their own part
  // go by those.
  std::span<float> own_part(LocalTask task, std::span<float> whole) const {
    const std::uint32_t endpoint = program_.endpoint[task.index()];
    INVARIANT(endpoint != graph::kNoEndpoint, "a collective has a group");
    const auto& members = graph_.groups()[rank_.attachments[endpoint].group.index()].members;
    const auto me = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.rank == id_; });
    INVARIANT(me != members.end() && whole.size() % members.size() == 0,
              "'" + graph_.label(id_, task) + "' divides its buffer evenly among its group");
    const auto index = static_cast<std::uint32_t>(me - members.begin());
    const graph::Lane lane = program_.lane[task.index()];
    INVARIANT((lane != graph::Lane::data_comm || index == rank_.data) &&
                  (lane != graph::Lane::tensor_comm || index == rank_.tensor),
              "a group lists its members by their places");
    const std::size_t part = whole.size() / members.size();
    return whole.subspan(index * part, part);
  }

  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  backend::Learning learning_;
  std::function<std::uint32_t(RankId, LocalTask, std::uint32_t)> other_microbatch_;
  GemmFunction product_;
  Arena arena_;

  bool has_loss_ = false;
  BufferId loss_buffer_;
  // Of the optimizer, by segment.
  struct State {
    std::vector<Range> counted;
    std::int64_t steps = 0;  // taken; several in an iteration where every backward updates
    bool again = false;      // a rollback was the last
  };
  std::vector<State> states_;
  std::map<std::int64_t, Sample> samples_;  // by global micro-batch
  dispatch::Learned learned_;               // losses and gradients so far
};

}  // namespace

std::unique_ptr<dispatch::Worker> make_worker(const graph::TaskGraph& graph, RankId rank,
                                              const backend::RunOptions& options, GemmFunction gemm) {
  return std::make_unique<CpuWorker>(graph, rank, options, gemm);
}

}  // namespace rehearsal::cpu
