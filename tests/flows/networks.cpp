#include "flows/networks.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/random.hpp"

namespace rehearsal::flows {
namespace {

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}
// Sets about `about` bytes, such that the flow alone lasts whole microseconds.
void set_bytes(const Network& network, Flow& flow, std::int64_t about) {
  const std::int64_t rate = rate_alone(network, flow) / kMega;
  flow.bytes = std::max<std::int64_t>(1, about / rate) * rate;
}

}  // namespace

std::int64_t rate_alone(const Network& network, const Flow& flow) {
  std::int64_t rate = flow.bound ? flow.bound : INT64_MAX;
  for (const std::uint32_t link : flow.route) {
    // A link that occurs n times in a route limits the flow to an n-th of its rate, rounded down to whole MB/s as a
    // bound.
    const auto times = std::count(flow.route.begin(), flow.route.end(), link);
    rate = std::min(rate, network.links[link] / kMega / times * kMega);
  }
  return rate;
}

Network random_network(std::uint64_t seed, Platform platform, bool bounds, bool weights) {
  Random random(seed);
  Network n;
  const auto link = [&](std::int64_t factor) {
    n.links.push_back(between(random, 1000, 60000) * kMega * factor);
    return static_cast<std::uint32_t>(n.links.size() - 1);
  };
  const auto hosts = static_cast<std::size_t>(between(random, 4, 32));
  std::vector<std::uint32_t> up, down, switch_up, switch_down;
  for (std::size_t h = 0; h < hosts; ++h) up.push_back(link(1)), down.push_back(link(1));
  constexpr std::size_t kSpines = 3, kRails = 4, kUnderLeaf = 4;
  const auto leaf = [&](std::size_t host) { return platform == Platform::rails ? host % kRails : host / kUnderLeaf; };
  for (std::size_t l = 0; l < std::max(kRails, hosts) * kSpines; ++l)
    switch_up.push_back(link(2)), switch_down.push_back(link(2));
  for (std::int64_t flows = between(random, 5, 150); flows > 0; --flows) {
    Flow f;
    f.at = Time(between(random, 0, 200) * 1'000'000'000);
    const auto a = static_cast<std::size_t>(random.below(hosts)), b = (a + 1 + random.below(hosts - 1)) % hosts;
    f.route = {up[a]};
    if (platform != Platform::star && leaf(a) != leaf(b)) {
      const std::size_t spine = random.below(kSpines);
      f.route.push_back(switch_up[leaf(a) * kSpines + spine]);
      f.route.push_back(switch_down[leaf(b) * kSpines + spine]);
    }
    f.route.push_back(down[b]);
    if (weights)
      for (const std::uint32_t l : std::vector(f.route)) f.route.insert(f.route.end(), random.below(5), l);
    if (bounds && random.below(2)) f.bound = between(random, 100, 7000) * kMega;
    // Also when the rate is not one of the random bounds, so that both simulators have a whole rate.
    if (weights) f.bound = rate_alone(n, f);
    set_bytes(n, f, between(random, 1'000'000, 1'000'000'000));
    n.flows.push_back(f);
  }
  return n;
}

Network ring(std::uint32_t hosts, std::uint32_t steps, bool jitter) {
  Random random(3);
  Network n;
  n.chains = hosts;
  n.ring = true;
  n.links.assign(2 * std::size_t{hosts}, 50'000 * kMega);
  for (std::uint32_t k = 0; k < steps; ++k)
    for (std::uint32_t h = 0; h < hosts; ++h) {
      Flow f;
      f.route = {2 * h, 2 * ((h + 1) % hosts) + 1};
      set_bytes(n, f, 10'000'000 + (jitter ? between(random, 0, 1'000'000) : 0));
      n.flows.push_back(f);
    }
  return n;
}

Network fat_tree(std::uint32_t hosts, std::uint32_t rounds, bool moving) {
  Random random(4);
  Network n;
  n.chains = hosts;
  const auto links = [&](std::uint32_t count) {
    const auto first = static_cast<std::uint32_t>(n.links.size());
    n.links.insert(n.links.end(), count, 50'000 * kMega);
    return first;
  };
  const std::uint32_t edges = hosts / 8, pods = hosts / 64;
  const std::uint32_t up = links(hosts), down = links(hosts), edge_up = links(edges * 8), edge_down = links(edges * 8),
                      core_up = links(pods * 64), core_down = links(pods * 64);
  std::vector<std::uint32_t> to(hosts);
  std::iota(to.begin(), to.end(), 0u);
  for (std::uint32_t r = 0; r < rounds; ++r) {
    if (r == 0 || moving)
      for (std::uint32_t i = hosts; i > 1; --i) std::swap(to[i - 1], to[random.below(i)]);
    for (std::uint32_t h = 0; h < hosts; ++h) {
      Flow f;
      if (r == 0 || moving) {
        const std::uint32_t d = to[h] == h ? (h + 1) % hosts : to[h];
        const std::uint32_t a = random.below32(8), k = random.below32(8);
        f.route = {up + h};
        if (h / 8 != d / 8) {
          f.route.push_back(edge_up + h / 8 * 8 + a);
          if (h / 64 != d / 64) {
            f.route.push_back(core_up + h / 64 * 64 + a * 8 + k);
            f.route.push_back(core_down + d / 64 * 64 + a * 8 + k);
          }
          f.route.push_back(edge_down + d / 8 * 8 + a);
        }
        f.route.push_back(down + d);
      } else {
        f.route = n.flows[h].route;
      }
      set_bytes(n, f, between(random, 1'000'000, 10'000'000));
      n.flows.push_back(f);
    }
  }
  return n;
}

Ran run(const Network& network, fluid::Flows::Method method) {
  const std::size_t flows = network.flows.size(), chains = network.chains;
  std::vector<Wide> capacities(network.links.begin(), network.links.end());
  fluid::Flows machine(capacities, method);
  std::vector<std::uint32_t> profiles;
  for (const Flow& flow : network.flows) {
    const std::int64_t rate = rate_alone(network, flow);
    std::vector<fluid::Use> uses;
    for (const std::uint32_t link : flow.route) uses.push_back({link, 1, 0});
    profiles.push_back(machine.profile({{{{Time(flow.bytes * kMega / rate * kMega), rate, uses}}, Time{}}}));
  }
  // Ends that a flow waits for: one in a chain; in a ring also those of both neighbours.
  std::vector<std::uint8_t> waits(flows, network.ring ? 3 : 1);
  Ran ran;
  ran.ends.assign(flows, -1);
  std::vector<fluid::Event> events;

  const auto begun = std::chrono::steady_clock::now();
  if (chains > 0)
    for (std::size_t h = 0; h < chains; ++h) machine.start(h, profiles[h]);
  else
    for (std::size_t i = 0; i < flows; ++i) machine.at(network.flows[i].at, i);
  while (!machine.empty()) {
    const double now = to_seconds(machine.pop_instant(events));
    for (const fluid::Event& event : events) {
      if (event.kind == fluid::Event::Kind::timer) machine.start(event.tag, profiles[event.tag]);
      if (event.kind != fluid::Event::Kind::ended) continue;
      ran.ends[event.tag] = now;
      if (chains == 0 || event.tag + chains >= flows) continue;
      const std::size_t next = event.tag / chains * chains + chains, h = event.tag % chains;
      const auto one_less = [&](std::size_t host) {
        if (--waits[next + host] == 0) machine.start(next + host, profiles[next + host]);
      };
      one_less(h);
      if (network.ring) one_less((h + 1) % chains), one_less((h + chains - 1) % chains);
    }
  }
  ran.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  ran.counts = machine.counts();
  return ran;
}

}  // namespace rehearsal::flows
