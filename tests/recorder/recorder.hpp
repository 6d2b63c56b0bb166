// A GPU and NCCL for tests: queued work is kept, executed on the host in an order that the streams allow, and checked
// against the rules. It implements our own interfaces (gpu/device.hpp, gpu/communicator.hpp); no symbol of CUDA or NCCL
// is faked.
//
// Streams run in a random order, as far apart as events permit, so that a missing wait shows: as wrong numbers, and
// because every access to memory is checked. By the order of streams, events and messages (vector clocks) an access
// must come after every write that it depends on and every access whose data it overwrites; memory must not be accessed
// before its allocation or after its release; fresh and freed memory reads as NaN. Communicators buffer nothing: a
// message moves when both sides have reached it. Broken rules are collected as sentences; tests expect none.
//
// A recording obeys the rules of recording.hpp. A replay runs as a graph does: after earlier work on its stream and
// after earlier replays of the recording, concurrently with everything else, including the recorded streams. Its memory
// belongs to no pool.
//
// Time is logical: an operation takes a nanosecond, spin() its argument, a message or a collective nothing.
#pragma once
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpu/communicator.hpp"
#include "gpu/device.hpp"
#include "gpu/platform.hpp"
#include "recorder/recording.hpp"

namespace rehearsal::test {

using gpu::Address;
using gpu::EventId;
using gpu::PoolId;
using gpu::StreamId;

class RecordingDevice;

// All devices and communicators that can meet. Must outlive them.
class World {
 public:
  struct Manner {
    unsigned seed = 1;
    // NCCL_LAUNCH_ORDER_IMPLICIT: a call of one device starts no earlier than those queued before it have started.
    bool launch_order = false;
    int multiprocessors = 132;
    std::size_t connections = SIZE_MAX;
    Time launch = {};  // from the call of a replay to its first work
    // Injected mistakes. The call with this number, counted over all calls, has no effect:
    std::uint64_t forgets_wait = 0, forgets_free = 0;
    std::uint64_t late_free = 0;                             // this free comes last in its recording
    std::function<void(const kernels::Call&)> perform = {};  // on the host; null: kernels only access their operands
  };
  explicit World(Manner manner);

  // Executes everything that can be executed; false when nothing could.
  bool progress();
  const std::vector<std::string>& broken() const { return broken_; }
  // Blocks currently allocated, over all devices, once the queues are empty.
  std::size_t blocks() const;
  std::size_t waiting() const;  // operations that cannot be executed
  std::string heads() const;    // of the streams with such operations, a line each
  std::uint64_t executed() const { return executed_; }

  std::string make_line();  // an id of communicators

  // Calls by name, over all devices: "perform linear", "send", "record", ...
  using Calls = std::map<std::string, std::uint64_t>;
  Calls calls;
  std::vector<std::pair<Calls, Calls>> recordings;  // calls before and after each

 private:
  friend class RecordingDevice;
  friend class RecordingCommunicator;
  friend class RecordingCommunicators;

  struct Access {
    const std::byte* from = nullptr;
    std::size_t size = 0;
    bool writes = false;
  };
  // One side of a message or a collective.
  struct Meeting {
    enum class Kind : std::uint8_t { send, receive, collective };
    Kind kind{};
    std::size_t line = 0;  // index of the communicator in the world
    int index = 0, peer = 0;
    std::uint64_t number = 0;  // counted per side and peer, or per member
    const std::byte* in = nullptr;
    Address out = nullptr;
    std::size_t in_size = 0, out_size = 0;
    CollectiveKind collective{};
    Precision precision{};
    bool done = false;
  };
  struct Operation {
    std::string name;
    std::vector<Access> accesses = {};
    std::function<void()> run = {};
    Time lasts = {};
    struct Mark {  // the number of a record of an event of this device
      std::size_t event = 0;
      std::uint64_t number = 0;
    };
    std::optional<Mark> waits = {}, records = {};
    std::vector<Meeting> meetings = {};  // of one group
    std::uint64_t launch = 0;            // order among the meetings of its device
    bool started = false;
    Knowledge learned = {};                      // from other ranks, in its meetings
    std::shared_ptr<const Knowledge> host = {};  // what the host knew when it queued this
    Time together = {};
  };
  struct Stream {
    RecordingDevice* device = nullptr;
    std::deque<Operation> queue = {};
    Knowledge known = {};
    Time at = {};
  };
  struct Past {
    std::size_t from = 0, to = 0, stream = 0;
    std::uint64_t when = 0;
    bool writes = false;
    std::string who;
  };
  struct Block {
    std::vector<std::byte> bytes = {};
    std::size_t pool = 0;
    bool recorded = false;        // belongs to a recording
    bool allocated = false;       // executed, and not released yet
    std::vector<Past> past = {};  // accesses that a later one may have to follow
  };
  struct Line {
    int members = 0;
    std::vector<std::uint64_t> collectives = {};
    std::map<std::pair<int, int>, std::uint64_t> sends = {}, receives = {};
  };

  bool advance(std::size_t stream);  // advances the stream's head; true if something happened
  bool meet(std::size_t stream);
  bool exchange(std::size_t stream, Meeting& send);
  bool combine(std::size_t stream, Meeting& mine);
  void end(std::size_t stream);
  bool check(std::size_t stream, const Access& access, const std::string& who);  // false: out of bounds
  bool knows(const Knowledge& known, std::size_t stream, std::uint64_t when) const;
  Block* block_of(const std::byte* address);
  void complain(const std::string& what);

  Manner manner_;
  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::map<const std::byte*, std::unique_ptr<Block>> blocks_;  // by first byte; freed ones stay
  std::vector<Line> lines_;
  std::map<std::string, std::size_t> line_of_id_;
  std::vector<RecordingDevice*> devices_;
  std::vector<std::uint64_t> launched_, started_;  // meetings of each device
  std::vector<std::string> broken_;
  std::uint64_t executed_ = 0;
};

class RecordingDevice : public gpu::Device {
 public:
  explicit RecordingDevice(World& world);
  ~RecordingDevice() override;
  const gpu::DeviceFacts& facts() const override { return facts_; }
  std::vector<int> partition(std::size_t parts) override;
  StreamId make_stream(std::size_t part) override;
  EventId make_event() override;
  void record(EventId event, StreamId stream) override;
  void wait(StreamId stream, EventId event) override;
  bool reached(EventId event) override;
  Time between(EventId from, EventId to) override;
  PoolId make_pool() override;
  Address allocate(PoolId pool, Bytes size, StreamId stream) override;
  void free(Address block, StreamId stream) override;
  Bytes high_water(PoolId pool) override;
  std::span<std::byte> pinned(Bytes size) override;
  void copy(void* to, const void* from, Bytes size, gpu::Direction direction, StreamId stream) override;
  void fill(Address to, std::byte value, Bytes size, StreamId stream) override;
  void load(const kernels::Call& call, StreamId stream) override;
  void perform(const kernels::Call& call, StreamId stream) override;
  void spin(Time duration, StreamId stream) override;
  void accumulate(Precision precision, Address to, const std::byte* from, std::int64_t elements,
                  StreamId stream) override;
  void count(std::int64_t* number, std::int64_t more, StreamId stream) override;
  void begin_recording(StreamId stream) override;
  gpu::RecordingId end_recording(StreamId stream) override;
  void replay(gpu::RecordingId recording, StreamId stream) override;
  void observe() override;
  gpu::DeviceReport observed() override;

  // The maximum number of partitions: as on a real GPU in steps of 8 SMs.
  std::size_t most_partitions() const;

 private:
  friend class World;
  friend class RecordingCommunicator;
  friend class RecordingCommunicators;
  using Operation = World::Operation;
  struct Event {
    std::uint64_t recorded = 0, reached = 0;  // numbers of records
    Knowledge known = {};                     // of the stream, at the last record reached
    Time time = {};
  };
  // A finished recording, and the streams where its replays run.
  struct Graph {
    Recording recording;
    std::map<StreamId, std::size_t> streams = {};  // index in the world; the first one's: where it was last launched
    EventId over = {};                             // the last replay
  };
  // Runs now, or at every replay if the stream belongs to the recording.
  void call(const std::string& name, StreamId stream, std::function<void()> effect);
  void keep(StreamId stream, std::function<void()> effect);  // without counting it
  bool records(StreamId stream) const { return recording_ && recording_->includes(stream); }
  void no_recording(const char* what) const;
  bool forgets(const std::string& name, std::uint64_t number);
  std::size_t stream_of(StreamId stream) const;  // of the world
  void queue(StreamId stream, Operation operation);
  void queue_record(EventId event, StreamId stream);
  void queue_free(Address block, StreamId stream);
  bool is_pinned(const void* address) const;

  World& world_;
  std::size_t index_;
  gpu::DeviceFacts facts_;
  std::vector<std::size_t> streams_;  // of the world, by StreamId
  std::vector<Event> events_;
  std::size_t parts_ = 1;
  struct Pool {
    Bytes live, peak;
  };
  std::vector<Pool> pools_;
  std::list<std::vector<std::byte>> pinned_;
  std::optional<Recording> recording_;
  World::Calls calls_before_;                              // the recording
  std::optional<std::pair<Address, StreamId>> late_free_;  // of the recording
  std::vector<Graph> graphs_;                              // by RecordingId
  const Graph* replaying_ = nullptr;
  std::shared_ptr<const Knowledge> seen_ = std::make_shared<Knowledge>();  // by the host
  std::set<std::pair<KernelKind, KernelDims>> loaded_;                     // before or by their first launch
};

class RecordingCommunicators : public gpu::Communicators {
 public:
  RecordingCommunicators(World& world, RecordingDevice& device) : world_(world), device_(device) {}
  std::string make_id() override;
  // Does not wait for other ranks: the ranks of a test take turns in one thread.
  std::unique_ptr<gpu::Communicator> join(const std::string& id, int members, int index, gpu::Traffic traffic,
                                          Time patience) override;
  void begin_group() override;
  void end_group() override;

 private:
  friend class RecordingCommunicator;
  // Queues one side of a call, at once or with its group.
  using Side = std::function<World::Meeting()>;
  void join(StreamId stream, const char* name, Side side);
  World& world_;
  RecordingDevice& device_;
  bool grouped_ = false;
  std::map<StreamId, std::vector<std::pair<std::string, Side>>> group_;
};

// A platform with one device of `world`, for a backend.
gpu::Platform recording_platform(World& world);

}  // namespace rehearsal::test
