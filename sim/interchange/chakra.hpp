// Execution traces of Chakra (MLCommons, schema/protobuf/et_def.proto at 6dc63e14): the numbers of their fields, which
// `export --as chakra` writes by, and the sums of a trace that somebody has.
//
// A trace is of one rank: messages of Protocol Buffers, each behind its length, a GlobalMetadata and then its Nodes.
// The same as JSON is what chakra_jsonizer prints, objects one behind the other, or the `workload_graph` that the
// feeder of ASTRA-sim takes in place of them (src/feeder/json_node.cpp).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearsal::interchange::chakra {

// A field's tag says which of these its value is.
enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

namespace metadata {
constexpr std::uint32_t kVersion = 1, kAttribute = 2;
}
namespace node {
constexpr std::uint32_t kId = 1, kName = 2, kType = 3, kDataDeps = 5, kDuration = 7, kAttribute = 10, kLast = 11;
}
// The value of an attribute is one of the fields 3 to 32, by its type.
namespace attribute {
constexpr std::uint32_t kName = 1, kDouble = 3, kFloat = 5, kInt32 = 7, kInt64 = 9, kUint64 = 13, kSint32 = 15,
                        kSint64 = 17, kBool = 27, kText = 29;
}
enum class NodeType : std::uint8_t {
  invalid,
  metadata,
  load,
  store,
  compute,
  send,
  receive,
  collective,
  storage,
  batch,
  checkpoint
};
inline constexpr std::size_t kNodeTypes = 11;
// CollectiveCommType.
namespace comm {
constexpr std::int64_t kAllReduce = 0, kAllGather = 2, kBroadcast = 5, kAllToAll = 6, kReduceScatter = 7;
}

// What nodes of a kind have in common. Sums of foreign numbers, which may be anything: no integers.
struct Sum {
  std::int64_t nodes = 0;
  double bytes = 0;
  double picoseconds = 0;
};

struct Trace {
  std::string version;                  // of the schema; empty: the JSON does not say it
  std::int64_t nodes = 0;               // of any type
  std::array<Sum, kNodeTypes> of = {};  // by NodeType, but for what runs on the host
  Sum host;                             // is_cpu_op: operators of a framework, which launch the others
  double operations = 0;                // num_ops of compute nodes
  std::map<std::string, Sum> between;   // collectives by kind and group: "all-reduce in group 3"
  std::int64_t gpus = 0;                // of the job; 0: not said
  const Sum& operator[](NodeType type) const { return of[std::size_t(type)]; }
};

// Whether a text begins as one of the three forms does.
bool is_trace(std::string_view text);
// Throws UserError, at `name`, where the trace is cut short or not of this schema.
Trace read_trace(const std::string& text, const std::string& name);
// "all-reduce" of 0; "collective" of a number that the schema does not have.
std::string comm_name(std::int64_t type);

// What it holds, a phrase for each kind of node: "1152 kernels in 312 ms".
std::vector<std::string> phrases(const Trace& trace);

}  // namespace rehearsal::interchange::chakra
