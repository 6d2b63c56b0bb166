// The JSON of PyTorch's profiler (Kineto, Chrome trace events), read as a stream: files of gigabytes, compressed or
// not, in memory that does not grow with them. The only user of RapidJSON.
//
// `ts` and `dur` are microseconds with up to three digits behind the point, whatever displayTimeUnit says, and become
// whole nanoseconds: a double cannot hold those since 1970. Control characters within strings read as spaces, bytes
// that are no UTF-8 as question marks: profilers write both, and JSON allows neither.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::traces {

inline constexpr std::uint64_t kNoId = std::numeric_limits<std::uint64_t>::max();

// What a trace tells of an event, as far as it is used; texts are cut to kLongestText. Absent texts are empty.
struct Event {
  static constexpr std::size_t kLongestText = 512;

  std::string phase, category, name;
  std::optional<std::int64_t> start, duration;  // ns
  std::uint64_t external = kNoId;               // "External id": of an operator, and of the kernels that it launched
  std::uint64_t correlation = kNoId;            // of a call, and of the kernels that it launched
  std::int64_t device = -1, stream = -1;
  std::int64_t thread = -1;   // of the host; of what runs on a GPU, its stream
  std::uint32_t process = 0;  // of several in a file
  // Of communication kernels, since PyTorch 2.1.
  std::string collective, dtype, group, group_about, group_ranks;
  std::int64_t in_elements = -1, out_elements = -1, group_size = 0;
  // Of operators, with record_shapes: "8944,1024;1024,2816;" and the first type of an input that is a tensor.
  std::string shapes, type;
  std::string values;  // "Concrete Inputs", likewise: "True;;0.1;"
};

struct Device {
  std::int64_t id = -1;
  std::string name;
  std::int64_t memory = 0, multiprocessors = 0;  // bytes
  std::int64_t major = 0, minor = 0;             // compute capability
};

// What stands beside the events.
struct Header {
  std::optional<std::int64_t> rank, world;
  std::optional<std::int64_t> base;  // baseTimeNanoseconds, to which times are relative
  std::vector<Device> devices;
  struct Group {
    std::string name;
    std::vector<std::int64_t> ranks;
  };
  std::vector<Group> groups;  // distributedInfo.pg_config
};

class Events {
 public:
  virtual ~Events() = default;
  virtual void event(const Event& event) = 0;
};

struct ReadSoFar {
  std::uint64_t events = 0, bytes = 0;  // bytes: of JSON, uncompressed
  std::string incomplete;               // why the rest is missing: the file ends early; empty if it does not
};

// Throws UserError for what cannot be read, is no JSON, or has no list of events; an early end is no error.
ReadSoFar read_profiler_json(const std::string& path, Header& header, Events& events,
                             const std::function<void(std::size_t bytes)>& passed = {});

// "4458677009853.422" microseconds as nanoseconds; nothing for what is no such number.
std::optional<std::int64_t> nanoseconds(std::string_view microseconds);

// Without bytes that are no UTF-8.
std::string readable(std::string_view text);

}  // namespace rehearsal::traces
