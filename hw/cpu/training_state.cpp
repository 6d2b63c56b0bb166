#include "cpu/training_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "cpu/synthetic.hpp"

namespace rehearsal::cpu {
namespace {

std::size_t bytes_of(std::int64_t elements, Precision precision) {
  return static_cast<std::size_t>(elements * bytes_per_element(precision));
}

// The elements updated by this rank that count for the norm of all gradients, so that every parameter of the job counts
// once: of a tied embedding the original; of what all tensor ranks hold, that of the first; of what all replicas
// update, that of the first. The shards of ZeRO are disjoint and all count, but their copies do not.
std::vector<kernels::Range> counted_of(const graph::Segment& segment, const graph::Rank& rank) {
  if (segment.copied && rank.place[Axis::copy] > 0) return {};
  if (segment.copy || (segment.shards == 1 && rank.place.among(segment.replicas()) > 0)) return {};
  const std::int64_t own = segment.elements / segment.shards,
                     begin = segment.shards == 1 ? 0 : rank.place.among(segment.shared_along()) * own;
  std::vector<kernels::Range> ranges;
  for (const graph::Tensor& tensor : segment.tensors) {
    const bool on_all = tensor.split == graph::Split::none && !is_of_experts(tensor.kind);
    if (on_all && rank.place[Axis::tensor] > 0) continue;
    const std::int64_t from = std::max(tensor.offset, begin);
    const std::int64_t to = std::min(tensor.offset + tensor.elements(), begin + own);
    if (from < to) ranges.push_back({from - begin, to - begin});
  }
  return ranges;
}

}  // namespace

TrainingState::TrainingState(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options)
    : graph_(graph),
      id_(rank),
      rank_(graph.ranks()[rank.index()]),
      program_(graph.program_of(rank_)),
      learning_(options.learning.of(rank_.place)),
      other_microbatch_(options.fault_injection.other_microbatch),
      weights_(options.weights) {
  for (const graph::Segment& segment : segments()) progress_.push_back({.counted = counted_of(segment, rank_)});
  for (std::size_t t = 0; t < program_.size(); ++t) note_loss(LocalTask(t)), note_updates(LocalTask(t));
}

void TrainingState::initialise(const Fill& fill) const {
  for (std::size_t s = 0; s < segments().size(); ++s) {
    const graph::Segment& segment = segments()[s];
    std::vector<float> values = initial(s);
    const std::vector<std::byte> bytes = encode(segment.precision, values);
    fill(held(s), bytes);
    if (segment.previous) fill(held(s, *segment.previous), bytes);
    if (const auto kept = master(s)) fill(*kept, std::as_bytes(updated(s, values)));
  }
}

void TrainingState::show_parameters(const Read& read, dispatch::Learned& learned) const {
  if (!weights_) return;
  for (std::size_t s = 0; s < segments().size(); ++s) {
    const graph::Segment& segment = segments()[s];
    std::vector<float> values = decode(segment.precision, read(held(s)));
    std::vector<float> kept, gathered;
    if (const auto where = master(s)) kept = decode(Precision::fp32, read(*where));
    if (const auto first = moment(s)) {
      gathered = decode(Precision::fp32, read(*first));
    } else if (segment.precision != Precision::fp32 && progress_[s].updated) {
      std::vector<float> begun = initial(s);
      const std::span<float> from = updated(s, begun);
      const std::span<const float> to = kept.empty() ? updated(s, values) : std::span<const float>(kept);
      std::transform(from.begin(), from.end(), to.begin(), std::back_inserter(gathered), std::minus<float>());
    }
    learned.parameters.push_back(std::move(values));
    learned.masters.push_back(std::move(kept));
    learned.gathered.push_back(std::move(gathered));
    learned.responses.push_back(progress_[s].response);
  }
}

std::vector<float> TrainingState::initial(std::size_t index) const {
  const graph::Segment& segment = segments()[index];
  std::vector<float> values(held(index).size / static_cast<std::size_t>(bytes_per_element(segment.precision)));
  cpu::initialise(learning_.seed, segment, rank_, values);
  return values;
}

std::span<float> TrainingState::updated(std::size_t index, std::span<float> held) const {
  const graph::Segment& segment = segments()[index];
  const std::int64_t own = segment.elements / segment.shards;
  const bool part = segment.shards > 1 && !segment.sharded_parameters;
  return held.subspan(part ? static_cast<std::size_t>(rank_.place.among(segment.shared_along()) * own) : 0,
                      static_cast<std::size_t>(own));
}

Extent TrainingState::held(std::size_t index, BufferId version) const {
  const graph::Segment& segment = segments()[index];
  const std::int64_t elements = segment.sharded_parameters ? segment.elements / segment.shards : segment.elements;
  const Extent all{version, 0, bytes_of(elements, segment.precision)};
  INVARIANT(static_cast<std::int64_t>(all.size) <= program_.buffers[version.index()].size.count(),
            "a segment fits its buffer");
  return all;
}

std::optional<Extent> TrainingState::master(std::size_t index) const {
  const graph::Segment& segment = segments()[index];
  if (!segment.master) return std::nullopt;
  const auto all = static_cast<std::size_t>(program_.buffers[segment.master->index()].size.count());
  const std::size_t own = bytes_of(segment.elements / segment.shards, Precision::fp32);
  INVARIANT(own <= all, "a master copy fits its buffer");
  return Extent{*segment.master, all - own, own};
}

std::int64_t TrainingState::global_microbatch(LocalTask task) const {
  std::uint32_t unit = program_.coordinates[task.index()].microbatch;
  INVARIANT(unit != graph::kNoMicrobatch, "'" + graph_.label(id_, task) + "' needs the data of a micro-batch");
  if (other_microbatch_) unit = other_microbatch_(id_, task, unit);
  return learning_.global(rank_.place, unit / learning_.pieces);
}

std::int64_t TrainingState::sequence_part(LocalTask task) const {
  if (learning_.pieces == 1) return rank_.place[Axis::context];
  const std::uint32_t unit = program_.coordinates[task.index()].microbatch;
  return unit == graph::kNoMicrobatch ? 0 : unit % learning_.pieces;
}

std::optional<Extent> TrainingState::moment(std::size_t index) const {
  const graph::Segment& segment = segments()[index];
  if (!segment.moments) return std::nullopt;
  return Extent{*segment.moments, 0, bytes_of(segment.elements / segment.shards, Precision::fp32)};
}

std::size_t TrainingState::segment_of(LocalTask optimizer) const {
  const auto* kernel = std::get_if<Kernel>(&graph_.work(program_.work[optimizer.index()]));
  const auto segment = std::find_if(segments().begin(), segments().end(), [&](const graph::Segment& s) {
    if (!kernel) return s.host_step == optimizer;
    const auto& names = kernel->kind == KernelKind::momentum ? s.moments : s.parameters;
    return names == operands_of(program_, optimizer).at(1);
  });
  INVARIANT(segment != segments().end() && (!kernel || kernel->kind == KernelKind::adalomo ||
                                            kernel->dims[0] == segment->elements / segment->shards),
            "an optimizer task updates the parameters of one segment");
  return static_cast<std::size_t>(segment - segments().begin());
}

bool TrainingState::waits_for_gradients(LocalTask host_step) {
  return !std::exchange(progress_[segment_of(host_step)].begun, true);
}

TrainingState::Update TrainingState::update(LocalTask task) {
  const std::size_t index = segment_of(task);
  Progress& progress = progress_[index];
  const auto* on_device = std::get_if<Kernel>(&graph_.work(program_.work[task.index()]));
  if (!on_device) return {index, progress.steps++, progress.counted};
  const Kernel& kernel = *on_device;
  if (kernel.kind == KernelKind::adamw_rollback) {
    progress.again = true;
    return {index, --progress.steps, {}};
  }
  if (kernel.kind == KernelKind::sgd && static_cast<Clip>(kernel.dims[5]) == Clip::add)
    return {index, progress.steps, {}};      // no step
  if (kernel.kind == KernelKind::adalomo) {  // matrices are updated one by one, within one step
    const std::int64_t from = kernel.offsets[0];
    const bool counts = std::any_of(progress.counted.begin(), progress.counted.end(),
                                    [&](const kernels::Range& r) { return r.begin <= from && from < r.end; });
    matrix_ = {0, kernel.dims[0] * kernel.dims[1]};
    const std::int64_t steps = kernel.dims[2] ? progress.steps++ : progress.steps;
    return {index, steps, {&matrix_, counts ? 1u : 0u}};
  }
  const bool again = std::exchange(progress.again, false);
  return {index, progress.steps++, again ? std::span<const kernels::Range>() : progress.counted};
}

void TrainingState::note_response(std::size_t segment, std::int64_t steps, std::span<const float> moments) {
  std::vector<float>& response = progress_[segment].response;
  const std::size_t elements = moments.size() / 2;
  response.resize(elements);
  const double taken = double(steps + 1), correction1 = 1 - std::pow(double(learning_.beta1), taken),
               correction2 = 1 - std::pow(double(learning_.beta2), taken);
  for (std::size_t i = 0; i < elements; ++i) {
    const double m = std::abs(double(moments[i])) / correction1;
    const double s = std::sqrt(double(moments[elements + i]) / correction2) + double(learning_.epsilon);
    if (s > 0) response[i] += float(double(learning_.learning_rate) * (1 + m / s) / s);
  }
}

void TrainingState::note_updates(LocalTask task) {
  const auto& work = graph_.work(program_.work[task.index()]);
  const auto* kernel = std::get_if<Kernel>(&work);
  if (kernel ? !traits(kernel->kind).optimizer : !std::holds_alternative<graph::HostStep>(work)) return;
  progress_[segment_of(task)].updated = true;
}

// The loss buffer is the last operand of the loss kernels.
void TrainingState::note_loss(LocalTask task) {
  const auto* kernel = std::get_if<Kernel>(&graph_.work(program_.work[task.index()]));
  if (!kernel || !adds_loss(kernel->kind)) return;
  const BufferId buffer = operands_of(program_, task).back();
  INVARIANT(buffer.index() < program_.residents &&
                program_.buffers[buffer.index()].size == Bytes(static_cast<std::int64_t>(sizeof(double))),
            "the loss is a resident buffer of one double");
  INVARIANT(!loss_ || buffer == *loss_, "one loss per rank");
  loss_ = buffer;
}

std::vector<float> decode(Precision precision, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(bytes_per_element(precision)));
  if (precision == Precision::fp32) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  INVARIANT(precision == Precision::bf16, "parameters are fp32 or bf16");
  std::vector<std::uint16_t> bits(values.size());
  if (!bytes.empty()) std::memcpy(bits.data(), bytes.data(), bytes.size());
  std::transform(bits.begin(), bits.end(), values.begin(), from_bf16);
  return values;
}

std::vector<std::byte> encode(Precision precision, std::span<const float> values) {
  std::vector<std::byte> bytes(bytes_of(static_cast<std::int64_t>(values.size()), precision));
  if (values.empty()) return bytes;
  if (precision == Precision::fp32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  INVARIANT(precision == Precision::bf16, "parameters are fp32 or bf16");
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), to_bf16);
  std::memcpy(bytes.data(), bits.data(), bytes.size());
  return bytes;
}

}  // namespace rehearsal::cpu
