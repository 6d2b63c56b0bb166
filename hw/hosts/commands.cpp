#include "hosts/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace rehearsal::hosts {
namespace {

// TCP hands packets to a NIC that are cut later, of 64 KB as a rule. Smaller ones pass a shaper whose bucket is small,
// so that short messages take the time of the wire too.
constexpr double kSegments = 16384;
// A full bucket outlasts a timer that comes a millisecond late; it never holds less than a packet with its headers.
constexpr double kLate = 1e-3, kLeastBucket = kSegments * 1.1;
// What waits in front of a link: 20 ms, at least what several senders in step may have under way.
constexpr double kQueue = 20e-3, kLeastQueue = 256 << 10;
// Of netem, in packets: more than can be under way.
constexpr int kDelayed = 100'000;
// Latencies below are those of the kernel's own way.
constexpr Time kLeastLatency = picoseconds(1'000'000);

std::string delay(Time latency) { return fmt::format("{}us", std::llround(to_seconds(latency) * 1e6)); }

// A classic BPF program that drops a packet when a random number of 32 bits is below the threshold (linux/filter.h:
// SKF_AD_OFF + SKF_AD_RANDOM; 2 is TC_ACT_SHOT, the last TC_ACT_UNSPEC). No module of the kernel is needed for it.
std::string dropping(double share) {
  const auto threshold = static_cast<std::uint64_t>(std::llround(std::min(1., share) * 4294967295.));
  return fmt::format("bpf da bytecode '4,32 0 0 4294963256,53 1 0 {},6 0 0 2,6 0 0 4294967295'", threshold);
}

std::string shape(const Cable& cable, const std::string& interface, Bandwidth wire, bool netem) {
  if (!netem || cable.latency < kLeastLatency)
    return fmt::format("qdisc add dev {} root {}\n", interface, shaper(wire));
  return fmt::format("qdisc add dev {0} root handle 1: netem delay {1} limit {2}\nqdisc add dev {0} parent 1:1 {3}\n",
                     interface, delay(cable.latency), kDelayed, shaper(wire));
}

}  // namespace

std::string namespace_of(const std::string& set, const std::string& place) {
  return fmt::format("{}{}.{}", kNamespaces, set, place);
}

std::string shaper(Bandwidth wire) {
  const double bucket = std::max(kLeastBucket, wire.value() * kLate);
  const double queue = std::max(kLeastQueue, wire.value() * kQueue);
  return fmt::format("tbf rate {}bit burst {} limit {}", std::llround(wire.value() * 8), std::llround(bucket),
                     std::llround(bucket + queue));
}

std::vector<InNamespace> commands(const Plan& plan, const std::string& set, bool netem) {
  std::vector<InNamespace> all;
  for (const auto& place : plan.places) all.push_back({place.name, "", "link set dev lo up\n", "", {}});
  const auto at = [&](std::size_t place) { return &all[place]; };
  for (std::size_t i = plan.hosts; i < plan.places.size(); ++i) {
    if (plan.routed) {
      // Whoever asks for an address behind a switch is answered by it, so hosts need no routes.
      at(i)->files = {
          {"net/ipv4/ip_forward", "1"}, {"net/ipv4/conf/all/proxy_arp", "1"}, {"net/ipv4/conf/all/rp_filter", "0"}};
      at(i)->ip += fmt::format("address add 10.77.255.{}/32 dev lo\n", i - plan.hosts + 1);
    } else {
      at(i)->ip += fmt::format(
          "link add switch mtu {} type bridge\nlink set dev switch addrgenmode none\n"
          "link set dev switch up\n",
          kMtu);
    }
  }
  for (const auto& cable : plan.cables) {
    auto &a = *at(cable.a.place), &b = *at(cable.b.place);
    const bool nic = !cable.nic.empty();
    b.links += fmt::format("link add {} mtu {} type veth peer name {} mtu {} netns {}\n", cable.b.interface, kMtu,
                           cable.a.interface, kMtu, namespace_of(set, a.place));
    for (auto [end, place] : {std::pair{&cable.a, &a}, {&cable.b, &b}}) {
      const bool host = place == &a && nic;
      auto& ip = place->ip;
      ip += fmt::format("link set dev {} addrgenmode none gso_max_size {}\n", end->interface, kSegments);
      if (host)
        ip += fmt::format("address add {}/24 dev {}\n", address(cable), end->interface);
      else if (!plan.routed)
        ip += fmt::format("link set dev {} master switch\n", end->interface);
      ip += fmt::format("link set dev {} up\n", end->interface);
      if (plan.routed && !host)  // else it answers after a random part of a second
        place->files.emplace_back(fmt::format("net/ipv4/neigh/{}/proxy_delay", end->interface), "0");
      if (cable.down()) continue;
      Cable there = cable;
      if (nic && !host) there.latency = {};
      place->tc += shape(there, end->interface, plan.wire(cable), netem);
      if (host && cable.loss > 0)
        place->tc += fmt::format("qdisc add dev {0} clsact\nfilter add dev {0} egress {1}\n", end->interface,
                                 dropping(cable.loss));
    }
  }
  // A table for each port that some senders take and others do not.
  std::map<std::pair<std::size_t, std::string>, int> tables;
  constexpr int kFirstTable = 1000;
  for (const auto& way : plan.ways) {
    auto& ip = at(way.place)->ip;
    if (way.from.empty()) {
      ip += fmt::format("route add {}/32 dev {}\n", way.to, way.interface);
      continue;
    }
    const auto [table, fresh] =
        tables.try_emplace({way.place, way.interface}, kFirstTable + static_cast<int>(tables.size()));
    if (fresh) ip += fmt::format("route add default dev {} table {}\n", way.interface, table->second);
    ip += fmt::format("rule add from {} to {} lookup {}\n", way.from, way.to, table->second);
  }
  // Last, because no route leads to a link that is down.
  for (const auto& cable : plan.cables)
    for (const auto& end : {cable.a, cable.b})
      if (cable.down()) at(end.place)->ip += fmt::format("link set dev {} down\n", end.interface);
  return all;
}

}  // namespace rehearsal::hosts
