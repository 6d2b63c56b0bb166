#include "report/chakra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.hpp"
#include "interchange/chakra.hpp"

namespace rehearsal::report {
namespace {

using interchange::chakra::Wire;

// Protocol Buffers, wire format: a field is its number and its wire type, then a varint, or a length and bytes.
class WireMessage {
 public:
  void number(std::uint32_t field, std::uint64_t value) { tag(field, Wire::varint), varint(value); }
  void text(std::uint32_t field, std::string_view bytes) {
    tag(field, Wire::bytes), varint(bytes.size());
    bytes_ += bytes;
  }
  void list(std::uint32_t field, const std::vector<std::uint64_t>& values) {  // packed
    if (values.empty()) return;
    WireMessage all;
    for (const auto value : values) all.varint(value);
    text(field, all.bytes_);
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(std::uint32_t field, Wire type) { varint(std::uint64_t(field) << 3 | std::uint64_t(type)); }
  std::string bytes_;
};

namespace node = interchange::chakra::node;
namespace attribute = interchange::chakra::attribute;
namespace comm = interchange::chakra::comm;
using interchange::chakra::NodeType;

void add(WireMessage& to, std::string_view name, std::uint32_t kind, std::uint64_t value) {
  WireMessage one;
  one.text(attribute::kName, name), one.number(kind, value);
  to.text(node::kAttribute, one.bytes());
}
void add(WireMessage& to, std::string_view name, std::string_view value) {
  WireMessage one;
  one.text(attribute::kName, name), one.text(attribute::kText, value);
  to.text(node::kAttribute, one.bytes());
}

// A shift of a ring is none of these.
std::optional<std::int64_t> comm_type(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return comm::kAllReduce;
    case CollectiveKind::all_gather:
      return comm::kAllGather;
    case CollectiveKind::broadcast:
      return comm::kBroadcast;
    case CollectiveKind::all_to_all:
      return comm::kAllToAll;
    case CollectiveKind::reduce_scatter:
      return comm::kReduceScatter;
    case CollectiveKind::shift:
      return std::nullopt;
  }
  return std::nullopt;
}

struct Sent {
  CollectiveKind kind;
  std::uint64_t bytes;
};
// A collective with its kind and bytes; nothing for what joins a group otherwise.
std::optional<Sent> collective_of(const graph::Work& work) {
  if (const auto* c = std::get_if<graph::Collective>(&work)) return Sent{c->kind, std::uint64_t(c->size.count())};
  if (const auto* d = std::get_if<graph::Dispatch>(&work))
    return Sent{CollectiveKind::all_to_all, std::uint64_t(d->tokens * d->per_token * d->each.count())};
  return std::nullopt;
}

class RankWriter {
 public:
  RankWriter(const answer::LoweredJob& job, std::size_t rank)
      : job_(job),
        graph_(job.graph),
        id_(RankId(std::uint32_t(rank))),
        rank_(graph_.ranks()[rank]),
        program_(graph_.program_of(rank_)) {
    before_.fill(kNone);
  }

  std::string node_of(std::size_t i) {
    WireMessage message;
    const auto& work = graph_.work(program_.work[i]);
    const LocalTask local(static_cast<std::uint32_t>(i));
    message.number(node::kId, i);
    message.text(node::kName, graph_.label(id_, local));
    const auto joined = graph_.meeting(id_, local);
    const auto sent = joined ? collective_of(work) : std::nullopt;
    const auto type = sent ? comm_type(sent->kind) : std::nullopt;
    const auto endpoint = program_.endpoint[i];
    const bool message_end = endpoint != graph::kNoEndpoint && !joined;
    const bool sends = message_end && program_.endpoints[endpoint] == graph::EndpointKind::send;
    message.number(node::kType, std::uint64_t(type          ? NodeType::collective
                                              : sends       ? NodeType::send
                                              : message_end ? NodeType::receive
                                                            : NodeType::compute));
    message.list(node::kDataDeps, dependencies(i));
    const auto time = message_end && !sends ? Time{} : job_.durations[program_.work[i].index()];
    const auto micros = std::uint64_t((time.count() + 500'000) / 1'000'000);
    if (const auto rounded = time > Time{} ? std::max<std::uint64_t>(1, micros) : 0)
      message.number(node::kDuration, rounded);
    add(message, "is_cpu_op", attribute::kBool, 0);
    add(message, "duration_ps", attribute::kUint64, std::uint64_t(time.count()));
    if (type) {
      add(message, "comm_type", attribute::kInt64, std::uint64_t(*type));
      add(message, "comm_size", attribute::kInt64, sent->bytes);
      add(message, "pg_name", std::to_string(&joined->group() - graph_.groups().data()));
    } else if (message_end) {
      end_of_message(message, local, sends);
    }
    return message.bytes();
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  void end_of_message(WireMessage& message, LocalTask local, bool sends) const {
    const auto partner = graph_.partner(id_, local);
    const auto other = graph_.rank_of(partner);
    const auto& there = graph_.program_of(graph_.ranks()[other.index()]);
    const auto& send =
        sends ? graph_.work(program_.work[local.value]) : graph_.work(there.work[graph_.local(partner).value]);
    const auto* of = std::get_if<graph::Message>(&send);
    const auto size = of ? std::uint64_t(of->size.count()) : 0;
    const std::uint64_t here = rank_.job_rank, there_rank = graph_.ranks()[other.index()].job_rank;
    add(message, "comm_size", attribute::kInt64, size);
    add(message, "comm_src", attribute::kInt32, sends ? here : there_rank);
    add(message, "comm_dst", attribute::kInt32, sends ? there_rank : here);
    // Channels between the same two ranks are told apart by the sender's endpoint, messages of one by their order.
    const auto sender = sends ? program_.endpoint[local.value] : there.endpoint[graph_.local(partner).value];
    add(message, "comm_tag", attribute::kInt32,
        (std::uint64_t(sender) << 20 | program_.sequence[local.value]) & 0x7fffffff);
  }

  // Of its rank; lanes that run one task at a time hold the next until the one before has ended.
  std::vector<std::uint64_t> dependencies(std::size_t i) {
    std::vector<std::uint64_t> all;
    for (const auto on : program_.dependencies[i]) all.push_back(on.value);
    const auto lane = static_cast<std::size_t>(program_.lane[i]);
    if (before_[lane] != kNone && program_.lane[i] != graph::Lane::receive) all.push_back(before_[lane]);
    before_[lane] = i;
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  const answer::LoweredJob& job_;
  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  std::array<std::size_t, graph::kLanes> before_;
};

}  // namespace

void write_chakra(const answer::LoweredJob& job, std::size_t rank, const Sink& sink) {
  const auto put = [&sink](const std::string& message) {
    WireMessage length;
    length.varint(message.size());
    sink(length.bytes()), sink(message);
  };
  WireMessage metadata;
  metadata.text(interchange::chakra::metadata::kVersion, "0.0.4");
  put(metadata.bytes());
  RankWriter writer(job, rank);
  const auto tasks = job.graph.program_of(job.graph.ranks()[rank]).size();
  for (std::size_t i = 0; i < tasks; ++i) put(writer.node_of(i));
}

std::string chakra_groups(const answer::LoweredJob& job) {
  auto groups = Json::object();
  for (std::size_t g = 0; g < job.graph.groups().size(); ++g) {
    auto ranks = Json::array();
    for (const auto& member : job.graph.groups()[g].members)
      ranks.push_back(job.graph.ranks()[member.rank.index()].job_rank);
    groups.append(std::to_string(g), std::move(ranks));
  }
  return groups.dump(2) + "\n";
}

}  // namespace rehearsal::report
