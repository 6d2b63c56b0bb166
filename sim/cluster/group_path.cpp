// The paths of a group or a message on a machine: in closed form by levels, or by counting flows on their routes.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.hpp"
#include "cluster/machine.hpp"

namespace rehearsal::cluster {
namespace {

// Flows that cross each link, in fractions of one flow; the two directions of a cable are two links.
class Load {
 public:
  explicit Load(const Machine& machine) : machine_(machine) {}

  void add(std::int64_t from, std::int64_t to, std::int64_t stripe, double share) {
    for (const auto& hop : machine_.route(from, to, stripe)) {
      auto& link = links_[{hop.from, hop.to}];
      link.flows += share, link.rate = hop.link.rate;
    }
  }

  // The rate of one whole flow on its most loaded link.
  Bandwidth least() const {
    Bandwidth least;
    for (const auto& [ends, link] : links_)
      if (const auto rate = link.rate / link.flows; least.value() == 0 || rate < least) least = rate;
    return least;
  }

 private:
  struct Carried {
    double flows = 0;
    Bandwidth rate;
  };
  const Machine& machine_;
  std::map<std::pair<Device, Device>, Carried> links_;
};

Time latency(const std::vector<Hop>& route) {
  Time sum;
  for (const auto& hop : route) sum += hop.link.latency;
  return sum;
}

// Members of a group within `width` neighbouring GPUs.
std::int64_t members(const GroupShape& group, std::int64_t width) {
  return std::clamp<std::int64_t>(width / group.stride, 1, group.ranks);
}

}  // namespace

// One ring in the order of ranks.
Bandwidth Machine::counted_port(std::int64_t stride, std::int64_t members) const {
  Load load(*this);
  for (std::int64_t k = 0; k < members; ++k) load.add(k * stride, (k + 1) % members * stride, 0, 1);
  return load.least();
}

const GroupPath& Machine::reach(const GroupShape& group) const {
  INVARIANT(group.ranks >= 1 && group.stride >= 1, "a group has no rank or no stride");
  const std::lock_guard lock(known_->mutex);
  const auto [at, fresh] = known_->groups.try_emplace(group);
  if (!fresh) return at->second;
  GroupPath& reach = at->second;
  try {
    reach.ranks = group.ranks;
    reach.in_domain = members(group, domain_);
    if (reach.in_domain > 1) {
      reach.port = inside_->port ? inside_->port(*this, group.stride, reach.in_domain)
                                 : counted_port(group.stride, reach.in_domain);
      reach.port = reach.port * port_;
      reach.latency = latency(route(0, group.stride));
    }
    if (reach.in_domain < reach.ranks) levels_.empty() ? count_out(reach, group) : leave(reach, group);
  } catch (...) {
    known_->groups.erase(at);
    throw;
  }
  return reach;
}

Bandwidth Machine::pairs(const GroupShape& group, bool to_all) const {
  const GroupPath& reach = this->reach(group);
  if (inside_->uniform) return reach.port;
  const std::lock_guard lock(known_->mutex);
  const auto [at, fresh] = known_->all_pairs.try_emplace({group, to_all});
  if (!fresh) return at->second;
  const auto members = reach.in_domain;
  const std::int64_t stride = group.stride;
  const double share = to_all ? 1 / double(members - 1) : 1;
  Bandwidth least;  // over all such groups of a domain, as for ports
  for (std::int64_t first = 0; first + stride * members <= domain_; first += stride * members) {
    Load load(*this);
    for (std::int64_t a = 0; a < members; ++a)
      for (std::int64_t b = 0; b < members; ++b)
        if (to_all ? a != b : b == (a + 1) % members) load.add(first + a * stride, first + b * stride, 0, share);
    if (least.value() == 0 || load.least() < least) least = load.least();
  }
  return at->second = least * port_;
}

double Machine::on_shared_links(const GroupShape& group, double inside, double out, bool to_all) const {
  if (!inside_->exit) return 0;
  const auto members = reach(group).in_domain;
  std::map<std::pair<Device, Device>, double> bytes;
  const auto add = [&](const Path& path, double amount) {
    for (std::size_t i = 1; i < path.size(); ++i) bytes[{path[i - 1], path[i]}] += amount;
  };
  for (std::int64_t k = 0; k < members; ++k) {
    for (std::int64_t next = 1; next < (to_all ? members : std::min<std::int64_t>(2, members)); ++next)
      add(path(k * group.stride, (k + next) % members * group.stride), to_all ? inside / double(members - 1) : inside);
    auto way = exit(k * group.stride, 0);
    way.pop_back();  // the NIC itself is no link of GPUs
    add(way, out / double(members));
  }
  double most = 0;
  for (const auto& [ends, amount] : bytes)
    most = std::max(most, amount / (link(ends.first, ends.second).rate.value() * port_));
  return most;
}

// The NICs beside the members of one domain.
std::int64_t Machine::nics_beside(std::int64_t stride, std::int64_t members) const {
  std::set<Device> nics;
  for (std::int64_t k = 0; k < members; ++k)
    for (std::int64_t stripe = 0; stripe < stripes(); ++stripe) nics.insert(nic(k * stride, stripe));
  return std::ssize(nics);
}

// The share of the rate of all rails that members below one leaf get when the fullest rail limits them.
double Machine::rails_used(std::int64_t stride, std::int64_t members) const {
  std::map<std::uint32_t, std::int64_t> flows;
  std::int64_t all = 0, most = 0;
  for (std::int64_t k = 0; k < members; ++k)
    for (std::int64_t stripe = 0; stripe < stripes(); ++stripe)
      ++all, most = std::max(most, ++flows[nic(k * stride, stripe).index]);
  return double(all) / double(most * spec_.nics_per_node);
}

// A group of every second GPU or fewer has no two members beside the same NIC, one to enter and one to leave by; it
// keeps `nics_per_group`, if that is known (sim/design/partial-node-groups.md).
void Machine::leave(GroupPath& reach, const GroupShape& group) const {
  reach.nics_of = spec_.nics_per_node * std::max<std::int64_t>(1, domain_ / spec_.gpus_per_node);
  reach.nics = nics_beside(group.stride, reach.in_domain);
  reach.senders = reach.in_domain;
  if (spec_.nics_per_group > 0 && reach.in_domain > 1 && group.stride > 1)
    reach.nics = reach.senders = std::min({reach.nics, reach.senders, spec_.nics_per_group});
  Bandwidth out = spec_.nic * (wire_ * double(reach.nics));
  std::int64_t below = domain_;
  for (const auto& level : levels_) {
    const auto inside = members(group, below);
    if (inside < group.ranks) {
      if (!reach.out.empty()) out = out * (double(inside) / double(reach.out.back().members));
      out = std::min(out, level.rails ? level.out * rails_used(group.stride, inside) : level.out);
      reach.out.push_back({level.name, inside, out, level.latency});
    }
    below = level.width;
  }
}

// A ring of domains: member i of one sends to member i of the next, each over the NICs beside it.
void Machine::count_out(GroupPath& reach, const GroupShape& group) const {
  Load load(*this);
  const auto m = reach.in_domain, rings = reach.ranks / m;
  const double share = 1. / double(m * stripes());
  Time slowest;
  for (std::int64_t k = 0; k < rings * m; ++k)
    for (std::int64_t stripe = 0; stripe < stripes(); ++stripe) {
      const auto from = k * group.stride, to = (k + m) % (rings * m) * group.stride;
      if (from >= gpus() || to >= gpus()) continue;
      load.add(from, to, stripe, share);
      if (stripe == 0) slowest = std::max(slowest, latency(route(from, to)));
    }
  reach.out.push_back({"fabric", m, load.least() * wire_, slowest});
}

Bandwidth Machine::counted(const GroupShape& group) const {
  GroupPath reach;
  reach.ranks = group.ranks, reach.in_domain = members(group, domain_);
  count_out(reach, group);
  return reach.out.back().rate;
}

const MessagePath& Machine::reach(std::int64_t from, std::int64_t to) const {
  const auto [a, b] = alike(from, to);
  const std::lock_guard lock(known_->mutex);
  const auto [at, fresh] = known_->pairs.try_emplace({a, b});
  MessagePath& reached = at->second;
  if (!fresh) return reached;
  const int top = level(a, b);
  reached.leaves_domain = top >= 0;
  try {
    if (top >= 0 && !levels_.empty()) {
      reached.rate = spec_.nic * (wire_ * double(stripes()));  // over the NICs beside it
      reached.latency = levels_[static_cast<std::size_t>(top)].latency;
      for (std::size_t i = 0; i <= static_cast<std::size_t>(top); ++i) {
        const double share = levels_[i].rails ? double(stripes()) / double(spec_.nics_per_node) : 1;
        reached.rate = std::min(reached.rate, levels_[i].out * share);
      }
      return reached;
    }
    Load load(*this);
    const auto lanes = top < 0 ? 1 : stripes();
    for (std::int64_t stripe = 0; stripe < lanes; ++stripe) load.add(a, b, stripe, 1. / double(lanes));
    reached.rate = load.least() * (top < 0 ? port_ : wire_);
    reached.latency = latency(route(a, b));
  } catch (...) {
    known_->pairs.erase(at);
    throw;
  }
  return reached;
}

}  // namespace rehearsal::cluster
