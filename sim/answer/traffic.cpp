#include "answer/traffic.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "answer/lowered_job.hpp"

namespace rehearsal::answer {
namespace {

using graph::EndpointKind;
using graph::Moved;
using graph::Volume;
using graph::Way;

// The bytes that each program moves: on its own (the collectives inside coarse tasks), and through each endpoint.
struct OfProgram {
  Moved alone;
  std::vector<Volume> ends;
};

std::vector<OfProgram> of_programs(const LoweredJob& lowered) {
  std::vector<OfProgram> all;
  for (const auto& program : lowered.graph.programs()) {
    auto& sums = all.emplace_back();
    sums.ends.resize(program.endpoints.size());
    for (std::size_t t = 0; t < program.size(); ++t) {
      const auto& volume = lowered.volumes[program.work[t].index()];
      const auto end = program.endpoint[t];
      if (end == graph::kNoEndpoint) {
        sums.alone.add(volume.own);
      } else if (program.endpoints[end] != EndpointKind::receive) {
        sums.ends[end].own.add(volume.own), sums.ends[end].on_arrival.add(volume.on_arrival);
      }
    }
  }
  return all;
}

double AxisBytes::*along(Axes axes) {
  // Includes the groups of two copies of a model, which span two axes, and parts of the data axis.
  for (std::size_t a = 0; a < kAxes; ++a)
    if (const auto axis = static_cast<Axis>(a);
        axes.holds(axis) && (axis == Axis::data || axis == Axis::expert_data || cuts_data(axis)))
      return &AxisBytes::data;
  if (axes.holds(Axis::expert) || axes.holds(Axis::expert_tensor)) return &AxisBytes::expert;
  if (axes.holds(Axis::tensor)) return &AxisBytes::tensor;
  return axes.holds(Axis::pipeline) ? &AxisBytes::pipeline : &AxisBytes::context;
}

class Count {
 public:
  explicit Count(const LoweredJob& lowered) : question_(lowered), graph_(lowered.graph), moved_(of_programs(lowered)) {
    if (lowered.resource_map) over_.resize(lowered.resource_map->places.resources.size());
  }

  void run(TrafficSummary& traffic) {
    for (std::uint32_t r = 0; r < graph_.ranks().size(); ++r) {
      const auto sent = rank(r);
      for (const auto& [name, bytes] : AxisBytes::parts()) {
        traffic.per_gpu.*bytes = std::max(traffic.per_gpu.*bytes, sent.*bytes);
        traffic.all_gpus.*bytes += sent.*bytes * double(graph_.ranks()[r].multiplicity);
      }
    }
    if (!over_.empty()) groups();
  }

  // By resource of the graph.
  const std::vector<Bytes>& over() const { return over_; }

 private:
  AxisBytes rank(std::uint32_t r) {
    AxisBytes sent;
    const auto& rank = graph_.ranks()[r];
    const auto& program = graph_.program_of(rank);
    const auto& moved = moved_[rank.program.index()];
    const bool served = question_.scenario.data_parallel.served();
    const auto here = [&](Way way) { return question_.resource_map->places.of_rank(RankId(r), way); };
    for (const Axis axis : kInside) sent.*along(axis) += double(moved.alone.sent[index(axis)].count());
    sent.offload_in += double(moved.alone.copied_in.count()),
        sent.offload_out += double(moved.alone.copied_out.count());
    load(moved.alone, here);
    for (std::uint32_t e = 0; e < program.endpoints.size(); ++e) {
      const auto& far = rank.attachments[e];
      switch (program.endpoints[e]) {
        case EndpointKind::group:
          sent.*along(graph_.groups()[far.group.index()].axes) += double(moved.ends[e].own.all().count());
          break;
        case EndpointKind::send:
          (served ? sent.data : sent.pipeline) += double(moved.ends[e].own.all().count());
          load(moved.ends[e].own,
               [&](Way way) { return question_.resource_map->places.of_send(RankId(r), graph::EndpointId(e), way); });
          break;
        case EndpointKind::receive: {
          const auto& sender = graph_.ranks()[far.peer.index()];
          const auto& gathered = moved_[sender.program.index()].ends[far.peer_endpoint.index()].on_arrival;
          sent.tensor += double(gathered.all().count());
          load(gathered, here);
          break;
        }
      }
    }
    return sent;
  }

  // Counts each group once, at its first member.
  void groups() {
    for (std::uint32_t g = 0; g < graph_.groups().size(); ++g) {
      const auto& first = graph_.groups()[g].members.front();
      const auto& moved = moved_[graph_.ranks()[first.rank.index()].program.index()].ends[first.endpoint.index()].own;
      load(moved, [&](Way way) { return question_.resource_map->places.of_group(GroupId(g), way); });
    }
  }

  template <class Loads>
  void load(const Moved& moved, const Loads& loads) {
    if (over_.empty()) return;
    for (std::size_t w = 0; w < graph::kWays; ++w) {
      if (moved.over[w] == Bytes{}) continue;
      for (const auto& load : loads(static_cast<Way>(w))) over_[load.resource] += moved.over[w] * load.parts;
    }
  }

  const LoweredJob& question_;
  const graph::TaskGraph& graph_;
  std::vector<OfProgram> moved_;
  std::vector<Bytes> over_;
};

LinkTraffic::Place place(const cluster::Resource& r) {
  using enum cluster::Resource::Kind;
  if (r.kind == port_out || r.kind == port_in) return LinkTraffic::Place::domain;
  if (r.kind == copy_out || r.kind == copy_in) return LinkTraffic::Place::host;
  if (r.kind == disk_read || r.kind == disk_write) return LinkTraffic::Place::disk;
  const auto nearer = std::min(r.from.kind, r.to.kind), farther = std::max(r.from.kind, r.to.kind);
  if (farther < cluster::DeviceKind::nic) return LinkTraffic::Place::domain;
  return nearer > cluster::DeviceKind::nic ? LinkTraffic::Place::fabric : LinkTraffic::Place::nic;
}

// Groups equal links into one entry, whether or not symmetry has folded them (it also folds links of different kinds).
// Among equally busy entries, links out of a node come first.
std::vector<LinkTraffic> links(const lower::ResourceMap& around, const std::vector<Bytes>& over, Time iteration) {
  using cluster::Resource;
  using Alike = std::tuple<Resource::Kind, cluster::DeviceKind, cluster::DeviceKind, double, Bytes>;
  struct Entry {
    std::uint32_t first;
    std::uint64_t count;
  };
  std::map<Alike, Entry> classes;
  for (std::uint32_t i = 0; i < around.resources.size(); ++i) {
    const auto& r = around.resources[i];
    const Bytes bytes = over[around.places.of_machine[i]];
    if (bytes == Bytes{} || r.counts_processors() || r.kind == Resource::Kind::memory ||
        r.kind == Resource::Kind::host_memory)
      continue;
    ++classes.try_emplace({r.kind, r.from.kind, r.to.kind, r.rate.value(), bytes}, Entry{i, 0}).first->second.count;
  }
  struct Ranked {
    LinkTraffic link;
    bool leaves_node;
    std::uint32_t first;
  };
  std::vector<Ranked> ranked;
  for (const auto& [alike, entry] : classes) {
    const double bytes = double(std::get<Bytes>(alike).count()), rate = std::get<double>(alike);
    const auto& resource = around.resources[entry.first];
    ranked.push_back({{name(resource), place(resource), entry.count, bytes, bytes / (rate * to_seconds(iteration))},
                      resource.from.kind == cluster::DeviceKind::nic && resource.to.kind > cluster::DeviceKind::nic,
                      entry.first});
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(-a.link.busy_share, !a.leaves_node, a.first) <
           std::tuple(-b.link.busy_share, !b.leaves_node, b.first);
  });
  std::vector<LinkTraffic> all;
  for (auto& entry : ranked) all.push_back(std::move(entry.link));
  return all;
}

}  // namespace

std::map<std::string, double> link_bytes(const LoweredJob& lowered) {
  if (!lowered.resource_map) return {};
  Count count(lowered);
  TrafficSummary by_rank;
  count.run(by_rank);
  std::map<std::string, double> all;
  const auto& around = *lowered.resource_map;
  for (std::uint32_t i = 0; i < around.resources.size(); ++i) {
    const auto& link = around.resources[i];
    const Bytes bytes = count.over()[around.places.of_machine[i]];
    const bool between = std::min(link.from.kind, link.to.kind) >= cluster::DeviceKind::nic;
    if (link.kind == cluster::Resource::Kind::link && between && bytes > Bytes{})
      all[name(link)] += double(bytes.count());
  }
  return all;
}

const std::vector<AxisBytes::Part>& AxisBytes::parts() {
  using A = AxisBytes;
  static const std::vector<Part> all{
      {"tensor", &A::tensor},          {"context", &A::context}, {"expert", &A::expert},
      {"pipeline", &A::pipeline},      {"data", &A::data},       {"offload_in", &A::offload_in},
      {"offload_out", &A::offload_out}};
  return all;
}

TrafficSummary traffic(const LoweredJob& lowered, Time iteration, std::size_t most_links) {
  TrafficSummary traffic;
  if (lowered.volumes.empty()) return traffic;  // stage times were given
  Count count(lowered);
  count.run(traffic);
  if (const auto& theory = lowered.data_volume)
    traffic.data_parallel = {traffic.per_gpu.data, theory->bytes(), theory->form(), theory->parameters};
  if (!lowered.resource_map || iteration <= Time{}) return traffic;
  traffic.links = links(*lowered.resource_map, count.over(), iteration);
  if (traffic.links.size() > most_links) traffic.links.resize(most_links);
  return traffic;
}

}  // namespace rehearsal::answer
