#include "reshard/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::reshard {
namespace {

class Maker {
 public:
  Maker(const Side& source, const Side& destination, const Method& method)
      : source_(source), destination_(destination), method_(method) {}

  std::vector<Transfer> make() {
    const auto strategy = method_.strategy;
    if (strategy == Strategy::alpa_allgather && alpa_allgather_applies(destination_)) {
      finer();
    } else if (strategy == Strategy::send_recv || strategy == Strategy::alpa_allgather) {
      device_by_device(unit_tasks(source_.tiles, destination_.tiles));
    } else {
      const auto units = unit_tasks(source_.tiles, destination_.tiles);
      for (std::uint32_t u = 0; u < units.size(); u++) {
        const auto chosen = strategy == Strategy::automatic ? fastest(units[u]) : strategy;
        switch (chosen) {
          case Strategy::send_recv:
            for (const auto device : units[u].receivers) add(u, units[u], units[u].box, {device}, chosen);
            break;
          case Strategy::local_allgather:
            within_hosts(u, units[u]);
            break;
          case Strategy::striped:
            striped(u, units[u]);
            break;
          default:
            add(u, units[u], units[u].box, units[u].receivers, chosen);
        }
      }
    }
    return std::move(made_);
  }

 private:
  Receivers receivers_of(const std::vector<std::uint32_t>& devices) const {
    std::uint32_t hosts = 0, last = UINT32_MAX;
    for (const auto d : devices)
      if (const auto host = destination_.host[d]; host != last) hosts++, last = host;
    return {hosts, std::uint32_t(devices.size())};
  }

  std::vector<std::uint32_t> nics(const std::vector<std::uint32_t>& devices, const Side& side,
                                  std::uint32_t first) const {
    std::vector<std::uint32_t> ids;
    for (const auto d : devices) ids.push_back(first + (method_.nic == NicSharing::host ? side.host[d] : d));
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  Transfer& add(std::uint32_t unit, const UnitTask& task, Box box, std::vector<std::uint32_t> to, Strategy strategy) {
    if (made_.size() >= kMostTransfers)
      throw UserError(
          fmt::format("more than {} transfers; use smaller meshes or a spec that splits less", kMostTransfers));
    Transfer t;
    t.unit = unit;
    t.strategy = to.size() == 1 && strategy != Strategy::local_allgather && strategy != Strategy::striped
                     ? Strategy::send_recv
                     : strategy;
    t.size = t.work = elements(box);
    t.box = std::move(box);
    t.sender_devices = task.senders;
    t.senders = nics(task.senders, source_, 0);
    t.receivers = nics(to, destination_, method_.nic == NicSharing::host ? source_.hosts() : source_.devices());
    if (method_.nic == NicSharing::gpu)
      for (const auto device : task.senders)
        if (source_.rail[device] == destination_.rail[to.front()] && !t.same_rail) t.same_rail = device;
    t.receiving_hosts = receivers_of(to).hosts;
    t.receiver_devices = std::move(to);
    if (t.strategy == Strategy::global_allgather)
      t.work += (t.size * (t.receiving_hosts - 1) + t.receiving_hosts - 1) / t.receiving_hosts;
    return made_.emplace_back(std::move(t));
  }

  // The original's order: a receiving device gets all of its boxes before the next device does.
  void device_by_device(const std::vector<UnitTask>& units) {
    for (std::uint32_t first = 0, last = 0; first < units.size(); first = last) {
      while (last < units.size() && units[last].destination_tile == units[first].destination_tile) last++;
      for (const auto device : units[first].receivers)
        for (std::uint32_t u = first; u < last; u++) add(u, units[u], units[u].box, {device}, Strategy::send_recv);
    }
  }

  void finer();

  // Part j of n of a box, along the dimension with the most elements; parts differ by one row at most.
  static Box part(const Box& whole, std::int64_t j, std::int64_t n) {
    const auto d = longest(whole);
    Box box = whole;
    box[d] = {whole[d].low + whole[d].length() * j / n, whole[d].low + whole[d].length() * (j + 1) / n};
    return box;
  }
  static std::size_t longest(const Box& box) {
    return std::size_t(std::max_element(box.begin(), box.end(),
                                        [](const Interval& a, const Interval& b) { return a.length() < b.length(); }) -
                       box.begin());
  }

  // One part to each receiving device of a host, which then gather the box; a host with a single one gets all of it.
  void within_hosts(std::uint32_t unit, const UnitTask& task) {
    std::vector<std::vector<std::uint32_t>> hosts;
    for (const auto d : task.receivers) {
      if (hosts.empty() || destination_.host[d] != destination_.host[hosts.back().front()]) hosts.emplace_back();
      hosts.back().push_back(d);
    }
    const auto length = task.box[longest(task.box)].length();
    const auto parts_of = [&](const auto& host) { return std::min(std::int64_t(host.size()), length); };
    bool some = true;
    for (std::int64_t j = 0; std::exchange(some, false); j++)
      for (const auto& host : hosts) {
        if (j >= parts_of(host)) continue;
        some = true;
        if (host.size() == 1) {
          add(unit, task, task.box, host, Strategy::send_recv);
          continue;
        }
        auto& t = add(unit, task, part(task.box, j, parts_of(host)), {host[std::size_t(j)]}, Strategy::local_allgather);
        t.gathered = task.size, t.gatherers = std::uint32_t(host.size()), t.gather_with = host;
      }
  }

  // The box in as many parts as each host has receiving devices; part j is sent along the devices j of all hosts.
  void striped(std::uint32_t unit, const UnitTask& task) {
    const auto to = receivers_of(task.receivers);
    const std::uint32_t parts = to.devices / to.hosts;
    const auto n = std::min<std::int64_t>(parts, task.box[longest(task.box)].length());
    for (std::int64_t j = 0; j < n; j++) {
      std::vector<std::uint32_t> rail;
      for (std::uint32_t h = 0; h < to.hosts; h++) rail.push_back(task.receivers[h * parts + std::size_t(j)]);
      auto& t = add(unit, task, part(task.box, j, n), std::move(rail), Strategy::striped);
      t.gathered = task.size, t.gatherers = parts, t.gather_with = task.receivers;
    }
  }

  Strategy fastest(const UnitTask& task) const {
    const auto to = receivers_of(task.receivers);
    if (to.devices == 1) return Strategy::send_recv;
    const Link& link = method_.link;
    const double bytes = double(task.size) * double(method_.element_bytes);
    const auto chunks = method_.chunks ? std::min(method_.chunks, task.size) : best_chunks(bytes, to, task.size, link);
    Strategy best = Strategy::broadcast;
    double least = chain(bytes, to, chunks, link).seconds(to);
    const auto consider = [&](Strategy strategy, double seconds) {
      if (seconds < least) least = seconds, best = strategy;
    };
    const bool even = to.devices % to.hosts == 0 && to.devices > to.hosts;
    if (method_.nic == NicSharing::gpu && even) {
      // B stripes, limited in parallel by the number of devices that hold the box, then the all-gather.
      const double stripes = to.per_host(), at_once = std::min(stripes, double(task.senders.size()));
      const Receivers rail{to.hosts, to.hosts};
      const double part = bytes / stripes;
      const auto pieces =
          method_.chunks ? std::min(method_.chunks, task.size) : best_chunks(part, rail, task.size, link);
      consider(Strategy::striped, std::ceil(stripes / at_once) * chain(part, rail, pieces, link).seconds(rail) +
                                      gather_seconds(bytes, stripes, link));
    }
    if (even) consider(Strategy::local_allgather, local_allgather_seconds(bytes, to, link));
    consider(Strategy::global_allgather, global_allgather_seconds(bytes, to, link));
    consider(Strategy::send_recv, send_recv_seconds(bytes, to, link));
    return best;
  }

  const Side &source_, &destination_;
  const Method& method_;
  std::vector<Transfer> made_;
};

// The number of copies of a tile if all are on one host; otherwise 0.
std::uint32_t copies_on_a_host(const Side& side) {
  std::size_t copies = 0;
  for (const auto& tile : side.tiles) {
    if (elements(tile.box) == 0) continue;
    for (const auto device : tile.devices)
      if (side.host[device] != side.host[tile.devices.front()]) return 0;
    if (copies > 0 && copies != tile.devices.size()) return 0;
    copies = tile.devices.size();
  }
  return std::uint32_t(copies);
}

// The number of parts into which the rule cuts a tile along each dimension; must divide every length of uneven
// shards.
std::vector<std::int64_t> rule_cuts(const Side& destination) {
  std::int64_t left = std::max<std::uint32_t>(1, copies_on_a_host(destination));
  std::vector<std::int64_t> cuts;
  for (std::size_t d = 0; d < destination.tiles.front().box.size(); d++) {
    std::int64_t cut = left;
    for (const auto& tile : destination.tiles)
      if (elements(tile.box) > 0) cut = std::gcd(cut, tile.box[d].length());
    cuts.push_back(cut);
    left /= cut;
  }
  return cuts;
}

void Maker::finer() {
  const auto cuts = rule_cuts(destination_);
  const auto parts = std::size_t(std::accumulate(cuts.begin(), cuts.end(), std::int64_t{1}, std::multiplies<>()));
  struct Fine {
    Tile tile;
    std::uint32_t of;
  };
  std::vector<Fine> fine;
  for (std::uint32_t i = 0; i < destination_.tiles.size(); i++) {
    const Tile& whole = destination_.tiles[i];
    if (elements(whole.box) == 0) continue;
    const std::size_t copies = whole.devices.size() / parts;  // left over: each gets the whole part
    for (std::size_t part = 0; part < parts; part++) {
      Fine next{{whole.box, {}}, i};
      std::size_t rest = part;
      for (std::size_t d = cuts.size(); d-- > 0;) {
        const auto at = std::int64_t(rest % std::size_t(cuts[d])), width = whole.box[d].length() / cuts[d];
        rest /= std::size_t(cuts[d]);
        next.tile.box[d].low += at * width, next.tile.box[d].high = next.tile.box[d].low + width;
      }
      const auto first = whole.devices.begin() + std::ptrdiff_t(part * copies);
      next.tile.devices.assign(first, first + std::ptrdiff_t(copies));
      fine.push_back(std::move(next));
    }
  }
  // Row-major over the finer grid, which interleaves the parts of different tiles.
  std::stable_sort(fine.begin(), fine.end(), [](const Fine& a, const Fine& b) {
    return std::lexicographical_compare(a.tile.box.begin(), a.tile.box.end(), b.tile.box.begin(), b.tile.box.end(),
                                        [](const Interval& x, const Interval& y) { return x.low < y.low; });
  });
  std::vector<Tile> tiles;
  for (auto& f : fine) tiles.push_back(std::move(f.tile));
  const auto units = unit_tasks(source_.tiles, tiles);
  device_by_device(units);
  for (auto& t : made_) {
    const auto& whole = destination_.tiles[fine[units[t.unit].destination_tile].of];
    t.strategy = Strategy::alpa_allgather;
    t.gathered = elements(whole.box);
    t.gatherers = std::uint32_t(parts);
    // The same copy of every part.
    const std::size_t copies = whole.devices.size() / parts;
    const auto at = std::find(whole.devices.begin(), whole.devices.end(), t.receiver_devices.front());
    for (auto i = std::size_t(at - whole.devices.begin()) % copies; i < whole.devices.size(); i += copies)
      t.gather_with.push_back(whole.devices[i]);
  }
}

}  // namespace

bool alpa_allgather_applies(const Side& destination) {
  const auto cuts = rule_cuts(destination);
  return std::any_of(cuts.begin(), cuts.end(), [](auto cut) { return cut > 1; });
}

std::vector<Transfer> transfers(const Side& source, const Side& destination, const Method& method) {
  return Maker(source, destination, method).make();
}
std::vector<Transfer> transfers(const Resharding& resharding, const Method& method) {
  return transfers(side_of(resharding.source, resharding.shape), side_of(resharding.destination, resharding.shape),
                   method);
}

Numbered number(const std::vector<Transfer>& transfers) {
  Numbered numbered;
  const auto collect = [&](auto member, std::vector<std::uint32_t>& ids) {
    for (const auto& t : transfers) ids.insert(ids.end(), (t.*member).begin(), (t.*member).end());
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  };
  std::vector<std::uint32_t> devices;
  collect(&Transfer::senders, numbered.sender_nics);
  collect(&Transfer::receivers, numbered.receiver_nics);
  collect(&Transfer::sender_devices, devices);
  const auto index = [](const std::vector<std::uint32_t>& ids, std::uint32_t id) {
    return std::uint32_t(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  };
  Problem& problem = numbered.problem;
  problem.senders = std::uint32_t(numbered.sender_nics.size());
  problem.receivers = std::uint32_t(numbered.receiver_nics.size());
  problem.devices = std::uint32_t(devices.size());
  for (const auto& t : transfers) {
    Task task;
    task.work = t.work;
    for (const auto id : t.senders) task.senders.push_back(index(numbered.sender_nics, id));
    for (const auto id : t.receivers) task.receivers.push_back(index(numbered.receiver_nics, id));
    if (t.same_rail) task.nearest = index(numbered.sender_nics, *t.same_rail);
    // Devices are ascending and so are their NICs: `senders` without repetition. Device i of k NICs with equal numbers
    // of devices, or one device per NIC.
    const std::size_t per_nic = t.sender_devices.size() / t.senders.size();
    for (std::size_t i = 0; i < t.sender_devices.size(); i++)
      task.replicas.push_back({index(devices, t.sender_devices[i]), task.senders[i / per_nic]});
    problem.tasks.push_back(std::move(task));
  }
  return numbered;
}

}  // namespace rehearsal::reshard
