// `faults` of the machine: a list of mappings, each of one kind.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cluster/faults.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

using cluster::Fault;

constexpr const char* kForms =
    "{gpu: 37, slowdown: 1.2}, {nic: 12, rate: 0.5}, {nvlink: 5, rate: 0.5}, {link: [leaf 0.0, spine 0.0], rate: 0.5}, "
    "{share: 1%, slowdown: 1.2}, {share: 1%, rate: 0.5} or {jitter: 2%, seed: 1}";
constexpr NumberRange kSlowdown{1, 1e6};
constexpr IntegerRange kSeed{0, 9'000'000'000'000'000'000};

// A share such as "2%" or 0.02.
double part_of_one(Diagnostics& problems, const Node& node, const std::string& what) {
  Node number = node;
  const bool percent = node.kind == Node::Kind::scalar && node.text.ends_with('%');
  if (percent) number.text.pop_back();
  const auto value = read_number(problems, number, what, {0, percent ? 100. : 1., true});
  return value ? *value / (percent ? 100 : 1) : 1;
}

std::optional<Fault> read_fault(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  MapReader map(problems, node, "faults");
  if (!map.node()) return std::nullopt;
  Fault fault;
  const char* kinds[] = {"gpu", "nic", "nvlink", "link", "share", "jitter"};
  const char* found = nullptr;
  for (const char* kind : kinds) {
    if (!map.given(kind)) continue;
    if (found)
      problems.error(map.at(kind), fmt::format("a fault has one of '{}' and '{}'; give two faults", found, kind));
    found = kind;
  }
  if (!found) {
    problems.error(node.where(), fmt::format("a fault is {}", kForms));
    return std::nullopt;
  }
  const std::string kind = found;
  const bool slows = kind == "gpu" || (kind == "share" && map.given("slowdown"));
  if (kind == "jitter") {
    fault.kind = Fault::Kind::jitter;
    fault.jitter = part_of_one(problems, *map.find("jitter"), "'jitter'");
  } else if (kind == "share") {
    fault.kind = slows ? Fault::Kind::gpu : Fault::Kind::nic;
    fault.share = part_of_one(problems, *map.find("share"), "'share'");
  } else if (kind == "link") {
    fault.kind = Fault::Kind::link;
    const Node& ends = *map.find("link");
    if (ends.kind != Node::Kind::sequence || ends.items.size() != 2) {
      problems.error(ends.where(), "a link is named by its two ends: link: [leaf 0.0, spine 0.0]");
    } else {
      fault.from = read_text(problems, *ends.items[0], "an end of a link").value_or("");
      fault.to = read_text(problems, *ends.items[1], "an end of a link").value_or("");
    }
  } else {
    fault.kind = kind == "gpu" ? Fault::Kind::gpu : kind == "nic" ? Fault::Kind::nic : Fault::Kind::nvlink;
    fault.number = map.integer(kind, {0, kDegree.high});
  }
  if (slows)
    fault.slowdown = map.number("slowdown", kSlowdown);
  else if (kind != "jitter")
    fault.rate = map.number("rate", kFraction);
  if (kind == "jitter" || kind == "share")
    fault.seed = static_cast<std::uint64_t>(map.integer("seed", kSeed, std::int64_t{0}));
  map.finish();
  return problems.count() == before ? std::optional(fault) : std::nullopt;
}

}  // namespace

std::vector<Fault> load_faults(Context& context, const Node& node, const cluster::ClusterSpec* cluster) {
  auto& problems = context.problems;
  std::vector<Fault> faults;
  if (node.kind != Node::Kind::sequence || node.items.empty()) {
    problems.error(node.where(), fmt::format("'faults' is a list of {}; found {}", kForms, describe(node)));
    return faults;
  }
  std::optional<cluster::Machine> machine;
  if (cluster) machine.emplace(*cluster);
  for (const Node* item : node.items) {
    const auto fault = read_fault(context, *item);
    if (!fault) continue;
    faults.push_back(*fault);
    if (!machine) continue;
    try {
      const cluster::Health health(*machine, faults);
    } catch (const UserError& e) {
      problems.error(item->where(), e.diagnostics()[0].message);
      faults.pop_back();
    }
  }
  return faults;
}

}  // namespace rehearsal::scenario
