#include "reshard/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.hpp"

namespace rehearsal::reshard {
namespace {

class Maker {
 public:
  Maker(const Resharding& resharding, const Method& method) : resharding_(resharding), method_(method) {}

  std::vector<Transfer> make() {
    const auto strategy = method_.strategy;
    if (strategy == Strategy::local_allgather && local_allgather_applies(resharding_)) {
      finer();
    } else if (strategy == Strategy::send_recv || strategy == Strategy::local_allgather) {
      device_by_device(unit_tasks(resharding_));
    } else {
      const auto units = unit_tasks(resharding_);
      for (std::uint32_t u = 0; u < units.size(); u++) {
        const auto chosen = strategy == Strategy::automatic ? fastest(units[u]) : strategy;
        switch (chosen) {
          case Strategy::send_recv:
            for (const auto device : units[u].receivers) add(u, units[u], units[u].box, {device}, chosen);
            break;
          case Strategy::local_allgather:
          case Strategy::striped:
            parted(u, units[u], chosen);
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
      if (const auto row = resharding_.destination.mesh.row_of(d); row != last) hosts++, last = row;
    return {hosts, std::uint32_t(devices.size())};
  }

  std::vector<std::uint32_t> nics(const std::vector<std::uint32_t>& devices, const Mesh& mesh,
                                  std::uint32_t first) const {
    std::vector<std::uint32_t> ids;
    for (const auto d : devices) ids.push_back(first + (method_.nic == NicSharing::host ? mesh.row_of(d) : d));
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  Transfer& add(std::uint32_t unit, const UnitTask& task, Box box, std::vector<std::uint32_t> to, Strategy strategy) {
    if (made_.size() >= kMostTransfers)
      throw UserError(
          fmt::format("more than {} transfers; use smaller meshes or a spec that splits less", kMostTransfers));
    const Mesh& from = resharding_.source.mesh;
    Transfer t;
    t.unit = unit;
    t.strategy = to.size() == 1 && strategy != Strategy::local_allgather && strategy != Strategy::striped
                     ? Strategy::send_recv
                     : strategy;
    t.size = t.work = elements(box);
    t.box = std::move(box);
    t.sender_devices = task.senders;
    t.senders = nics(task.senders, from, 0);
    t.receivers = nics(to, resharding_.destination.mesh, method_.nic == NicSharing::host ? from.rows : from.devices());
    t.receiving_hosts = receivers_of(to).hosts;
    t.receiver_devices = std::move(to);
    if (t.strategy == Strategy::global_allgather)
      t.work += (t.size * (t.receiving_hosts - 1) + t.receiving_hosts - 1) / t.receiving_hosts;
    return made_.emplace_back(std::move(t));
  }

  // The order of the original: a receiving device gets all of its boxes before the next one does.
  void device_by_device(const std::vector<UnitTask>& units) {
    for (std::uint32_t first = 0, last = 0; first < units.size(); first = last) {
      while (last < units.size() && units[last].destination_tile == units[first].destination_tile) last++;
      for (const auto device : units[first].receivers)
        for (std::uint32_t u = first; u < last; u++) add(u, units[u], units[u].box, {device}, Strategy::send_recv);
    }
  }

  void finer();

  // The box in as many parts as a host has receiving devices; device j of every host gets part j.
  void parted(std::uint32_t unit, const UnitTask& task, Strategy strategy) {
    const auto to = receivers_of(task.receivers);
    const std::uint32_t parts = to.devices / to.hosts;
    // Along the dimension with most elements; shares differ by one element at most.
    const auto longest = std::max_element(task.box.begin(), task.box.end(),
                                          [](const Interval& a, const Interval& b) { return a.length() < b.length(); });
    const auto d = std::size_t(longest - task.box.begin());
    const std::int64_t length = longest->length(), n = std::min<std::int64_t>(parts, length);
    for (std::int64_t j = 0; j < n; j++) {
      Box box = task.box;
      box[d] = {task.box[d].low + length * j / n, task.box[d].low + length * (j + 1) / n};
      std::vector<std::vector<std::uint32_t>> targets;  // of each transfer of this part
      for (std::uint32_t h = 0; h < to.hosts; h++) {
        const auto device = task.receivers[h * parts + std::size_t(j)];
        if (strategy == Strategy::striped && !targets.empty())
          targets.front().push_back(device);
        else
          targets.push_back({device});
      }
      for (auto& devices : targets) {
        auto& t = add(unit, task, box, std::move(devices), strategy);
        t.gathered = task.size, t.gatherers = parts;
      }
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
      // B stripes, as many at a time as there are devices that hold the box, then the all-gather.
      const double stripes = to.per_host(), at_once = std::min(stripes, double(task.senders.size()));
      const Receivers rail{to.hosts, to.hosts};
      const double part = bytes / stripes;
      const auto pieces =
          method_.chunks ? std::min(method_.chunks, task.size) : best_chunks(part, rail, task.size, link);
      consider(Strategy::striped, std::ceil(stripes / at_once) * chain(part, rail, pieces, link).seconds(rail) +
                                      gather_seconds(bytes, stripes, link));
    }
    if (even && method_.nic == NicSharing::host)
      consider(Strategy::local_allgather, local_allgather_seconds(bytes, to, link));
    consider(Strategy::global_allgather, global_allgather_seconds(bytes, to, link));
    consider(Strategy::send_recv, send_recv_seconds(bytes, to, link));
    return best;
  }

  const Resharding& resharding_;
  const Method& method_;
  std::vector<Transfer> made_;
};

// Copies of a tile, when they all share a host; else 0.
std::uint32_t copies_on_a_host(const Layout& layout) {
  bool rows = layout.mesh.rows == 1, columns = false;
  for (const auto& split : layout.spec)
    for (const auto axis : split) (axis == 0 ? rows : columns) = true;
  return !rows ? 0 : columns ? 1 : layout.mesh.columns;
}

// Into how many parts the rule cuts a tile along each dimension.
std::vector<std::int64_t> rule_cuts(const Resharding& resharding) {
  std::int64_t left = copies_on_a_host(resharding.destination);
  std::vector<std::int64_t> cuts;
  for (std::size_t d = 0; d < resharding.shape.size(); d++) {
    const auto parts = std::int64_t(resharding.destination.parts(d)), n = resharding.shape[d];
    const std::int64_t length = (n + parts - 1) / parts, last = n % length;  // of uneven shards both must divide
    const std::int64_t cut = left == 0 ? 1 : std::gcd(left, std::gcd(length, last));
    cuts.push_back(cut);
    left /= std::max<std::int64_t>(cut, 1);
  }
  return cuts;
}

void Maker::finer() {
  const auto tiles = tiles_of(resharding_.destination, resharding_.shape);
  const auto cuts = rule_cuts(resharding_);
  const std::size_t rank = cuts.size();
  const auto parts = std::size_t(std::accumulate(cuts.begin(), cuts.end(), std::int64_t{1}, std::multiplies<>()));
  // The tiles of the finer grid, row-major over that grid, which mixes the parts of different tiles.
  std::vector<Tile> fine(tiles.size() * parts);
  std::vector<std::uint32_t> tile_of(fine.size());
  for (std::size_t index = 0; index < fine.size(); index++) {
    std::vector<std::size_t> at(rank);
    std::size_t rest = index, tile = 0, part = 0;
    for (std::size_t d = rank; d-- > 0;) {
      const auto n = resharding_.destination.parts(d) * std::size_t(cuts[d]);
      at[d] = rest % n, rest /= n;
    }
    for (std::size_t d = 0; d < rank; d++) {
      tile = tile * resharding_.destination.parts(d) + at[d] / std::size_t(cuts[d]);
      part = part * std::size_t(cuts[d]) + at[d] % std::size_t(cuts[d]);
    }
    const Tile& whole = tiles[tile];
    for (std::size_t d = 0; d < rank; d++) {
      const auto width = whole.box[d].length() / cuts[d],
                 low = whole.box[d].low + std::int64_t(at[d]) % cuts[d] * width;
      fine[index].box.push_back({low, low + width});
    }
    const std::size_t copies = whole.devices.size() / parts;  // left over: each gets the part in full
    fine[index].devices.assign(whole.devices.begin() + std::ptrdiff_t(part * copies),
                               whole.devices.begin() + std::ptrdiff_t((part + 1) * copies));
    tile_of[index] = std::uint32_t(tile);
  }
  const auto units = unit_tasks(resharding_, fine);
  device_by_device(units);
  for (auto& t : made_) {
    t.strategy = Strategy::local_allgather;
    t.gathered = elements(tiles[tile_of[units[t.unit].destination_tile]].box);
    t.gatherers = std::uint32_t(parts);
  }
}

}  // namespace

bool local_allgather_applies(const Resharding& resharding) {
  const auto cuts = rule_cuts(resharding);
  return std::any_of(cuts.begin(), cuts.end(), [](auto cut) { return cut > 1; });
}

std::vector<Transfer> transfers(const Resharding& resharding, const Method& method) {
  return Maker(resharding, method).make();
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
    // Devices are ascending and so are their NICs: `senders` without repetition. Device i of k NICs with equally many
    // devices each, or one device per NIC.
    const std::size_t per_nic = t.sender_devices.size() / t.senders.size();
    for (std::size_t i = 0; i < t.sender_devices.size(); i++)
      task.replicas.push_back({index(devices, t.sender_devices[i]), task.senders[i / per_nic]});
    problem.tasks.push_back(std::move(task));
  }
  return numbered;
}

}  // namespace rehearsal::reshard
