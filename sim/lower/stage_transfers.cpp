#include "lower/stage_transfers.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::lower {
using reshard::Box;

namespace {
// Repeats the messages of one value for each of `values`.
template <class Sent>
std::vector<Sent> of_values(const std::vector<Sent>& one, const std::vector<std::uint32_t>& values) {
  std::vector<Sent> all;
  for (const auto value : values) {
    const auto first = static_cast<std::uint32_t>(all.size());
    for (auto sent : one) {
      sent.value = value;
      if (sent.after) *sent.after += first;
      all.push_back(std::move(sent));
    }
  }
  return all;
}

// The ranks of a stage by GPU, so that those of a host are adjacent; these are the devices of a reshard::Side.
std::vector<std::uint32_t> by_gpu(const plan::Plan& plan, std::uint32_t stage) {
  std::vector<std::uint32_t> numbers(plan.rank_layout.members(stage));
  std::iota(numbers.begin(), numbers.end(), 0u);
  const auto gpu = [&](std::uint32_t number) { return plan.job.gpu(plan.rank_layout.member(stage, number)); };
  std::sort(numbers.begin(), numbers.end(), [&](auto a, auto b) { return gpu(a) < gpu(b); });
  return numbers;
}

reshard::Side side_of(const plan::Plan& plan, std::uint32_t stage, const std::vector<std::uint32_t>& numbers) {
  reshard::Side made;
  const auto gpu = [&](std::uint32_t number) { return plan.job.gpu(plan.rank_layout.member(stage, number)); };
  std::map<std::vector<std::int64_t>, reshard::Tile> tiles;  // row-major
  std::int64_t last = -1;
  for (std::uint32_t d = 0; d < numbers.size(); ++d) {
    const std::int64_t domain = gpu(numbers[d]) / plan.machine->domain();
    made.host.push_back(made.host.empty() ? 0 : made.host.back() + (domain != last));
    last = domain;
    made.rail.push_back(static_cast<std::uint32_t>(gpu(numbers[d]) % plan.machine->spec().gpus_per_node));
    for (const auto& box : plan.borders[stage].own[numbers[d]]) {
      std::vector<std::int64_t> key;
      for (const auto& side : box) key.push_back(side.low);
      for (const auto& side : box) key.push_back(side.high);
      auto& tile = tiles[key];
      tile.box = box;
      tile.devices.push_back(d);
    }
  }
  for (auto& [key, tile] : tiles) made.tiles.push_back(std::move(tile));
  return made;
}

// Where a rank stores these elements of a box.
graph::Region region_of(const plan::StageBoundary& border, std::uint32_t number, const Box& box, std::int64_t first,
                        std::int64_t count, std::int64_t element) {
  for (const auto& held : border.held[number]) {
    if (reshard::elements(reshard::intersection(held.box, box)) != reshard::elements(box)) continue;
    const auto row = held.first + (box[0].low - held.box[0].low) * held.per_sequence + box[1].low - held.box[1].low;
    const std::int64_t hidden = border.shape[2], width = hidden * element;
    return {.offset = row * width + box[2].low * element,
            .run = box[2].length() * element,
            .count = {box[0].length(), box[1].length()},
            .stride = {held.per_sequence * width, width},
            .first = first * element,
            .size = count * element};
  }
  INVARIANT(false, "a rank holds what it sends and is sent");
  return {};
}

}  // namespace

// Makes one plan for all edges between equal pairs of sides.
class StageTransfers::Planner {
 public:
  Planner(const plan::Plan& plan, graph::GraphBuilder& builder) : plan_(plan), builder_(builder) {
    for (std::uint32_t s = 0; s < plan.of_stages.size(); ++s) {
      numbers_.push_back(by_gpu(plan, s));
      sides_.push_back(side_of(plan, s, numbers_.back()));
    }
  }

  // All values one after the other, each by the same plan.
  std::vector<Sent> between(std::uint32_t from, std::uint32_t to, const std::vector<std::uint32_t>& values) {
    const auto& layouts = plan_.job.parallelism.layouts;
    sent_.clear();
    if (layouts[from].like(layouts[to]) && !plan_.job.resharding.asked)
      straight(from, to);
    else
      planned(from, to);
    return of_values(std::exchange(sent_, {}), values);
  }

 private:
  std::uint32_t rank(std::uint32_t stage, std::uint32_t number) const {
    return plan_.rank_layout.member(stage, number);
  }
  std::int64_t gpu(std::uint32_t rank) const { return plan_.job.gpu(rank); }

  Sent& add(std::uint32_t from, std::uint32_t to, std::int64_t bytes, std::uint32_t chunks, Bytes gathered = {},
            GroupShape gather = {}) {
    const auto pair = plan_.machine->alike(gpu(from), gpu(to));
    const bool signal = plan_.job.resharding.strategy == reshard::Strategy::signal;  // arrives at once
    if (signal) bytes = 0;
    graph::Message message{Bytes(bytes), static_cast<std::uint32_t>(pair.first),
                           static_cast<std::uint32_t>(pair.second), gathered, gather};
    message.chunks = chunks;
    auto& sent = sent_.emplace_back();
    sent.from = from, sent.to = to, sent.bytes = bytes;
    sent.message = signal ? builder_.intern(graph::FixedDelay{}) : builder_.intern(message);
    sent.leaves_domain = plan_.machine->reach(pair.first, pair.second).leaves_domain;
    return sent;
  }

  void straight(std::uint32_t from, std::uint32_t to) {
    const auto& border = plan_.borders[from];
    const auto& of = *plan_.of_stages[from];
    if (!border.gather.empty()) return planned(from, to);
    for (std::uint32_t n = 0; n < plan_.rank_layout.members(from); ++n)
      add(rank(from, n), rank(to, n), of.message.count(), 1, of.message_gathered,
          of.message_gathered > Bytes{} ? of.group(Axis::tensor) : GroupShape{});
  }

  void planned(std::uint32_t from, std::uint32_t to) {
    const auto element = plan_.border_element();
    for (const auto& carry : plan_of(from, to)) {
      const auto side = carry.relayed ? to : from;
      const auto sender = rank(side, numbers_[side][carry.from]), receiver = rank(to, numbers_[to][carry.to]);
      auto& sent = add(sender, receiver, carry.count * element, static_cast<std::uint32_t>(carry.chunks));
      sent.relayed = carry.relayed, sent.after = carry.after;
      regions(sent, carry.box, carry.first, carry.count, from, to);
      if (carry.relayed) continue;
      INVARIANT(plan_.borders[to].gather.empty() || carry.chunks == 1, "parts have one owner each");
    }
    gathers(from, to);
  }

  void regions(Sent& sent, const Box& box, std::int64_t first, std::int64_t count, std::uint32_t from,
               std::uint32_t to) {
    if (!plan_.performed()) return;
    const auto& rank_layout = plan_.rank_layout;
    const auto at = [&](std::uint32_t rank, std::uint32_t stage) {
      return region_of(plan_.borders[stage], rank_layout.number(rank), box, first, count, plan_.border_element());
    };
    sent.taken = at(sent.from, sent.relayed ? to : from), sent.put = at(sent.to, to);
  }

  // Parts that were sent to one rank of a tensor group go around the group.
  void gathers(std::uint32_t from, std::uint32_t to) {
    const auto& border = plan_.borders[to];
    if (border.gather.empty()) return;
    struct Turning {
      std::uint32_t at, after;
      Box box;
      const std::vector<std::uint32_t>* group;
      std::size_t place;
    };
    std::vector<Turning> parts;
    const auto& carries = plan_of(from, to);
    for (std::uint32_t i = 0; i < carries.size(); ++i) {
      const auto number = numbers_[to][carries[i].to];
      for (const auto& group : border.gather)
        if (const auto found = std::find(group.begin(), group.end(), number); found != group.end())
          parts.push_back({number, i, carries[i].box, &group, static_cast<std::size_t>(found - group.begin())});
    }
    std::size_t longest = 0;
    for (const auto& part : parts) longest = std::max(longest, part.group->size());
    for (std::size_t step = 1; step < longest; ++step)
      for (auto& part : parts) {
        const auto& group = *part.group;
        if (step >= group.size()) continue;
        const auto next = group[(part.place + step) % group.size()];
        const auto count = reshard::elements(part.box);
        auto& sent = add(rank(to, part.at), rank(to, next), count * plan_.border_element(), 1);
        sent.relayed = true, sent.after = part.after;
        regions(sent, part.box, 0, count, from, to);
        part.at = next, part.after = static_cast<std::uint32_t>(sent_.size() - 1);
      }
  }

  const std::vector<reshard::Carry>& plan_of(std::uint32_t from, std::uint32_t to) {
    const auto &source = sides_[from], &destination = sides_[to];
    const auto method = method_of(numbers_[from], numbers_[to], from, to);
    std::vector<std::int64_t> key{method.nic == reshard::NicSharing::host, static_cast<std::int64_t>(method.link.nic),
                                  static_cast<std::int64_t>(method.link.latency * 1e12)};
    for (const auto* side : {&source, &destination}) {
      key.push_back(side->devices());
      key.insert(key.end(), side->host.begin(), side->host.end());
      key.insert(key.end(), side->rail.begin(), side->rail.end());
      for (const auto& tile : side->tiles) {
        for (const auto& s : tile.box) key.push_back(s.low), key.push_back(s.high);
        key.insert(key.end(), tile.devices.begin(), tile.devices.end());
        key.push_back(-1);
      }
    }
    const auto [known, fresh] = plans_.try_emplace(std::move(key));
    if (!fresh) return known->second;
    const auto& shape = plan_.borders[from].shape;
    reshard::Question question;
    question.between = reshard::Between{source, destination, shape[0] * shape[1] * shape[2]};
    question.method = method;
    question.planner = plan_.job.resharding.planner;
    return known->second = reshard::carries(reshard::answer(question),
                                            plan_.performed() ? reshard::Chunks::each : reshard::Chunks::three);
  }

  // The links between two stages, as messages are priced: the slowest way between them counts.
  reshard::Method method_of(const std::vector<std::uint32_t>& source, const std::vector<std::uint32_t>& destination,
                            std::uint32_t from, std::uint32_t to) const {
    const auto& spec = plan_.machine->spec();
    reshard::Method method;
    const auto& resharding = plan_.job.resharding;
    method.strategy =
        resharding.strategy == reshard::Strategy::signal ? reshard::Strategy::send_recv : resharding.strategy;
    method.chunks = resharding.chunks;
    method.element_bytes = plan_.border_element();
    const auto a = gpu(rank(from, source.front()));
    const cluster::MessagePath* way = nullptr;
    for (const auto number : destination) {
      const auto& here = plan_.machine->reach(a, gpu(rank(to, number)));
      if (!way || here.leaves_domain) way = &here;
    }
    method.link.latency = to_seconds(way->latency + spec.message_overhead);
    const double inside = spec.nvlink_message.value();
    if (inside > 0) method.link.nvlink = inside;
    if (!way->leaves_domain) {  // every GPU has its own port
      method.nic = reshard::NicSharing::gpu;
      method.link.nic = inside > 0 ? std::min(inside, way->rate.value()) : way->rate.value();
      return method;
    }
    const double reached = spec.nic_message_efficiency * spec.fabric;
    const bool each = spec.nics_per_node >= spec.gpus_per_node;
    method.nic = each ? reshard::NicSharing::gpu : reshard::NicSharing::host;
    method.link.nic = reached * (each ? way->rate : std::max(way->rate, plan_.machine->out_of_domain())).value();
    return method;
  }

  const plan::Plan& plan_;
  graph::GraphBuilder& builder_;
  std::vector<std::vector<std::uint32_t>> numbers_;  // of the ranks of each stage, by device of its side
  std::vector<reshard::Side> sides_;
  std::map<std::vector<std::int64_t>, std::vector<reshard::Carry>> plans_;
  std::vector<Sent> sent_;
};

StageTransfers::StageTransfers(std::vector<StageEdge> edges, const std::vector<Straight>& messages)
    : edges_(std::move(edges)) {
  INVARIANT(messages.size() == edges_.size(), "a message for each edge");
  for (const auto& each : messages) {
    Sent sent;
    sent.message = each.message, sent.leaves_domain = each.leaves_domain;
    sent.bytes = each.bytes, sent.replicas = each.replicas;
    const auto all = of_values(std::vector{sent}, edges_[sent_.size()].values);
    sent_.push_back({all, all});
  }
}

void StageTransfers::seat(const std::vector<std::uint32_t>& stage_ranks) {
  roles_.assign(*std::max_element(stage_ranks.begin(), stage_ranks.end()) + 1, {});
  const bool graph = is_graph(edges_);  // skip connections have channels of their own
  for (std::uint32_t r = 0; r < roles_.size(); ++r) roles_[r].stage = r;
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    const auto from = stage_ranks[edges_[e].from], to = stage_ranks[edges_[e].to];
    if (from == to) continue;
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const auto sender = kind == 0 ? from : to, receiver = kind == 0 ? to : from;
      const auto number = graph ? e : 0;
      for (const auto& sent : sent_[e][kind]) {
        roles_[sender].edges[e].out[kind].push_back(
            {P2POp::What::send, sent.message, sent.leaves_domain, receiver, number, {}, sent.value});
        roles_[receiver].edges[e].in[kind].push_back({P2POp::What::receive, {}, false, sender, number, {}, sent.value});
      }
    }
  }
}

StageTransfers::StageTransfers(std::vector<StageEdge> edges, const plan::Plan& plan, graph::GraphBuilder& builder)
    : edges_(std::move(edges)) {
  Planner planner(plan, builder);
  for (const auto& edge : edges_)
    sent_.push_back(
        {planner.between(edge.from, edge.to, edge.values), planner.between(edge.to, edge.from, edge.values)});
  assign(plan);
}

namespace {

// Messages by how often their contents were relayed before. A message depends only on less relayed ones, so each rank
// may post, for each number, first its sends and then its receives: equally on all members of a ring.
template <class Sent>
std::vector<std::vector<std::uint32_t>> by_depth(const std::vector<Sent>& all) {
  std::vector<std::vector<std::uint32_t>> depths;
  std::vector<std::size_t> of(all.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    of[i] = all[i].after ? of[*all[i].after] + 1 : 0;
    if (of[i] == depths.size()) depths.emplace_back();
    depths[of[i]].push_back(i);
  }
  return depths;
}

// Relays count as neither: they read a value that has been received, and keep it.
void mark_ends(std::vector<P2POp>& list) {
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = 0; j < list.size(); ++j)
      if (list[j].value == list[i].value && list[j].what != P2POp::What::relay)
        (j < i ? list[i].first : list[i].last) &= j == i;
}

}  // namespace

std::vector<StageEdge> stage_edges(std::uint32_t stages, const plan::Plan* plan) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, StageEdge> edges;
  const auto chain = plan && plan->vocabulary_parts() > 0 ? plan->vocabulary_parts() : stages;
  for (std::uint32_t s = 0; s + 1 < chain; ++s) edges[{s, s + 1}] = {s, s + 1};
  // With two directions each has a model of its own; the stages of the second follow those of the first.
  const auto of_copy = plan ? static_cast<std::uint32_t>(plan->stages.size()) : stages;
  for (std::uint32_t first = 0; plan && first < stages; first += of_copy)
    for (std::uint32_t n = 0; n < plan->job.model.skips(); ++n) {
      const auto skip = plan->skip(n);
      if (skip.from == skip.to) continue;
      const auto from = first + skip.from, to = first + skip.to;
      const auto [edge, fresh] = edges.try_emplace({from, to});
      if (fresh) edge->second = {from, to, {}};
      edge->second.values.push_back(n);
    }
  std::vector<StageEdge> all;
  for (auto& [ends, edge] : edges) all.push_back(std::move(edge));
  return all;
}

bool is_graph(const std::vector<StageEdge>& edges) {
  return std::any_of(edges.begin(), edges.end(), [](const StageEdge& e) { return e.to != e.from + 1; });
}

// Each rank's view of all messages, and the classes of ranks with equal views.
void StageTransfers::assign(const plan::Plan& plan) {
  const auto& rank_layout = plan.rank_layout;
  std::vector<RankClass> views(rank_layout.ranks());
  for (std::uint32_t r = 0; r < views.size(); ++r) views[r].stage = rank_layout.stage(r);
  // The peers that a rank has met, by direction and pipeline rank, in that order.
  using Met = std::map<std::pair<bool, std::uint32_t>, std::vector<std::uint32_t>>;
  std::array<std::vector<Met>, 2> met{std::vector<Met>(views.size()), std::vector<Met>(views.size())};
  const auto number = [&](std::size_t kind, std::uint32_t rank, bool sends, std::uint32_t peer) {
    auto& known = met[kind][rank][{sends, rank_layout.stage(peer)}];
    const auto at = std::find(known.begin(), known.end(), peer);
    if (at != known.end()) return std::pair(static_cast<std::uint32_t>(at - known.begin()), false);
    known.push_back(peer);
    return std::pair(static_cast<std::uint32_t>(known.size() - 1), true);
  };
  for (std::uint32_t e = 0; e < edges_.size(); ++e)
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const auto& all = sent_[e][kind];
      std::vector<std::uint32_t> received(all.size());  // for each message, its place in the receiver's list
      for (const auto& at_once : by_depth(all)) {
        for (const auto i : at_once) {
          const auto& sent = all[i];
          const auto [to_number, fresh] = number(kind, sent.from, true, sent.to);
          const auto from_number = number(kind, sent.to, false, sent.from).first;
          if (fresh)
            channels_.push_back({static_cast<MessageKind>(kind),
                                 {sent.from, rank_layout.stage(sent.to), to_number},
                                 {sent.to, rank_layout.stage(sent.from), from_number}});
          auto& mine = views[sent.from].edges[e];
          auto& list = sent.relayed ? mine.in[kind] : mine.out[kind];
          std::optional<std::uint32_t> after;
          if (sent.relayed) after = received[*sent.after];
          list.push_back({sent.relayed ? P2POp::What::relay : P2POp::What::send, sent.message, sent.leaves_domain,
                          rank_layout.stage(sent.to), to_number, after, sent.value, true, true, sent.taken});
        }
        for (const auto i : at_once) {
          const auto& sent = all[i];
          auto& theirs = views[sent.to].edges[e].in[kind];
          received[i] = static_cast<std::uint32_t>(theirs.size());
          theirs.push_back({P2POp::What::receive,
                            {},
                            false,
                            rank_layout.stage(sent.from),
                            number(kind, sent.to, false, sent.from).first,
                            {},
                            sent.value,
                            true,
                            true,
                            sent.put});
        }
      }
    }
  for (std::uint32_t e = 0; e < edges_.size(); ++e)
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const auto stage = kind == 0 ? edges_[e].from : edges_[e].to;
      for (std::uint32_t n = 0; n < rank_layout.members(stage); ++n) {
        auto& list = views[rank_layout.member(stage, n)].edges[e].out[kind];
        for (const auto value : edges_[e].values)
          if (std::none_of(list.begin(), list.end(), [&](const P2POp& h) { return h.value == value; }))
            list.push_back({P2POp::What::drop, {}, false, 0, 0, {}, value});
      }
    }
  std::map<RankClass, std::uint32_t> known;
  for (auto& view : views) {
    for (auto& [edge, at] : view.edges)
      for (std::size_t kind = 0; kind < 2; ++kind) mark_ends(at.out[kind]), mark_ends(at.in[kind]);
    const auto [at, fresh] = known.try_emplace(view, static_cast<std::uint32_t>(roles_.size()));
    if (fresh) roles_.push_back(view);
    role_of_.push_back(at->second);
  }
}

StageTransfers::Times StageTransfers::times(std::size_t edge, std::span<const Time> durations,
                                            std::span<const Time> held) const {
  Times times;
  for (const auto& list : sent_[edge]) {
    std::map<std::pair<std::uint32_t, bool>, Time> free;  // wires
    std::vector<Time> arrived;
    Time first;
    std::map<std::pair<std::uint32_t, bool>, Time> busy;
    for (const auto& sent : list) {
      auto& wire = free[{sent.from, sent.leaves_domain}];
      const auto takes = durations[sent.message.index()], holds = held.empty() ? Time{} : held[sent.message.index()];
      const auto start = std::max(wire, sent.after ? arrived[*sent.after] : Time{});
      wire = start + holds;
      arrived.push_back(start + takes);
      times.transfer = std::max(times.transfer, arrived.back());
      if (sent.relayed) continue;
      auto& all = busy[{sent.from, sent.leaves_domain}];
      all = all + holds;
      if (all >= times.held) times.held = all, times.leaves_domain = sent.leaves_domain;
    }
  }
  return times;
}

StageTransfers::Volume StageTransfers::volume(std::size_t edge, MessageKind kind) const {
  Volume volume;
  for (const auto& sent : sent_[edge][static_cast<std::size_t>(kind)]) {
    volume.messages += sent.replicas;
    volume.bytes += sent.bytes * sent.replicas;
    if (sent.leaves_domain) volume.out_of_domains += sent.bytes * sent.replicas;
  }
  return volume;
}

}  // namespace rehearsal::lower
