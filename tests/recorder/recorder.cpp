#include "recorder/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "kernels/host.hpp"

namespace rehearsal::test {
namespace {

constexpr std::byte kPoison{0xff};
constexpr std::int64_t kGranule = 512;

}  // namespace

RecordingDevice::RecordingDevice(World& world) : world_(world), index_(world.devices_.size()) {
  world_.devices_.push_back(this);
  world_.launched_.push_back(0), world_.started_.push_back(0);
  facts_.name = "a recorder", facts_.capability = "0.0";
  facts_.multiprocessors = world.manner_.multiprocessors;
  facts_.connections = world.manner_.connections;
}

RecordingDevice::~RecordingDevice() {
  while (world_.progress()) {
  }
  for (World::Stream& stream : world_.streams_) {
    if (stream.device != this) continue;
    if (!stream.queue.empty())
      world_.complain(fmt::format("'{}' and {} more never ran", stream.queue.front().name, stream.queue.size() - 1));
    stream.queue.clear();  // others outlive this device
  }
}

void RecordingDevice::call(const std::string& name, StreamId stream, std::function<void()> effect) {
  ++world_.calls[name];
  keep(stream, std::move(effect));
}

void RecordingDevice::keep(StreamId stream, std::function<void()> effect) {
  if (records(stream)) return recording_->add(stream, std::move(effect));
  effect();
}

void RecordingDevice::no_recording(const char* what) const {
  if (recording_) world_.complain(fmt::format("{} within a recording", what));
}

bool RecordingDevice::forgets(const std::string& name, std::uint64_t number) {
  if (world_.calls[name] + 1 != number) return false;
  ++world_.calls[name];
  return true;
}

std::size_t RecordingDevice::stream_of(StreamId stream) const {
  return replaying_ ? replaying_->streams.at(stream) : streams_.at(stream.index());
}

void RecordingDevice::queue(StreamId stream, Operation operation) {
  if (operation.lasts == Time{} && operation.meetings.empty() && !operation.waits && !operation.records)
    operation.lasts = picoseconds(1000);
  operation.host = seen_;
  world_.streams_[stream_of(stream)].queue.push_back(std::move(operation));
}

std::size_t RecordingDevice::most_partitions() const { return static_cast<std::size_t>(facts_.multiprocessors / 8); }

std::vector<int> RecordingDevice::partition(std::size_t parts) {
  if (!streams_.empty()) world_.complain("partitions are made before streams");
  if (parts > most_partitions())
    throw MachineError(
        fmt::format("{} partitions were asked for and {} of 8 multiprocessors are possible", parts, most_partitions()));
  parts_ = parts;
  return std::vector<int>(parts, facts_.multiprocessors / static_cast<int>(parts) / 8 * 8);
}

StreamId RecordingDevice::make_stream(std::size_t part) {
  if (part >= parts_) world_.complain("a stream of a partition that does not exist");
  streams_.push_back(world_.streams_.size());
  world_.streams_.push_back({.device = this});
  return StreamId(streams_.size() - 1);
}

EventId RecordingDevice::make_event() {
  events_.push_back({});
  return EventId(events_.size() - 1);
}

void RecordingDevice::queue_record(EventId event, StreamId stream) {
  const std::uint64_t number = ++events_.at(event.index()).recorded;
  queue(stream, {.name = "record", .records = Operation::Mark{event.index(), number}});
}

void RecordingDevice::record(EventId event, StreamId stream) {
  call("record", stream, [this, event, stream] { queue_record(event, stream); });
  if (records(stream))
    recording_->record(event, stream);
  else if (recording_)
    recording_->record_outside(event);
}

void RecordingDevice::wait(StreamId stream, EventId event) {
  if (forgets("wait", world_.manner_.forgets_wait)) return;
  const auto effect = [this, event, stream] {
    const std::uint64_t number = events_.at(event.index()).recorded;
    if (number == 0) world_.complain("a wait for an event that was never recorded does nothing");
    queue(stream, {.name = "wait", .waits = Operation::Mark{event.index(), number}});
  };
  if (recording_ && recording_->includes(event)) {
    ++world_.calls["wait"];
    return recording_->wait(stream, event, effect);
  }
  // CUDA lets a graph wait, at each replay, for the last record of an outside event; an iteration that repeats has no
  // use for that.
  if (records(stream)) world_.complain("a recording waits for an event from outside");
  call("wait", stream, effect);
}

bool RecordingDevice::reached(EventId event) {
  if (recording_ && recording_->includes(event))
    world_.complain("an event of a recording is asked for before a replay");
  const auto there = [&] { return events_.at(event.index()).reached >= events_.at(event.index()).recorded; };
  while (!there())
    if (!world_.progress()) return false;
  auto seen = std::make_shared<Knowledge>(*seen_);
  merge(*seen, events_[event.index()].known);
  seen_ = std::move(seen);
  return true;
}

Time RecordingDevice::between(EventId from, EventId to) {
  for (const EventId event : {from, to})
    if (events_.at(event.index()).reached == 0) world_.complain("the time of an event that was not reached");
  return events_.at(to.index()).time - events_.at(from.index()).time;
}

PoolId RecordingDevice::make_pool() {
  pools_.push_back({});
  return PoolId(pools_.size() - 1);
}

Address RecordingDevice::allocate(PoolId pool, Bytes size, StreamId stream) {
  auto block = std::make_unique<World::Block>();
  block->bytes.assign(static_cast<std::size_t>(std::max<std::int64_t>(size.count(), 1)), kPoison);
  World::Block* made = block.get();
  const Address address = made->bytes.data();
  world_.blocks_.emplace(address, std::move(block));
  made->pool = pool.index();
  made->recorded = records(stream);
  if (made->recorded) {
    recording_->allocate(address);
  } else {
    Pool& of = pools_.at(pool.index());
    of.live += Bytes((size.count() + kGranule - 1) / kGranule * kGranule);
    of.peak = std::max(of.peak, of.live);
  }
  call("allocate", stream, [this, made, address, stream] {
    const std::size_t mine = stream_of(stream);
    queue(stream, {.name = "allocate", .run = [this, made, mine] {
                     if (made->allocated) world_.complain("a block is allocated twice");
                     made->allocated = true;
                     // Other streams must learn of it, as of a first write.
                     const Knowledge& known = world_.streams_[mine].known;
                     const std::uint64_t now = (mine < known.size() ? known[mine] : 0) + 1;
                     made->past = {{0, made->bytes.size(), mine, now, true, "allocate"}};
                     std::fill(made->bytes.begin(), made->bytes.end(), kPoison);
                   }});
  });
  return address;
}

void RecordingDevice::free(Address block, StreamId stream) {
  if (forgets("free", world_.manner_.forgets_free)) return;
  if (records(stream) && forgets("free", world_.manner_.late_free))
    late_free_.emplace(block, stream);
  else
    queue_free(block, stream);
}

void RecordingDevice::queue_free(Address block, StreamId stream) {
  const auto found = world_.blocks_.find(block);
  if (found == world_.blocks_.end()) return world_.complain("something is freed that was never allocated");
  World::Block* made = found->second.get();
  const auto size = static_cast<std::int64_t>(made->bytes.size());
  if (records(stream)) {
    if (!recording_->free(block)) world_.complain("a recording frees what it did not allocate");
  } else if (made->recorded) {
    world_.complain("a block of a recording is freed outside of it");
  } else {
    pools_.at(made->pool).live -= Bytes((size + kGranule - 1) / kGranule * kGranule);
  }
  call("free", stream, [this, made, block, stream] {
    queue(stream, {.name = "free", .accesses = {{block, made->bytes.size(), true}}, .run = [made] {
                     made->allocated = false;
                     std::fill(made->bytes.begin(), made->bytes.end(), kPoison);
                   }});
  });
}

Bytes RecordingDevice::high_water(PoolId pool) { return pools_.at(pool.index()).peak; }

std::span<std::byte> RecordingDevice::pinned(Bytes size) {
  return pinned_.emplace_back(static_cast<std::size_t>(size.count()));
}

bool RecordingDevice::is_pinned(const void* address) const {
  return std::ranges::any_of(
      pinned_, [&](const auto& bytes) { return address >= bytes.data() && address < bytes.data() + bytes.size(); });
}

void RecordingDevice::copy(void* to, const void* from, Bytes size, gpu::Direction direction, StreamId stream) {
  const auto bytes = static_cast<std::size_t>(size.count());
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  switch (direction) {
    case gpu::Direction::to_device:
      return call(
          "copy to device", stream, [this, target, stream, kept = std::vector<std::byte>(source, source + bytes)] {
            queue(stream, {.name = "copy to device", .accesses = {{target, kept.size(), true}}, .run = [target, kept] {
                             std::ranges::copy(kept, target);
                           }});
          });
    case gpu::Direction::to_host:
      if (!is_pinned(to)) world_.complain("a copy to host memory that is not pinned");
      return call("copy to host", stream, [this, target, source, bytes, stream] {
        queue(stream, {.name = "copy to host", .accesses = {{source, bytes, false}}, .run = [target, source, bytes] {
                         std::memcpy(target, source, bytes);
                       }});
      });
    case gpu::Direction::within_device:
      return call("copy", stream, [this, target, source, bytes, stream] {
        queue(stream, {.name = "copy",
                       .accesses = {{source, bytes, false}, {target, bytes, true}},
                       .run = [target, source, bytes] { std::memmove(target, source, bytes); }});
      });
  }
}

void RecordingDevice::fill(Address to, std::byte value, Bytes size, StreamId stream) {
  const auto bytes = static_cast<std::size_t>(size.count());
  call("fill", stream, [this, to, value, bytes, stream] {
    queue(stream, {.name = "fill", .accesses = {{to, bytes, true}}, .run = [to, value, bytes] {
                     std::fill_n(to, bytes, value);
                   }});
  });
}

void RecordingDevice::load(const kernels::Call& call, StreamId) { loaded_.emplace(call.kernel.kind, call.kernel.dims); }

void RecordingDevice::perform(const kernels::Call& given, StreamId stream) {
  // An unloaded kernel is loaded now, and loading may wait for pending work: for a message whose sender waits for us.
  if (loaded_.emplace(given.kernel.kind, given.kernel.dims).second && world_.launched_[index_] > 0)
    world_.complain(
        fmt::format("'{}' is launched first after communicators were used", rehearsal::name(given.kernel.kind)));
  const std::string name = fmt::format("{}", rehearsal::name(given.kernel.kind));
  call("perform " + name, stream, [this, given, stream, name] {
    Operation operation{.name = name};
    const auto elements = operand_elements(given.kernel, given.data);
    for (std::size_t i = 0; i < elements.count; ++i)
      operation.accesses.push_back(
          {static_cast<const std::byte*>(given.operands[i]),
           static_cast<std::size_t>(elements.elements[i] * bytes_per_element(operand_precision(given.kernel, i))),
           i >= operands_read(given.kernel.kind)});
    const auto touches = [&](const void* at, std::size_t size, bool writes) {
      if (at) operation.accesses.push_back({static_cast<const std::byte*>(at), size, writes});
    };
    touches(given.scratch, kernels::kScratch * sizeof(double), true);
    touches(given.steps, sizeof(std::int64_t), false);
    touches(given.squared_gradients, sizeof(double), true);
    touches(given.counted, static_cast<std::size_t>(given.ranges) * sizeof(kernels::Range), false);
    if (world_.manner_.perform) operation.run = [this, given] { world_.manner_.perform(given); };
    queue(stream, std::move(operation));
  });
}

void RecordingDevice::spin(Time duration, StreamId stream) {
  call("spin", stream, [this, duration, stream] { queue(stream, {.name = "spin", .lasts = duration}); });
}

void RecordingDevice::accumulate(Precision precision, Address to, const std::byte* from, std::int64_t elements,
                                 StreamId stream) {
  const auto bytes = static_cast<std::size_t>(elements * bytes_per_element(precision));
  call("accumulate", stream, [this, precision, to, from, elements, bytes, stream] {
    queue(stream,
          {.name = "accumulate",
           .accesses = {{from, bytes, false}, {to, bytes, true}},
           .run = [precision, to, from, elements] { kernels::accumulate_on_host(precision, to, from, elements); }});
  });
}

void RecordingDevice::count(std::int64_t* number, std::int64_t more, StreamId stream) {
  call("count", stream, [this, number, more, stream] {
    queue(stream, {.name = "count",
                   .accesses = {{reinterpret_cast<const std::byte*>(number), sizeof(*number), true}},
                   .run = [number, more] { *number += more; }});
  });
}

void RecordingDevice::begin_recording(StreamId stream) {
  no_recording("a recording");
  recording_.emplace(stream);
  calls_before_ = world_.calls;
}

gpu::RecordingId RecordingDevice::end_recording(StreamId stream) {
  if (late_free_) queue_free(late_free_->first, late_free_->second);
  late_free_.reset();
  for (const std::string& rule : recording_->end(stream)) world_.complain(rule);
  world_.recordings.emplace_back(calls_before_, world_.calls);
  Graph graph{.recording = std::move(*recording_), .over = make_event()};
  recording_.reset();
  for (const StreamId forked : graph.recording.forked()) {
    graph.streams[forked] = world_.streams_.size();
    world_.streams_.push_back({.device = this});
  }
  graphs_.push_back(std::move(graph));
  return gpu::RecordingId(graphs_.size() - 1);
}

void RecordingDevice::replay(gpu::RecordingId recording, StreamId stream) {
  no_recording("a replay");
  ++world_.calls["replay"];
  Graph& graph = graphs_.at(recording.index());
  Operation launch{.name = "launch", .lasts = world_.manner_.launch};
  const std::uint64_t replays = events_[graph.over.index()].recorded;
  if (replays > 0) launch.waits = Operation::Mark{graph.over.index(), replays};
  queue(stream, std::move(launch));
  graph.streams[graph.recording.first()] = stream_of(stream);
  replaying_ = &graph;
  for (const auto& effect : graph.recording.effects()) effect();
  replaying_ = nullptr;
  queue_record(graph.over, stream);
}

void RecordingDevice::observe() { no_recording("waiting for the device"); }

gpu::DeviceReport RecordingDevice::observed() {
  no_recording("waiting for the device");
  return {};
}

// --- communicators --------------------------------------------------------------------------------------------------

class RecordingCommunicator : public gpu::Communicator {
 public:
  RecordingCommunicator(RecordingCommunicators& of, std::size_t line, int index)
      : of_(of), world_(of.world_), line_(line), index_(index) {}

  void send(const std::byte* from, Bytes size, int peer, StreamId stream) override {
    of_.join(stream, "send", [this, from, size, peer] {
      World::Meeting m{.kind = World::Meeting::Kind::send, .line = line_, .index = index_, .peer = peer};
      m.number = world_.lines_[line_].sends[{index_, peer}]++;
      m.in = from, m.in_size = static_cast<std::size_t>(size.count());
      return m;
    });
  }
  void receive(Address into, Bytes size, int peer, StreamId stream) override {
    of_.join(stream, "receive", [this, into, size, peer] {
      World::Meeting m{.kind = World::Meeting::Kind::receive, .line = line_, .index = index_, .peer = peer};
      m.number = world_.lines_[line_].receives[{index_, peer}]++;
      m.out = into, m.out_size = static_cast<std::size_t>(size.count());
      return m;
    });
  }
  void collective(CollectiveKind kind, Precision precision, const std::byte* in, Address out, std::int64_t part,
                  StreamId stream) override {
    of_.join(stream, "collective", [this, kind, precision, in, out, part] {
      World::Meeting m{.kind = World::Meeting::Kind::collective, .line = line_, .index = index_};
      World::Line& line = world_.lines_[line_];
      m.number = line.collectives[static_cast<std::size_t>(index_)]++;
      const auto one = static_cast<std::size_t>(part * bytes_per_element(precision));
      const auto members = static_cast<std::size_t>(line.members);
      m.in = in, m.out = out, m.collective = kind, m.precision = precision;
      const bool blocks = kind == CollectiveKind::all_to_all;
      m.in_size = blocks || kind == CollectiveKind::reduce_scatter ? one * members : one;
      m.out_size = blocks || kind == CollectiveKind::all_gather ? one * members : one;
      return m;
    });
  }
  std::optional<std::string> failure() override { return std::nullopt; }
  void abort() noexcept override {}

 private:
  RecordingCommunicators& of_;
  World& world_;
  std::size_t line_;
  int index_;
};

void RecordingCommunicators::join(StreamId stream, const char* name, Side side) {
  ++world_.calls[name];
  group_[stream].emplace_back(name, std::move(side));
  if (!grouped_) end_group();
}

void RecordingCommunicators::begin_group() { grouped_ = true; }

void RecordingCommunicators::end_group() {
  grouped_ = false;
  for (const auto& [stream, sides] : std::exchange(group_, {}))
    device_.keep(stream, [this, stream = stream, sides = sides] {
      World::Operation operation;
      for (const auto& [name, side] : sides) {
        const World::Meeting meeting = side();
        operation.name = name;
        if (meeting.in) operation.accesses.push_back({meeting.in, meeting.in_size, false});
        if (meeting.out) operation.accesses.push_back({meeting.out, meeting.out_size, true});
        operation.meetings.push_back(meeting);
      }
      operation.launch = ++world_.launched_[device_.index_];
      device_.queue(stream, std::move(operation));
    });
}

std::string World::make_line() {
  const std::string id = fmt::format("line {}", lines_.size());
  line_of_id_[id] = lines_.size();
  lines_.push_back({});
  return id;
}

std::string RecordingCommunicators::make_id() { return world_.make_line(); }

std::unique_ptr<gpu::Communicator> RecordingCommunicators::join(const std::string& id, int members, int index,
                                                                gpu::Traffic, Time) {
  const std::size_t at = world_.line_of_id_.at(id);
  World::Line& line = world_.lines_[at];
  if (line.members != 0 && line.members != members) world_.complain("members disagree on how many they are");
  line.members = members;
  line.collectives.resize(static_cast<std::size_t>(members));
  return std::make_unique<RecordingCommunicator>(*this, at, index);
}

gpu::Platform recording_platform(World& world) {
  return {.name = "recorder",
          .devices = [] { return std::size_t{1}; },
          .open = [&world](std::size_t) { return std::make_unique<RecordingDevice>(world); },
          .communicators =
              [&world](gpu::Device& device) {
                return std::make_unique<RecordingCommunicators>(world, dynamic_cast<RecordingDevice&>(device));
              }};
}

}  // namespace rehearsal::test
