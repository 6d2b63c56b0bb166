#include "gpu/gpu_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "cpu/operands.hpp"
#include "cpu/synthetic.hpp"

namespace rehearsal::gpu {
namespace {

using graph::Access;

constexpr std::byte kNan{0xff};                          // two, four or eight of these bytes are a NaN
constexpr Bytes kGranule{512};                           // a pool of CUDA rounds each block up to this
constexpr std::int64_t kPiece = std::int64_t{64} << 20;  // of a copy to the host through pinned memory

template <class T>
Bytes bytes_of(std::span<const T> values) {
  return Bytes(static_cast<std::int64_t>(values.size_bytes()));
}

}  // namespace

void drain(Device& device, StreamId stream, EventId done, const std::function<void()>& check) {
  device.record(done, stream);
  while (!device.reached(done)) {
    check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

GpuWorker::GpuWorker(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Device& device,
                     StreamId home)
    : graph_(graph),
      id_(rank),
      rank_(graph.ranks()[rank.index()]),
      program_(graph.program_of(rank_)),
      learning_(options.learning.of(rank_.place)),
      state_(graph, rank, options),
      device_(device),
      home_(home),
      poison_(!options.times_matter),
      buffers_(device.make_pool()),
      inputs_(device.make_pool()),
      blocks_(program_.buffers.size(), nullptr),
      downloaded_(device.make_event()) {
  for (std::size_t b = 0; b < program_.residents; ++b) {
    allocate(BufferId(b), "resident buffers", home_);
    device_.fill(blocks_[b], std::byte{0}, program_.buffers[b].size, home_);
  }
  state_.initialise([this](const cpu::Extent& to, std::span<const std::byte> values) {
    device_.copy(at(to), values.data(), bytes_of(values), Direction::to_device, home_);
  });
  for (std::size_t s = 0; s < program_.segments.size(); ++s) counted_.push_back(upload(state_.counted(s)));
  for (std::size_t t = 0; t < program_.size(); ++t)
    if (const auto* k = std::get_if<Kernel>(&graph_.work(program_.work[t])); k && k->kind == KernelKind::adalomo) {
      const kernels::Range all{0, k->dims[0] * k->dims[1]};
      if (!matrices_.count(all.end)) matrices_[all.end] = upload(std::span(&all, 1));
    }
  steps_ = upload(std::span<const std::int64_t>(std::vector<std::int64_t>(program_.segments.size(), 0)));
  scratch_ = upload(std::span<const double>(std::vector<double>(kernels::kScratch, 0.)));
  squared_gradients_ = upload(std::span<const double>(std::vector<double>(1, 0.)));
  const auto pinned = device_.pinned(Bytes(2 * sizeof(double)));
  results_ = {reinterpret_cast<double*>(pinned.data()), 2};
  operands_.resize(program_.size());
  for (std::size_t t = 0; t < program_.size(); ++t) {
    const auto* kernel = std::get_if<Kernel>(&graph_.work(program_.work[t]));
    if (!kernel) continue;
    operands_[t] = cpu::kernel_operands(graph_, id_, LocalTask(t));
    if (uses_data(*kernel)) data(LocalTask(t));
  }
}

GpuWorker::~GpuWorker() {
  try {
    for (const Address block : blocks_)
      if (block) device_.free(block, home_);
    for (const Address block : inputs_held_) device_.free(block, home_);
  } catch (...) {  // the device's failure is reported elsewhere
  }
}

template <class T>
T* GpuWorker::upload(std::span<const T> values) {
  if (values.empty()) return nullptr;
  const Address block = device_.allocate(inputs_, bytes_of(values), home_);
  inputs_held_.push_back(block);
  device_.copy(block, values.data(), bytes_of(values), Direction::to_device, home_);
  return reinterpret_cast<T*>(block);
}

// Drawn and uploaded once. Input is not memory of the network, so it is not counted.
const GpuWorker::Data& GpuWorker::data(LocalTask task) {
  const std::pair key{state_.global_microbatch(task), state_.sequence_part(task)};
  const auto found = data_.find(key);
  if (found != data_.end()) return found->second;
  const cpu::Sample sample = cpu::sample(learning_, key.first, key.second);
  return data_
      .emplace(key,
               Data{upload(std::span<const std::int32_t>(sample.tokens)),
                    upload(std::span<const std::int32_t>(sample.targets)), upload(std::span<const float>(sample.rows)),
                    upload(std::span<const float>(sample.row_targets)),
                    upload(std::span<const std::int32_t>(sample.documents))})
      .first->second;
}

void GpuWorker::allocate(BufferId id, const std::string& whose, StreamId stream) {
  INVARIANT(!blocks_[id.index()], "a buffer is allocated once");
  const Bytes size = program_.buffers[id.index()].size;
  try {
    blocks_[id.index()] = device_.allocate(buffers_, size, stream);
  } catch (const MachineError& error) {
    throw MachineError(fmt::format("rank {}: out of memory for {}: {} bytes wanted while {} are in use ({})", id_.value,
                                   whose, size.count(), live_.count(), error.what()));
  }
  if (poison_) device_.fill(blocks_[id.index()], kNan, size, stream);
  live_ += size;
  peak_ = std::max(peak_, live_);
  most_blocks_ = std::max(most_blocks_, ++live_blocks_);
}

Address GpuWorker::at(const cpu::Extent& extent) const {
  INVARIANT(blocks_[extent.buffer.index()], "a buffer is used while it is live");
  return blocks_[extent.buffer.index()] + extent.offset;
}

void GpuWorker::begin_iteration() {
  device_.fill(reinterpret_cast<Address>(squared_gradients_), std::byte{0}, Bytes(sizeof(double)), home_);
  if (const auto loss = state_.loss()) device_.fill(blocks_[loss->index()], std::byte{0}, Bytes(sizeof(double)), home_);
}

void GpuWorker::enter(LocalTask task, StreamId stream) {
  for (const graph::BufferUse& use : program_.uses[task.index()])
    if (use.how() == Access::allocate) allocate(use.id(), "'" + graph_.label(id_, task) + "'", stream);
}

template <class Where>
kernels::Call GpuWorker::call_of(LocalTask task, Where&& where) {
  const auto& kernel = std::get<Kernel>(graph_.work(program_.work[task.index()]));
  const cpu::KernelOperands& operands = operands_[task.index()];
  kernels::Call call;
  call.kernel = kernel, call.tensor = rank_.place[Axis::tensor], call.data = rank_.place.among(replicas(kernel)),
  call.context = state_.sequence_part(task), call.scratch = scratch_;
  for (std::size_t i = 0; i < operands.count; ++i) call.operands[i] = where(operands.at[i]);
  if (uses_data(kernel)) {
    const Data& batch = data(task);
    call.tokens = batch.tokens, call.targets = batch.targets;
    call.rows = batch.rows, call.row_targets = batch.row_targets, call.documents = batch.documents;
  }
  return call;
}

void GpuWorker::load() {
  const auto nowhere = [](const cpu::Extent& operand) {  // only alignment matters; blocks have at least this
    return reinterpret_cast<Address>(kAlignment + operand.offset % kAlignment);
  };
  for (std::size_t t = 0; t < program_.size(); ++t)
    if (std::holds_alternative<Kernel>(graph_.work(program_.work[t]))) {
      kernels::Call call = call_of(LocalTask(t), nowhere);
      if (traits(call.kernel.kind).optimizer) call.squared_gradients = squared_gradients_;
      device_.load(call, home_);
    }
}

void GpuWorker::perform(LocalTask task) {
  kernels::Call call = call_of(task, [this](const cpu::Extent& operand) { return at(operand); });
  const Kernel& kernel = call.kernel;
  call.rates = {learning_.learning_rate, learning_.beta1, learning_.beta2, learning_.epsilon, learning_.weight_decay};
  if (!traits(kernel.kind).optimizer) return device_.perform(call, home_);

  const auto update = state_.update(task);
  call.steps = steps_ + update.segment;
  if (!update.counted.empty()) {
    const bool matrix = kernel.kind == KernelKind::adalomo;
    call.counted = matrix ? matrices_.at(update.counted.front().end) : counted_[update.segment];
    call.ranges = static_cast<std::int64_t>(update.counted.size());
    call.squared_gradients = squared_gradients_;
  }
  // A rollback undoes the last step, so the step counter goes back first.
  const bool back = kernel.kind == KernelKind::adamw_rollback;
  if (back) device_.count(steps_ + update.segment, -1, home_);
  device_.perform(call, home_);
  const bool counts = kernel.kind == KernelKind::sgd && static_cast<Clip>(kernel.dims[5]) == Clip::add;
  const bool ends = !counts && (kernel.kind != KernelKind::adalomo || kernel.dims[2]);
  if (!back && ends) device_.count(steps_ + update.segment, 1, home_);
}

void GpuWorker::leave(LocalTask task, StreamId stream) {
  for (const graph::BufferUse& use : program_.uses[task.index()]) {
    if (use.how() != Access::free) continue;
    Address& block = blocks_[use.id().index()];
    INVARIANT(block, "only live buffers are freed");
    device_.free(block, stream);
    block = nullptr;
    live_ -= program_.buffers[use.id().index()].size, --live_blocks_;
  }
}

void GpuWorker::end_iteration() {
  if (const auto loss = state_.loss())
    device_.copy(&results_[0], blocks_[loss->index()], Bytes(sizeof(double)), Direction::to_host, home_);
  device_.copy(&results_[1], squared_gradients_, Bytes(sizeof(double)), Direction::to_host, home_);
}

void GpuWorker::collect() {
  learned_.loss.push_back(state_.loss() ? results_[0] : 0);
  learned_.squared_gradients.push_back(results_[1]);
}

GpuWorker::Payload GpuWorker::payload(LocalTask staging_copy) const {
  const cpu::Extent extent = cpu::payload_of(graph_, id_, staging_copy);
  const Bytes size = std::get<graph::StagingCopy>(graph_.work(program_.work[staging_copy.index()])).size;
  INVARIANT(static_cast<std::int64_t>(extent.size) >= size.count(),
            "a handover copies from or into a buffer that holds its message");
  return {at(extent), size};
}

GpuWorker::Operands GpuWorker::operands(LocalTask collective) const {
  const auto [in, out, part] = cpu::collective_operands(graph_, id_, collective);
  return {at(in), at(out), part};
}

std::vector<std::byte> GpuWorker::download(const cpu::Extent& extent) {
  std::vector<std::byte> bytes(extent.size);
  const auto wanted = std::min(static_cast<std::int64_t>(extent.size), kPiece);
  if (static_cast<std::int64_t>(staging_.size()) < wanted) staging_ = device_.pinned(Bytes(wanted));
  for (std::size_t done = 0; done < extent.size; done += staging_.size()) {
    const std::size_t size = std::min(staging_.size(), extent.size - done);
    device_.copy(staging_.data(), at(extent) + done, Bytes(static_cast<std::int64_t>(size)), Direction::to_host, home_);
    drain(device_, home_, downloaded_);
    std::copy_n(staging_.begin(), size, bytes.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return bytes;
}

dispatch::Learned GpuWorker::learned() {
  dispatch::Learned result = learned_;
  result.peak = peak_;
  result.allocator_peak = device_.high_water(buffers_);
  result.allocator_allowance = most_blocks_ * kGranule;
  state_.show_parameters([this](const cpu::Extent& extent) { return download(extent); }, result);
  return result;
}

}  // namespace rehearsal::gpu
