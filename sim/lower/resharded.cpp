#include "lower/resharded.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "reshard/routes.hpp"

namespace rehearsal::lower {
namespace {

using graph::EndpointId, graph::EndpointKind, graph::Lane;

// The host of each device, those of the source first. Tasks that are given without a tensor have one device per host,
// and no source apart.
struct Places {
  std::vector<std::uint32_t> host;
  std::uint32_t sources = 0;
};
Places places_of(const reshard::Question& question, const reshard::Answer& answer) {
  Places all;
  const auto sides = [&](const reshard::Side& source, const reshard::Side& destination) {
    all.host = source.host, all.sources = source.devices();
    for (const auto host : destination.host) all.host.push_back(source.hosts() + host);
  };
  if (const auto& r = question.resharding) {
    sides(reshard::side_of(r->source, r->shape), reshard::side_of(r->destination, r->shape));
  } else if (question.between) {
    sides(question.between->source, question.between->destination);
  } else {
    std::uint32_t devices = 0;
    for (const auto& transfer : answer.transfers)
      for (const auto* ids : {&transfer.senders, &transfer.receivers})
        for (const auto id : *ids) devices = std::max(devices, id + 1);
    all.host.resize(devices);
    std::iota(all.host.begin(), all.host.end(), 0u);
  }
  return all;
}

// Programs of all devices, and the channels between them.
class Devices {
 public:
  Devices(const std::vector<std::uint32_t>& hosts, std::uint32_t sources) : hosts_(hosts) {
    for (std::size_t d = 0; d < hosts.size(); ++d)
      programs_.emplace_back(d < sources ? "source" : sources > 0 ? "destination" : "device");
  }

  // Returns the receive. `after`: tasks of the sender.
  LocalTask message(std::uint32_t from, std::uint32_t to, Bytes size, bool relayed,
                    const std::vector<LocalTask>& after) {
    const auto [at, fresh] = channels_.try_emplace({from, to});
    if (fresh)
      at->second = {programs_[from].endpoint(EndpointKind::send), programs_[to].endpoint(EndpointKind::receive)};
    const bool out = hosts_[from] != hosts_[to];
    const auto lane = relayed ? out ? Lane::relay_out : Lane::relay : out ? Lane::send_out : Lane::send;
    programs_[from].add({works_.intern(graph::Message{size, 0, out ? 1u : 0u}), lane, {}, at->second.first.value},
                        after);
    return programs_[to].add({works_.intern(graph::Receive{}), Lane::receive, {}, at->second.second.value});
  }

  graph::TaskGraph finish() && {
    for (std::size_t d = 0; d < hosts_.size(); ++d)
      works_.add_rank(works_.add(std::move(programs_[d]).finish()), 1, static_cast<std::uint32_t>(d), hosts_[d]);
    for (const auto& [ends, channel] : channels_)
      works_.connect(RankId(ends.first), channel.first, RankId(ends.second), channel.second);
    return std::move(works_).finish();
  }

 private:
  const std::vector<std::uint32_t>& hosts_;
  graph::GraphBuilder works_;
  std::vector<graph::ProgramBuilder> programs_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<EndpointId, EndpointId>> channels_;
};

}  // namespace

Alone resharded(const reshard::Question& question, const reshard::Answer& answer) {
  const auto [hosts, first] = places_of(question, answer);
  Devices devices(hosts, first);
  // Where a transfer has come to the end of its first hop: then the NICs that it held are free for the next one.
  struct Held {
    std::uint32_t at;
    LocalTask until;
  };
  const auto& problem = answer.numbered.problem;
  std::vector<std::optional<Held>> senders(problem.senders), receivers(problem.receivers);
  std::vector<LocalTask> received;  // by message
  std::vector<LocalTask> free;
  std::optional<std::uint32_t> current;
  for (const auto& carry : reshard::carries(answer, reshard::Chunks::each)) {
    const auto from = carry.from + (carry.relayed ? first : 0), to = carry.to + first;
    if (carry.relayed) {
      received.push_back(devices.message(from, to, Bytes(carry.count * question.method.element_bytes), true,
                                         {received[*carry.after]}));
      continue;
    }
    const auto& sending = answer.plan.schedule[carry.sending];
    const auto& task = problem.tasks[sending.task];
    if (current != carry.sending) {             // who had a NIC before says that it is free, with one byte
      std::map<std::uint32_t, LocalTask> last;  // of each device
      const auto held_by = [&](const std::optional<Held>& held) {
        if (held) last[held->at] = std::max(last[held->at], held->until);
      };
      held_by(senders[sending.sender]);
      for (const auto r : task.receivers) held_by(receivers[r]);
      free.clear();
      for (const auto& [device, until] : last)
        free.push_back(device == from ? until : devices.message(device, from, Bytes(1), false, {until}));
      current = carry.sending;
    }
    received.push_back(devices.message(from, to, Bytes(carry.count * question.method.element_bytes), false, free));
    const Held held{to, received.back()};
    senders[sending.sender] = held;
    for (const auto r : task.receivers) receivers[r] = held;
  }
  Alone made{std::move(devices).finish(), {}, {}};
  const auto& link = question.method.link;
  for (const auto& work : made.graph.works()) {
    const auto* message = std::get_if<graph::Message>(&work);
    const double rate = message && message->to == message->from ? link.nvlink : link.nic;
    made.held.push_back(message ? seconds(double(message->size.count()) / rate) : Time{});
    made.durations.push_back(made.held.back() + (message ? seconds(link.latency) : Time{}));
  }
  return made;
}

}  // namespace rehearsal::lower
