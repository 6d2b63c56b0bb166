#include "hosts/hosts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "backend/interrupted.hpp"
#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/sha256.hpp"
#include "hosts/commands.hpp"
#include "hosts/namespaces.hpp"
#include "hosts/sets.hpp"
#include "hosts/tools.hpp"
#include "launch/process.hpp"

namespace rehearsal::hosts {
namespace {

// Of all that makes the hosts, whatever the set is called and the kernel can do.
std::string digest(const Plan& plan) {
  Sha256 sum;
  for (const auto& place : commands(plan, "", true))
    for (const auto& text : {place.place, place.links, place.ip, place.tc}) sum.update(text);
  return sum.hex();
}

std::vector<std::string> not_performed(const Plan& plan, bool netem) {
  std::vector<std::string> all;
  std::set<Time> latencies;
  for (const auto& cable : plan.cables)
    if (!cable.nic.empty() && cable.latency > Time{}) latencies.insert(cable.latency);
  if (!netem && !latencies.empty())
    all.push_back(
        fmt::format("latency {} is not performed: this kernel has no sch_netem; a message takes what the kernel itself "
                    "takes, some 10 to 50 us",
                    show(*latencies.rbegin())));
  if (plan.slots > 1) all.emplace_back("links inside nodes are not performed: the ranks of a host share its memory");
  return all;
}

// Makes what the plan says in namespaces that are there.
void build(const Plan& plan, const std::string& set, bool netem) {
  const auto all = commands(plan, set, netem);
  const auto batch = [&](const char* tool, const InNamespace& place, const std::string& text) {
    if (!text.empty()) call_or_throw({tool, "-n", namespace_of(set, place.place), "-batch", "-"}, text);
  };
  for (const auto& place : all) batch("ip", place, place.links);
  for (const auto& place : all) {
    if (!place.files.empty())
      inside(namespace_of(set, place.place), [&] {
        for (const auto& [file, value] : place.files)
          if (std::ofstream out("/proc/sys/" + file); !(out << value << std::flush))
            throw MachineError(fmt::format("cannot write {} into /proc/sys/{} of {}", value, file, place.place));
      });
    batch("ip", place, place.ip);
    batch("tc", place, place.tc);
  }
}

bool has_netem(const std::string& name) {
  return call({"tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1us"}).status == 0 &&
         call({"tc", "-n", name, "qdisc", "del", "dev", "lo", "root"}).status == 0;
}

std::string names_file(const Plan& plan) {
  std::string text = "127.0.0.1 localhost\n";
  for (std::size_t host = 0; host < plan.hosts; ++host)
    text += fmt::format("{} {}\n", address(host, 0), plan.places[host].name);
  return text;
}

std::string slots_file(const Plan& plan) {
  std::string text;
  for (std::size_t host = 0; host < plan.hosts; ++host)
    text += fmt::format("{} slots={}\n", plan.places[host].name, plan.slots);
  return text;
}

struct Counted {
  double sent = 0, received = 0, dropped = 0;
  bool up = false;
  std::vector<std::string> addresses{};
};

double number(const Json* json) { return json && json->is_number() ? json->real() : 0; }
const Json* at(const Json* json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) json = json ? json->find(key) : nullptr;
  return json;
}

// By interface of a place.
std::map<std::string, Counted> counters(const std::string& name) {
  std::map<std::string, Counted> all;
  if (const auto links = Json::read(call_or_throw({"ip", "-n", name, "-s", "-j", "address"}));
      links && links->is_array())
    for (const auto& link : links->items()) {
      auto& one = all[link.find("ifname") ? link.find("ifname")->text() : ""];
      one.sent = number(at(&link, {"stats64", "tx", "bytes"}));
      one.received = number(at(&link, {"stats64", "rx", "bytes"}));
      // Both ends are up: said at once, other than by "operstate".
      if (const Json* flags = link.find("flags"))
        for (const auto& flag : flags->items()) one.up |= flag.text() == "LOWER_UP";
      if (const Json* addresses = link.find("addr_info"))
        for (const auto& address : addresses->items())
          if (const Json* local = address.find("local")) one.addresses.push_back(local->text());
    }
  if (const auto queues = Json::read(call_or_throw({"tc", "-n", name, "-s", "-j", "qdisc"}));
      queues && queues->is_array())
    for (const auto& queue : queues->items())
      if (const Json* device = queue.find("dev")) all[device->text()].dropped += number(queue.find("drops"));
  return all;
}

}  // namespace

Json state(const Plan& plan, const Made& made) {
  auto loss = Json::object();
  for (const auto& [nic, share] : plan.loss) loss[std::to_string(nic)] = share;
  Json json{{"name", made.set},
            {"scenario", made.scenario},
            {"topology", plan.topology},
            {"scale", plan.scale},
            {"set", Json(made.changes)},
            {"efficiency", plan.efficiency},
            {"ranks_per_host", plan.slots},
            {"routed", plan.routed},
            {"loss", std::move(loss)},
            {"digest", digest(plan)}};
  auto hosts = Json::array(), switches = Json::array(), links = Json::array();
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const auto& place = plan.places[i];
    Json one{{"name", place.name}, {"namespace", namespace_of(made.set, place.name)}};
    if (!place.host) {
      switches.push_back(std::move(one));
      continue;
    }
    auto addresses = Json::array();
    for (std::int64_t nic = 0; nic < plan.nics; ++nic) addresses.push_back(address(i, nic));
    one["addresses"] = std::move(addresses);
    hosts.push_back(std::move(one));
  }
  for (const auto& cable : plan.cables)
    links.push_back(Json{{"from", plan.places[cable.a.place].name},
                         {"interface", cable.a.interface},
                         {"to", plan.places[cable.b.place].name},
                         {"to_interface", cable.b.interface},
                         {"rate_bytes_per_s", cable.rate.value()},
                         {"left", cable.left},
                         {"stream_bytes_per_s", cable.rate.value() * cable.left * plan.efficiency},
                         {"shaped_bytes_per_s", plan.wire(cable).value()},
                         {"latency_s", to_seconds(cable.latency)},
                         {"latency_performed", made.netem && cable.latency > Time{}},
                         {"loss", cable.loss},
                         {"address", address(cable)},
                         {"there", cable.there},
                         {"back", cable.back}});
  json["hosts"] = std::move(hosts);
  json["switches"] = std::move(switches);
  json["links"] = std::move(links);
  json["not_performed"] = Json(not_performed(plan, made.netem));
  return json;
}

Json up(const Plan& plan, Made made) {
  launch::HeldSignals signals;
  const auto go_on = [&] {
    if (const auto signal = signals.ending())
      throw backend::Interrupted{*signal, fmt::format("the hosts '{}' were not made", made.set)};
  };
  Sets sets;
  sets.begin(made.set);
  try {
    std::string batch;
    for (const auto& place : plan.places) batch += fmt::format("netns add {}\n", namespace_of(made.set, place.name));
    call_or_throw({"ip", "-batch", "-"}, batch);
    made.netem = has_netem(namespace_of(made.set, plan.places.front().name));
    go_on();
    build(plan, made.set, made.netem);
    go_on();
    sets.put(made.set, "names", names_file(plan));
    sets.put(made.set, "slots", slots_file(plan));
    Json json = state(plan, made);
    sets.put(made.set, "state.json", json.dump(1) + "\n");
    return json;
  } catch (...) {
    sets.remove(made.set);
    throw;
  }
}

bool down(const std::string& set) {
  const launch::HeldSignals signals;
  return Sets().remove(set);
}

Json require(const std::string& set) {
  if (auto state = state_of(set)) return *std::move(state);
  const auto all = sets_up();
  throw UserError(
      fmt::format("no hosts '{}' are up; make them with 'rehearse hosts up SCENARIO'{}", set,
                  all.empty() ? "" : fmt::format(", or name others: --name {}", fmt::join(all, ", --name "))));
}

void require_same(const Json& state, const Plan& plan) {
  if (const Json* made = state.find("digest"); made && made->text() == digest(plan)) return;
  throw UserError(
      fmt::format("the hosts '{}' were made from {} as it was then, with another network than this scenario has now; "
                  "make them again with 'rehearse hosts up', or others beside them with --name",
                  state.find("name")->text(), state.find("scenario")->text()));
}

Json show(const std::string& set) {
  require_rights();
  Json json = require(set);
  std::map<std::string, std::map<std::string, Counted>> by_place;
  for (const char* kind : {"hosts", "switches"})
    for (const auto& place : json.find(kind)->items())
      by_place[place.find("name")->text()] = counters(place.find("namespace")->text());
  auto links = Json::array();
  for (Json link : json.find("links")->items()) {
    const auto& from = by_place[link.find("from")->text()][link.find("interface")->text()];
    const auto& to = by_place[link.find("to")->text()][link.find("to_interface")->text()];
    link["up"] = from.up && to.up;
    link["sent_bytes"] = from.sent, link["received_bytes"] = from.received;
    link["dropped_packets"] = from.dropped + to.dropped;
    link["address_now"] = fmt::format("{}", fmt::join(from.addresses, " "));
    links.push_back(std::move(link));
  }
  json["links"] = std::move(links);
  return json;
}

}  // namespace rehearsal::hosts
