#include "cpu/offload_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "cpu/functions.hpp"
#include "cpu/host_adam.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::cpu {
namespace {

// The ranks of a machine share its cores equally.
unsigned own_cores(const graph::TaskGraph& graph, RankId id) {
  const auto node = graph.ranks()[id.index()].node;
  const auto beside = std::ranges::count_if(graph.ranks(), [&](const graph::Rank& r) { return r.node == node; });
  return std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(beside));
}

tiers::FileOptions file_options(const graph::Program& program, RankId id, const backend::RunOptions& options) {
  tiers::FileOptions file;
  if (!options.tier_directory.empty()) file.directory = options.tier_directory;
  file.whose = fmt::format("rank {}", id.value);
  for (const graph::Buffer& buffer : program.resident())
    if (buffer.tier == Tier::nvme) file.capacity += buffer.size;
  return file;
}

}  // namespace

OffloadMemory::OffloadMemory(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options,
                             const Arena& arena, TrainingState& state)
    : graph_(graph),
      id_(rank),
      program_(graph.program_of(graph.ranks()[rank.index()])),
      arena_(arena),
      state_(state),
      learning_(options.learning),
      poison_(!options.times_matter),
      threads_(own_cores(graph, rank)),
      storage_(file_options(program_, rank, options)),
      handles_(program_.buffers.size()) {}

void OffloadMemory::allocate(BufferId id) {
  const graph::Buffer& buffer = program_.buffers[id.index()];
  INVARIANT(!handles_[id.index()], "a buffer is allocated once");
  handles_[id.index()] = storage_.allocate(buffer.tier, buffer.size);
  if (!poison_ || buffer.tier != Tier::host) return;
  const auto memory = storage_.host_memory(*handles_[id.index()]);
  std::memset(memory.data(), kNan, memory.size());
}

void OffloadMemory::free(BufferId id) {
  INVARIANT(handles_[id.index()], "only live buffers are freed");
  storage_.free(*handles_[id.index()]);
  handles_[id.index()].reset();
}

std::span<std::byte> OffloadMemory::memory(const Extent& extent) const {
  const auto tier = program_.buffers[extent.buffer.index()].tier;
  INVARIANT(tier != Tier::nvme, "a disk has no addresses");
  const auto all = tier == Tier::device ? arena_.bytes(extent.buffer)
                                        : storage_.host_memory(handles_[extent.buffer.index()].value());
  return all.subspan(extent.offset, extent.size);
}

void OffloadMemory::write(const Extent& to, std::span<const std::byte> bytes) {
  const auto handle = handles_[to.buffer.index()].value();
  if (handle.tier == Tier::host) {
    std::ranges::copy(bytes, memory(to).begin());
    return;
  }
  std::vector<std::byte> own(bytes.begin(), bytes.end());
  storage_.wait(storage_.copy(own, handle, tiers::Direction::out, Bytes(static_cast<std::int64_t>(to.offset))));
}

std::vector<std::byte> OffloadMemory::read(const Extent& from) {
  std::vector<std::byte> bytes(from.size);
  const auto handle = handles_[from.buffer.index()].value();
  storage_.wait(storage_.copy(bytes, handle, tiers::Direction::in, Bytes(static_cast<std::int64_t>(from.offset))));
  return bytes;
}

void OffloadMemory::clear(BufferId id) {
  constexpr std::size_t kPiece = 16 << 20;
  const auto size = static_cast<std::size_t>(program_.buffers[id.index()].size.count());
  const std::vector<std::byte> zeros(std::min(size, kPiece));
  for (std::size_t at = 0; at < size; at += kPiece)
    write({id, at, std::min(kPiece, size - at)}, std::span(zeros).first(std::min(kPiece, size - at)));
}

void OffloadMemory::begin(LocalTask task) {
  const auto& work = graph_.work(program_.work[task.index()]);
  if (const auto* step = std::get_if<graph::HostStep>(&work)) return begin_step(task, *step);
  begin_copy(task);
}

void OffloadMemory::begin_copy(LocalTask task) {
  const auto [from, to] = copy_operands(graph_, id_, task);
  // The farther tier is a region of storage, the nearer one memory.
  const bool out = program_.buffers[to.buffer.index()].tier > program_.buffers[from.buffer.index()].tier;
  const Extent &far = out ? to : from, &near = out ? from : to;
  copies_.emplace(task, storage_.copy(memory(near), handles_[far.buffer.index()].value(),
                                      out ? tiers::Direction::out : tiers::Direction::in,
                                      Bytes(static_cast<std::int64_t>(far.offset))));
}

// In a delayed update the first step of a run has no gradients yet, and passes the parameters on unchanged.
void OffloadMemory::begin_step(LocalTask task, const graph::HostStep& work) {
  const auto operands = host_operands(graph_, id_, task);
  const auto floats = [&](std::size_t i) { return reinterpret_cast<float*>(memory(operands[i]).data()); };
  const auto elements = static_cast<std::int64_t>(work.parameters);
  const bool none = work.late && state_.waits_for_gradients(task);
  const auto update = none ? TrainingState::Update{} : state_.update(task);
  HostAdam call{elements, update.steps, floats(0), floats(2), floats(1), floats(1) + elements, nullptr};
  std::byte* const stored = operands.size() > 3 ? memory(operands[3]).data() : nullptr;
  const bool narrow = work.stored != Precision::fp32;
  if (narrow) call.stored = reinterpret_cast<std::uint16_t*>(stored);
  Running& running = steps_[task];
  double& squares = running.squares;
  const std::vector<kernels::Range> counted(update.counted.begin(), update.counted.end());
  running.job = host_.add([this, call, none, stored, narrow, counted, &squares] {
    if (!none) {
      squares = sum_of_squares(counted, call.gradient);
      host_adam(call, learning_, threads_);
    } else if (call.stored) {
      std::transform(call.parameters, call.parameters + call.elements, call.stored, to_bf16);
    }
    if (stored && !narrow)
      std::memcpy(stored, call.parameters, static_cast<std::size_t>(call.elements) * sizeof(float));
  });
}

std::optional<Time> OffloadMemory::ended(LocalTask task, double& squared_gradients) {
  if (const auto copy = copies_.find(task); copy != copies_.end()) {
    const auto at = storage_.ended(copy->second);
    if (!at) return std::nullopt;
    const auto pending = copy->second;
    copies_.erase(copy);
    storage_.wait(pending);
    return dispatch::clock_time(*at);
  }
  const auto step = steps_.find(task);
  INVARIANT(step != steps_.end(), "what has begun ends");
  const auto at = host_.ended(step->second.job);
  if (!at) return std::nullopt;
  host_.wait(step->second.job);
  squared_gradients += step->second.squares;
  steps_.erase(step);
  return dispatch::clock_time(*at);
}

dispatch::Learned::Disk OffloadMemory::disk() const {
  const auto use = storage_.file_use();
  return {storage_.means(Tier::nvme), use.length, use.cached};
}

}  // namespace rehearsal::cpu
