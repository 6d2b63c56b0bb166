#include "cluster/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearsal::cluster {
namespace {

// The device of a name as reports write it: the one among those with its numbers that is called so.
std::optional<Device> device_of(const std::string& text) {
  std::array<std::uint32_t, 2> numbers{};
  std::size_t found = 0;
  for (const char *at = text.data(), *end = at + text.size(); at != end && found < numbers.size();) {
    const auto read = std::from_chars(at, end, numbers[found]);
    if (read.ec == std::errc()) ++found;
    at = read.ec == std::errc() ? read.ptr : at + 1;
  }
  const auto [a, b] = numbers;
  for (auto kind = DeviceKind::gpu; kind <= DeviceKind::named; kind = static_cast<DeviceKind>(int(kind) + 1))
    for (const Device device : {Device{kind, a, b}, Device{kind, a, 0}, Device{kind, 0, a}})
      if (name(device) == text) return device;
  return std::nullopt;
}

// z for which a standard normal number is below it with probability p; by bisection, to 1e-9.
double normal_quantile(double p) {
  double low = -9, high = 9;
  while (high - low > 1e-10) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.)) / 2 < p ? low : high) = middle;
  }
  return std::round(low * 1e9) * 1e-9;
}

const std::array<double, Health::kJitterLevels>& jitter_levels() {
  static const auto levels = [] {
    std::array<double, Health::kJitterLevels> z;
    double squares = 0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] = normal_quantile((double(i) + .5) / double(z.size()));
      squares += z[i] * z[i];
    }
    for (double& value : z) value /= std::sqrt(squares / double(z.size()));  // deviation 1, though the tails are cut
    return z;
  }();
  return levels;
}

std::string rate_left(const Fault& f) { return fmt::format("{:g} of its rate", f.rate.value_or(1)); }

}  // namespace

std::string describe(const Fault& f) {
  const auto part = [&](const char* kind, const std::optional<std::int64_t>& number) {
    return number ? fmt::format("{} {}", kind, *number)
                  : fmt::format("{:g} % of all {}s (seed {})", f.share.value_or(0) * 100, kind, f.seed);
  };
  switch (f.kind()) {
    case Fault::Kind::gpu:
      return fmt::format("{}: kernels take {:g} times as long",
                         f.node ? fmt::format("node {}", *f.node) : part("GPU", f.gpu), f.slowdown.value_or(1));
    case Fault::Kind::nic:
      return fmt::format("{}: {}", part("NIC", f.nic), f.rate == 0 ? "down" : rate_left(f));
    case Fault::Kind::nvlink:
      return fmt::format("NVLink of {}: {}", part("GPU", f.nvlink), rate_left(f));
    case Fault::Kind::link:
      return fmt::format("link {} to {}: {}", f.link.front(), f.link.back(), rate_left(f));
    case Fault::Kind::jitter:
      return fmt::format("jitter of {:g} % (seed {})", *f.jitter * 100, f.seed);
  }
  return {};
}

Health::Health(const Machine& machine, const std::vector<Fault>& faults)
    : gpus_(static_cast<std::size_t>(machine.gpus()), 1), ports_(gpus_.size(), 1) {
  // Named parts first: a share is drawn from the others.
  for (const bool drawn : {false, true})
    for (const auto& fault : faults)
      if (fault.share.has_value() == drawn) add(machine, fault);
  std::set<std::int64_t> nodes;  // with a NIC that is down
  for (const auto& [nic, left] : nics_)
    if (left == 0) nodes.insert(std::int64_t(nic.place));
  for (const auto node : nodes) go_round(machine, node);
}

// What went over NICs that are down is spread over the others of the node (NCCL from 2.27 on), in equal parts: with d
// of n down each of the others has room for n - d of the n parts of its own traffic. A flow of a NIC that is down goes
// at the mean of theirs.
void Health::go_round(const Machine& machine, std::int64_t node) {
  const std::int64_t count = machine.spec().nics_per_node;
  std::vector<Device> down, up;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Device nic = machine.nic_numbered(node * count + i);
    const auto known = nics_.find(nic);
    const double left = known == nics_.end() ? 1 : known->second;
    (left == 0 ? down : up).push_back(nic);
    sum += left;
  }
  if (up.empty())
    throw UserError(fmt::format("'faults': all {} NICs of node {} are down, and nothing leaves it", count, node));
  const double room = double(up.size()) / double(count);
  for (const auto& nic : up) nics_.try_emplace(nic, 1.).first->second *= room;
  for (const auto& nic : down) nics_[nic] = sum / double(up.size()) * room;
}

void Health::add(const Machine& machine, const Fault& fault) {
  if (fault.jitter) {
    if (jitters()) throw UserError("'faults' gives 'jitter' twice; a step has one");
    jitter_ = *fault.jitter, seed_ = fault.seed;
    return;
  }
  if (fault.node) {
    const std::int64_t nodes = machine.spec().nodes, gpus = machine.spec().gpus_per_node;
    if (*fault.node >= nodes)
      throw UserError(fmt::format("'faults' names node {}, and the cluster has node 0 to {}", *fault.node, nodes - 1));
    for (std::int64_t i = 0; i < gpus; ++i) put(machine, fault, *fault.node * gpus + i);
    return;
  }
  if (!fault.share) return put(machine, fault, fault.gpu.value_or(fault.nic.value_or(fault.nvlink.value_or(0))));
  const bool nics = fault.kind() == Fault::Kind::nic;
  const auto all = nics ? machine.nics() : machine.gpus();
  std::vector<std::int64_t> free;
  for (std::int64_t i = 0; i < all; ++i)
    if (nics ? !nics_.count(machine.nic_numbered(i)) : gpus_[static_cast<std::size_t>(i)] == 1) free.push_back(i);
  const auto wanted = std::llround(*fault.share * double(all));
  if (wanted < 1)
    throw UserError(
        fmt::format("'faults': a share of {:g} % of {} {}s is none", *fault.share * 100, all, nics ? "NIC" : "GPU"));
  Random random(fault.seed);
  for (std::int64_t i = 0; i < wanted && !free.empty(); ++i) {
    const auto at = free.begin() + static_cast<std::ptrdiff_t>(random.below(free.size()));
    put(machine, fault, *at);
    *at = free.back(), free.pop_back();
  }
}

void Health::put(const Machine& machine, const Fault& fault, std::int64_t number) {
  const auto twice = [&](bool already) {
    if (already)
      throw UserError(fmt::format("'faults' has two on one part ({}); give one with what both leave", describe(fault)));
  };
  const auto among = [&](std::int64_t count, const char* kind) {
    if (number >= count)
      throw UserError(count == 0 ? fmt::format("'faults' names {} {}, and the cluster has none", kind, number)
                                 : fmt::format("'faults' names {} {}, and the cluster has {} 0 to {}", kind, number,
                                               kind, count - 1));
  };
  const auto at = static_cast<std::size_t>(number);
  switch (fault.kind()) {
    case Fault::Kind::gpu:
      among(machine.gpus(), "GPU");
      twice(gpus_[at] != 1);
      gpus_[at] = *fault.slowdown;
      break;
    case Fault::Kind::nvlink:
      among(machine.gpus(), "GPU");
      if (machine.domain() == 1 || !(machine.inside().uniform || machine.inside().port))
        throw UserError(
            fmt::format("'faults' names the NVLink of GPU {}, and no NVLink joins the GPUs of a node here; "
                        "name a link instead",
                        number));
      twice(ports_[at] != 1);
      ports_[at] = *fault.rate, sound_ports_ = false;
      break;
    case Fault::Kind::nic:
      among(machine.nics(), "NIC");
      twice(!nics_.try_emplace(machine.nic_numbered(number), *fault.rate).second);
      break;
    case Fault::Kind::link: {
      const auto from = device_of(fault.link[0]), to = device_of(fault.link[1]);
      if (!from || !to)
        throw UserError(
            fmt::format("'faults': '{}' is no device of a cluster; its devices are called \"node 0 NIC 1\", "
                        "\"leaf 0.0\", \"spine 1.0\", as the lists of links in a report do",
                        fault.link[from ? 1 : 0]));
      if (from->kind == DeviceKind::nvswitch || to->kind == DeviceKind::nvswitch)
        throw UserError("'faults': links to an NVSwitch belong to their GPU; give {nvlink: GPU, rate: ...}");
      twice(!cables_.try_emplace(std::minmax(*from, *to), *fault.rate).second);
      break;
    }
    case Fault::Kind::jitter:
      break;
  }
}

double Health::link(const Device& from, const Device& to) const {
  double left = 1;
  for (const auto& end : {from, to})
    if (end.kind == DeviceKind::nic)
      if (const auto nic = nics_.find(end); nic != nics_.end()) left = std::min(left, nic->second);
  if (!cables_.empty())
    if (const auto cable = cables_.find(std::minmax(from, to)); cable != cables_.end()) left *= cable->second;
  return left;
}

double Health::left(const Machine& machine, std::int64_t from, std::int64_t to, std::int64_t stripe,
                    Cables& crossed) const {
  const bool ports = machine.inside().uniform || machine.inside().port;
  if (ports && from / machine.domain() == to / machine.domain()) return std::min(port(from), port(to));
  Bandwidth sound, now;
  for (const auto& hop : machine.route(from, to, stripe)) {
    const auto rate = hop.link.rate * link(hop.from, hop.to);
    if (sound.value() == 0 || hop.link.rate < sound) sound = hop.link.rate;
    if (now.value() == 0 || rate < now) now = rate;
    if (!cables_.empty()) crossed.insert(std::minmax(hop.from, hop.to));
  }
  return sound.value() > 0 ? now.value() / sound.value() : 1;
}

void Health::check_crossed(const Cables& crossed) const {
  for (const auto& [ends, rate] : cables_)
    if (!crossed.count(ends))
      throw UserError(
          fmt::format("'faults' names the link {} to {}, and nothing of this job goes over one between these",
                      name(ends.first), name(ends.second)));
}

double Health::jitter(std::uint32_t level) const { return std::max(.01, 1 + jitter_ * jitter_levels()[level]); }

std::uint32_t Health::level(std::uint64_t ranks, std::uint64_t pass) const {
  return Random(Random(Random(seed_).next() ^ ranks).next() ^ pass).below32(kJitterLevels);
}

ClusterSpec with_faults(ClusterSpec spec, const std::vector<Fault>& faults) {
  for (const auto& fault : faults)
    if (fault.kind() == Fault::Kind::gpu || fault.kind() == Fault::Kind::jitter)
      throw UserError(
          fmt::format("'faults': {}, and a collective alone has no kernels; name a NIC or a link", describe(fault)));
  const Machine machine(spec);
  const Health health(machine, faults);
  Health::Cables crossed;
  const std::int64_t gpus = machine.gpus(), node = spec.gpus_per_node;
  double inside = 1, across = 1;
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    if (node > 1)
      inside = std::min(inside, health.left(machine, gpu, gpu / node * node + (gpu + 1) % node, 0, crossed));
    for (std::int64_t stripe = 0; stripe < machine.stripes() && gpus > node; ++stripe)
      across = std::min(across, health.left(machine, gpu, (gpu + node) % gpus, stripe, crossed));
  }
  health.check_crossed(crossed);
  for (Bandwidth* rate : {&spec.nvlink, &spec.nvlink_message, &spec.nvlink_gather}) *rate = *rate * inside;
  spec.nic = spec.nic * across;
  return spec;
}

}  // namespace rehearsal::cluster
