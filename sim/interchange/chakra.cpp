#include "interchange/chakra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/quantity_text.hpp"
#include "interchange/keys.hpp"
#include "interchange/source.hpp"

namespace rehearsal::interchange::chakra {
namespace {

constexpr std::array<const char*, 10> kCommNames{"all-reduce",     "reduce",    "all-gather", "gather",
                                                 "scatter",        "broadcast", "all-to-all", "reduce-scatter",
                                                 "reduce-scatter", "barrier"};
// As JSON has them: the enumerators of the schema.
constexpr std::array<const char*, kNodeTypes> kTypeNames{
    "INVALID_NODE",   "METADATA_NODE",  "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",      "COMM_SEND_NODE",
    "COMM_RECV_NODE", "COMM_COLL_NODE", "STORAGE_NODE",  "BATCH_NODE",     "CHECKPOINT_NODE"};
constexpr double kMicrosecond = 1e6;  // in picoseconds
constexpr double kMostBytes = 9e18;   // that are shown

// What one node says of itself; attributes in the words that ASTRA-sim and the converters use.
struct Node {
  NodeType type = NodeType::invalid;
  double micros = 0;
  std::optional<double> picoseconds;  // of our own traces, whose microseconds are rounded
  bool host = false;
  std::optional<std::int64_t> comm_type;
  double comm_size = 0, tensor_size = 0, operations = 0;
  std::string group;

  void number(std::string_view name, double value) {
    if (name == "is_cpu_op") host = value != 0;
    if (name == "duration_ps") picoseconds = value;
    if (name == "comm_type" && value >= 0 && value < 1000) comm_type = std::int64_t(value);
    if (name == "comm_size") comm_size = value;
    if (name == "tensor_size") tensor_size = value;
    if (name == "num_ops") operations = value;
    if (name == "pg_name") group = fmt::format("{:.0f}", value);
  }
  void text(std::string_view name, std::string_view value) {
    if (name == "pg_name") group = value;
  }
};

void add(Trace& trace, const Node& node) {
  ++trace.nodes;
  const auto put = [&node](Sum& sum, double bytes) {
    ++sum.nodes, sum.bytes += bytes;
    sum.picoseconds += node.picoseconds.value_or(node.micros * kMicrosecond);
  };
  if (node.host) return put(trace.host, 0);
  const bool memory = node.type == NodeType::load || node.type == NodeType::store;
  const double bytes = memory ? node.tensor_size : node.comm_size;
  put(trace.of[std::size_t(node.type)], bytes);
  if (node.type == NodeType::compute) trace.operations += node.operations;
  if (node.type == NodeType::collective)
    put(trace.between[(node.comm_type ? comm_name(*node.comm_type) : "collective") +
                      (node.group.empty() ? "" : " in group " + node.group)],
        bytes);
}

// Fields of one message, in their order. What does not hold one ends the walk with good() false.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  bool next() {
    if (left_.empty() || !good_) return false;
    const auto tag = varint();
    number = std::uint32_t(tag >> 3), wire = Wire(tag & 7), value = 0, text = {};
    if (wire == Wire::varint)
      value = varint();
    else if (wire == Wire::bytes)
      text = take(varint());
    else if (wire == Wire::eight_bytes)
      value = fixed(8);
    else if (wire == Wire::four_bytes)
      value = fixed(4);
    else
      good_ = false;
    return good_ = good_ && number > 0;
  }
  bool good() const { return good_; }
  // One more message of a row of them, behind its length; nothing at the end, or where it is cut short.
  std::optional<std::string_view> message() {
    if (left_.empty()) return std::nullopt;
    const auto of = take(varint());
    return good_ ? std::optional(of) : std::nullopt;
  }
  std::size_t left() const { return left_.size(); }

  std::uint32_t number = 0;
  Wire wire = Wire::varint;
  std::uint64_t value = 0;
  std::string_view text;

 private:
  std::uint64_t varint() {
    std::uint64_t all = 0;
    for (int shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      all |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return all;
    }
    good_ = false;
    return 0;
  }
  std::string_view take(std::uint64_t size) {
    if (size > left_.size()) good_ = false;
    const auto taken = left_.substr(0, good_ ? std::size_t(size) : 0);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t fixed(std::size_t size) {
    std::uint64_t all = 0;
    const auto bytes = take(size);
    for (std::size_t i = bytes.size(); i > 0; --i) all = all << 8 | static_cast<unsigned char>(bytes[i - 1]);
    return all;
  }

  std::string_view left_;
  bool good_ = true;
};

double number_of_attribute(const Fields& f) {
  const auto zigzag = [&f] { return double(std::int64_t(f.value >> 1) ^ -std::int64_t(f.value & 1)); };
  if (f.number == attribute::kDouble) return std::bit_cast<double>(f.value);
  if (f.number == attribute::kFloat) return std::bit_cast<float>(std::uint32_t(f.value));
  if (f.number == attribute::kSint32 || f.number == attribute::kSint64) return zigzag();
  if (f.number == attribute::kInt32 || f.number == attribute::kInt64) return double(std::int64_t(f.value));
  return double(f.value);
}

bool read_attribute(std::string_view bytes, Node& node) {
  std::string_view name;
  Fields fields(bytes);
  while (fields.next()) {
    if (fields.number == attribute::kName)
      name = fields.text;
    else if (fields.wire != Wire::bytes)
      node.number(name, number_of_attribute(fields));
    else if (fields.number == attribute::kText)
      node.text(name, fields.text);
  }
  return fields.good();
}

// Nothing if the message is no Node.
std::optional<Node> node_of(std::string_view bytes) {
  Node node;
  Fields fields(bytes);
  while (fields.next()) {
    const bool text = fields.wire == Wire::bytes;
    if (fields.number > node::kLast || ((fields.number == node::kId || fields.number == node::kType) && text) ||
        (fields.number == node::kName && !text))
      return std::nullopt;
    if (fields.number == node::kType && fields.value < kNodeTypes) node.type = NodeType(fields.value);
    if (fields.number == node::kDuration) node.micros = double(fields.value);
    if (fields.number == node::kAttribute && !(text && read_attribute(fields.text, node))) return std::nullopt;
  }
  return fields.good() && node.type != NodeType::invalid ? std::optional(node) : std::nullopt;
}

// Nothing if the message is no GlobalMetadata.
std::optional<std::string> version_of(std::string_view bytes) {
  std::string version;
  Fields fields(bytes);
  while (fields.next()) {
    if (fields.wire != Wire::bytes || fields.number > metadata::kAttribute) return std::nullopt;
    Node attributes;
    if (fields.number == metadata::kVersion)
      version = fields.text;
    else if (!read_attribute(fields.text, attributes))
      return std::nullopt;
  }
  return fields.good() ? std::optional(version) : std::nullopt;
}

bool is_binary_trace(std::string_view text) {
  Fields messages(text);
  const auto first = messages.message();
  if (!first || first->empty() || !version_of(*first)) return false;
  const auto second = messages.message();
  return second && node_of(*second);
}

Trace read_binary(std::string_view text, const std::string& name) {
  Trace trace;
  Fields messages(text);
  bool first = true;
  for (auto at = messages.left(); at > 0; at = messages.left()) {
    const auto message = messages.message();
    if (first && message) {
      trace.version = version_of(*message).value_or("");
      first = false;
      continue;
    }
    const auto node = message ? node_of(*message) : std::nullopt;
    if (!node)
      throw UserError(
          {{{name, 0, 0},
            fmt::format("the trace ends in the middle of node {} (byte {}); the file is cut short or damaged",
                        trace.nodes, text.size() - at)}});
    add(trace, *node);
  }
  return trace;
}

// JSON of Protocol Buffers has 64-bit numbers as texts.
std::optional<double> number_in(const Json* value) {
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->dump() == "true" ? 1 : 0;
  if (value->is_number()) return value->real();
  return value->is_string() ? number_of(value->text()) : std::nullopt;
}

NodeType type_in(const Json* value) {
  if (value && value->is_string())
    for (std::size_t type = 0; type < kNodeTypes; ++type)
      if (value->text() == kTypeNames[type]) return NodeType(type);
  const auto number = number_in(value).value_or(0);
  return number >= 0 && number < double(kNodeTypes) ? NodeType(number) : NodeType::invalid;
}

// Of chakra_jsonizer: attributes are a list of {name, int64Val}; else they are keys of the node.
Node node_in(const Json& json) {
  Node node;
  const auto* type = json.find("type");
  node.type = type_in(type ? type : json.find("NodeType"));
  const auto* micros = json.find("durationMicros");
  node.micros = number_in(micros ? micros : json.find("runtime")).value_or(0);
  const auto take = [&node](std::string_view name, const Json& value) {
    if (const auto number = number_in(&value))
      node.number(name, *number);
    else if (value.is_string())
      node.text(name, value.text());
  };
  if (const auto* attributes = json.find("attr"); attributes && attributes->is_array()) {
    for (const auto& one : attributes->items()) {
      const auto* name = one.find("name");
      if (!name || !name->is_string()) continue;
      for (const auto& [key, value] : one.members())
        if (key.ends_with("Val")) take(name->text(), value);
    }
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.members()) take(key, value);
  }
  return node;
}

Trace read_graph(const std::string& text, const std::string& name) {
  const auto json = Json::read(text);
  const Json* nodes = json ? json->find("workload_graph") : nullptr;
  if (!nodes || !nodes->is_array())
    throw UserError(
        {{{name, 0, 0}, "'workload_graph' must be a list of nodes in valid JSON; the file may be cut short"}});
  Trace trace;
  if (const auto gpus = number_in(json->find("ngpus")); gpus && *gpus >= 1 && *gpus < 1e9)
    trace.gpus = std::int64_t(*gpus);
  for (const auto& node : nodes->items()) add(trace, node_in(node));
  return trace;
}

Trace read_objects(std::string_view text, const std::string& name) {
  Trace trace;
  const auto size = text.size();
  bool first = true;
  for (text = from_first_word(text); !text.empty(); text = from_first_word(text)) {
    const auto object = first_object(text);
    const auto json = Json::read(std::string(object));
    if (!json || !json->is_object())
      throw UserError({{{name, 0, 0},
                        fmt::format("node {} (byte {}) is no JSON object; the file is cut short or damaged",
                                    trace.nodes, size - text.size())}});
    text.remove_prefix(object.size());
    if (!first) {
      add(trace, node_in(*json));
    } else if (const auto* version = json->find("version"); version && version->is_string()) {
      trace.version = version->text();
    }
    first = false;
  }
  return trace;
}

constexpr std::size_t kBeginning = 4096;

bool is_graph(std::string_view text) {
  return text.starts_with('{') && text.substr(0, kBeginning).find("\"workload_graph\"") != text.npos;
}

// An object of its own in front, and then one of a type of the schema.
bool is_objects(std::string_view text) {
  if (!text.starts_with('{')) return false;
  const auto metadata = first_object(text);
  const auto rest = from_first_word(text.substr(metadata.size()));
  if (metadata.empty() || !rest.starts_with('{')) return false;
  const auto json = Json::read(std::string(first_object(rest)));
  return json && json->find("type") && type_in(json->find("type")) != NodeType::invalid;
}

}  // namespace

std::string comm_name(std::int64_t type) {
  return type >= 0 && std::size_t(type) < kCommNames.size() ? kCommNames[std::size_t(type)] : "collective";
}

bool is_trace(std::string_view text) {
  const auto json = from_first_word(text);
  return is_graph(json) || is_objects(json) || is_binary_trace(text);
}

Trace read_trace(const std::string& text, const std::string& name) {
  const auto json = from_first_word(text);
  if (is_graph(json)) return read_graph(text, name);
  return is_objects(json) ? read_objects(json, name) : read_binary(text, name);
}

std::vector<std::string> phrases(const Trace& trace) {
  std::vector<std::string> all;
  const auto time = [](const Sum& sum) {
    return sum.picoseconds > 0 ? " in " + show(Duration{sum.picoseconds * 1e-12}) : std::string();
  };
  const auto add = [&all](const Sum& sum, std::string_view what, const std::string& of) {
    if (sum.nodes > 0) all.push_back(fmt::format("{} {}{}{}", sum.nodes, what, sum.nodes == 1 ? "" : "s", of));
  };
  const auto& kernels = trace[NodeType::compute];
  add(kernels, "kernel",
      time(kernels) + (trace.operations > 0 ? fmt::format(" with {:.4g} operations", trace.operations) : ""));
  const auto moved = [&](const Sum& sum, const std::string& what) {
    if (sum.nodes == 0) return;
    auto text = fmt::format("{} x {}", sum.nodes, what);
    if (sum.bytes > 0)
      text += fmt::format(", {} in all", show(Bytes{std::int64_t(std::clamp(sum.bytes, 0., kMostBytes))}));
    all.push_back(text + time(sum));
  };
  for (const auto& [what, sum] : trace.between) moved(sum, what);
  moved(trace[NodeType::send], "send"), moved(trace[NodeType::receive], "receive");
  moved(trace[NodeType::load], "load from memory"), moved(trace[NodeType::store], "store to memory");
  std::int64_t others = 0;
  for (const auto type :
       {NodeType::invalid, NodeType::metadata, NodeType::storage, NodeType::batch, NodeType::checkpoint})
    others += trace[type].nodes;
  add(trace.host, "operator", time(trace.host) + " on the host");
  if (others > 0) all.push_back(fmt::format("{} nodes that are none of these", others));
  return all;
}

}  // namespace rehearsal::interchange::chakra
