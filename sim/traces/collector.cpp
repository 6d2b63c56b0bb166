#include "traces/collector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "traces/samples.hpp"

namespace rehearsal::traces {
namespace {

constexpr std::size_t kMostOperators = 200'000;  // distinct ones
constexpr std::size_t kMostStreams = 0xffff;
constexpr std::size_t kMostMeanings = 100'000;  // of which it is remembered what they say
constexpr std::uint32_t kMostLabel = 0x7fff;    // of LaunchedKernel
// In nanoseconds: the year 2250, and a trace of 50 days, of which a Time counts the picoseconds.
constexpr std::int64_t kLatest = 8'900'000'000'000'000'000, kLongest = 4'320'000'000'000'000;

// "8944,1024;1024,2816;"; nothing for a text that was cut off.
std::optional<std::vector<std::vector<std::int64_t>>> shapes_of(std::string_view text) {
  if (text.size() >= Event::kLongestText) return std::nullopt;
  std::vector<std::vector<std::int64_t>> all;
  while (!text.empty()) {
    const auto end = text.find(';');
    if (end == text.npos) return std::nullopt;
    auto& shape = all.emplace_back();
    for (std::string_view rest = text.substr(0, end); !rest.empty();) {
      std::int64_t size = 0;
      const auto [stop, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      if (failed != std::errc() || size < 0 || size > 1'000'000'000'000) return std::nullopt;
      shape.push_back(size);
      rest.remove_prefix(std::size_t(stop - rest.data()));
      if (rest.starts_with(','))
        rest.remove_prefix(1);
      else if (!rest.empty())
        return std::nullopt;
    }
    text.remove_prefix(end + 1);
  }
  return all;
}

bool has_times(const Event& event) {
  return event.start && event.duration && *event.start >= 0 && *event.start <= kLatest && *event.duration >= 0 &&
         *event.duration <= kLongest;
}

// Of the graph that autograd walks backwards.
bool is_node(std::string_view name) { return name.starts_with("autograd::engine::evaluate_function"); }

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> all;
  for (auto end = text.find(';'); end != text.npos; end = text.find(';'))
    all.push_back(readable(text.substr(0, end))), text.remove_prefix(end + 1);
  return all;
}

template <class T>
std::uint32_t interned(std::unordered_map<std::string, std::uint32_t>& known, std::vector<T>& all, std::string key,
                       const auto& make) {
  const auto [found, fresh] = known.try_emplace(std::move(key), std::uint32_t(all.size()));
  if (fresh) all.push_back(make());
  return found->second;
}

}  // namespace

std::uint16_t Collector::place_of(OfDevice& device, std::int64_t stream) {
  const auto at = device.streams.try_emplace(stream, std::uint16_t(device.streams.size()));
  return device.streams.size() > kMostStreams ? 0 : at.first->second;
}

void Collector::kernel(const Event& event, std::optional<Kind> kind) {
  if (!has_times(event)) {
    ++skipped_;
    return;
  }
  auto& device = devices_[event.device];
  LaunchedKernel one;
  one.start = *event.start, one.duration = *event.duration;
  one.stream = place_of(device, event.stream);
  if (event.correlation < kNone)
    one.launch = std::uint32_t(event.correlation), one.part_of(std::uint16_t(event.process & kMostLabel));
  one.name = interned(name_of_, names_, event.name, [&] {
    known_kinds_.push_back(kind);
    return KernelName{readable(event.name), KernelClasses::kUnknown, Kind::other};
  });
  if (!event.collective.empty()) {
    auto key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", event.collective, event.dtype, event.group, event.group_ranks,
                           event.in_elements, event.out_elements, event.group_size);
    one.moves = true;
    one.fact = interned(transfer_of_, transfers_, std::move(key), [&] {
      return Transfer{readable(event.collective),
                      readable(event.dtype),
                      readable(event.group),
                      readable(event.group_about),
                      readable(event.group_ranks),
                      std::max<std::int64_t>(0, event.in_elements),
                      std::max<std::int64_t>(0, event.out_elements),
                      event.group_size};
    });
  } else if (event.external < kNone) {
    one.fact = std::uint32_t(event.external);
  }
  device.kernels.push_back(one);
}

void Collector::launch(const Event& event) {
  if (event.correlation >= kNone || !has_times(event)) return;
  const auto calls = [&](const char* what) { return event.name.find(what) != event.name.npos; };
  if (calls("aunch") || calls("emcpy") || calls("emset"))
    host_.launch(event.process & kMostLabel, std::uint32_t(event.correlation), event.thread, *event.start,
                 *event.duration);
}

std::optional<Label> Collector::meaning(const std::string& text) {
  if (const auto known = meanings_.find(text); known != meanings_.end()) return known->second;
  const auto says = classes_.range(text);
  if (meanings_.size() < kMostMeanings) meanings_.emplace(text, says);
  return says;
}

void Collector::range(const Event& event) {
  if (!has_times(event)) return;
  const auto process = event.process & kMostLabel;
  if (is_node(event.name))
    host_.autograd(process, event.thread, *event.start, *event.start + *event.duration);
  else if (const auto says = meaning(event.name.substr(0, event.name.find(", "))))  // ", seq = 7, op_id = 9"
    host_.range(process, event.thread, *event.start, *event.start + *event.duration, *says);
}

void Collector::range_on_gpu(const Event& event) {
  if (!has_times(event)) return;
  if (const auto says = meaning(event.name)) {
    auto& device = devices_[event.device];
    const auto stream = place_of(device, event.stream >= 0 ? event.stream : event.thread);
    device.ranges.push_back({*event.start, *event.start + *event.duration, stream, *says});
  }
}

void Collector::operation(const Event& event) {
  if (is_node(event.name) && has_times(event))
    host_.autograd(event.process & kMostLabel, event.thread, *event.start, *event.start + *event.duration);
  if (event.external >= kNone || event.shapes.empty() || !is_sampled(event.name)) return;
  auto key = fmt::format("{}\n{}\n{}\n{}", event.name, event.type, event.shapes, event.values);
  const auto known = operator_of_.find(key);
  std::uint32_t number = kNone;
  if (known != operator_of_.end()) {
    number = known->second;
  } else {
    auto shapes = shapes_of(event.shapes);
    if (!shapes || operators_.size() >= kMostOperators) return;
    number = std::uint32_t(operators_.size());
    operators_.push_back({event.name, readable(event.type), std::move(*shapes), parts_of(event.values)});
    operator_of_.emplace(std::move(key), number);
  }
  launched_.emplace_back(std::uint32_t(event.external), number);
}

void Collector::step(std::int64_t number, std::int64_t start, std::int64_t end, bool on_gpu, const Event& by) {
  if (!on_gpu) host_.leads(by.process & kMostLabel, by.thread);
  const auto [at, fresh] = (on_gpu ? gpu_steps_ : host_steps_).try_emplace(number, Step{number, start, end});
  if (!fresh) at->second.start = std::min(at->second.start, start), at->second.end = std::max(at->second.end, end);
}

// The operators and calls that launched kernels, which may stand behind them in the file, and what they are part of.
void Collector::join(OfDevice& device, Trace& trace) {
  trace.labels = host_.labels();
  for (const auto& [_, op] : launched_) trace.calls.push_back(op);
  for (auto& kernel : device.kernels) {
    const auto* call = kernel.launch == kNone ? nullptr : host_.find(kernel.label, kernel.launch);
    kernel.launch = call ? std::uint32_t(trace.launches.size()) : kNone,
    kernel.part_of(call ? call->launch.label : std::uint16_t{0});
    if (call) trace.launches.push_back(call->launch);
    if (kernel.moves || kernel.fact == kNone) continue;
    const auto found = std::lower_bound(launched_.begin(), launched_.end(), std::pair(kernel.fact, std::uint32_t{0}));
    kernel.fact =
        found != launched_.end() && found->first == kernel.fact ? std::uint32_t(found - launched_.begin()) : kNone;
  }
  trace.kernels = std::move(device.kernels);
  std::sort(trace.kernels.begin(), trace.kernels.end(), [](const LaunchedKernel& a, const LaunchedKernel& b) {
    return std::tuple(a.start, a.stream, a.duration) < std::tuple(b.start, b.stream, b.duration);
  });
  if (device.ranges.empty()) return;
  OpenRanges open(std::move(device.ranges), std::vector<std::uint32_t>(device.streams.size()),
                  std::vector<bool>(device.streams.size()));
  for (auto& kernel : trace.kernels)
    if (kernel.launch == kNone) kernel.part_of(number_of(open.at(kernel.stream, kernel.start), trace.labels));
}

std::vector<Trace> Collector::finish(const std::string& file, const Header& header) && {
  host_.settle();
  std::sort(launched_.begin(), launched_.end());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    names_[i].of = classes_.of(names_[i].text);
    names_[i].kind = known_kinds_[i].value_or(classes_.kind(names_[i].of));
  }
  const auto& steps = gpu_steps_.size() >= host_steps_.size() ? gpu_steps_ : host_steps_;
  std::vector<Trace> all;
  for (auto& [number, device] : devices_) {
    if (device.kernels.empty()) continue;  // a range alone
    Trace trace;
    trace.file = file;
    join(device, trace);
    if (devices_.size() == 1) trace.rank = header.rank;
    trace.world = header.world, trace.base = header.base;
    trace.visible_gpus = std::int64_t(header.devices.size());
    for (const auto& gpu : header.devices)
      if (gpu.id == number || header.devices.size() == 1) trace.gpu = gpu;
    trace.steps_of_gpu = &steps == &gpu_steps_;
    for (const auto& [_, step] : steps) trace.steps.push_back(step);
    trace.origin = trace.kernels.front().start;
    std::uint64_t far = skipped_;
    for (; trace.kernels.back().start - trace.origin > kLongest; trace.kernels.pop_back()) ++far;
    for (auto& kernel : trace.kernels) kernel.start -= trace.origin;
    for (auto& step : trace.steps) step.start -= trace.origin, step.end -= trace.origin;
    for (auto& launch : trace.launches) launch.start -= trace.origin;
    trace.names = names_, trace.transfers = transfers_, trace.operators = operators_;
    by_elimination(trace);
    trace.streams.resize(device.streams.size());
    for (const auto& [stream, place] : device.streams) trace.streams[place] = stream;
    for (auto& transfer : trace.transfers) {  // ranks of groups that only the header lists
      if (!transfer.members().empty()) continue;
      for (const auto& group : header.groups)
        if (group.name == transfer.group && !group.ranks.empty())
          transfer.ranks = fmt::format("[{}]", fmt::join(group.ranks, ", "));
    }
    if (far) trace.notes.push_back(fmt::format("{} kernels without a possible start and duration are left out", far));
    if (operators_.size() >= kMostOperators)
      trace.notes.push_back(fmt::format("operators of more than {} shapes: the rest is not sampled", kMostOperators));
    all.push_back(std::move(trace));
  }
  return all;
}

}  // namespace rehearsal::traces
