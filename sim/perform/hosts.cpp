#include "perform/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cluster/registry.hpp"
#include "hosts/hosts.hpp"
#include "hosts/sets.hpp"
#include "launch/launcher.hpp"
#include "page/layout.hpp"

namespace rehearsal::perform {
namespace {

using cli::HostsRequest;

// In bits, as rates of NICs are; exact to a thousandth.
std::string rate_text(double bytes_per_s, const char* space = " ") {
  const double megabits = bytes_per_s * 8 / 1e6;
  if (megabits >= 1000) return fmt::format("{:.6g}{}Gb/s", megabits / 1000, space);
  return fmt::format("{:.6g}{}Mb/s", megabits, space);
}

// What --set must say for the cluster whose rates are divided.
std::vector<std::string> changes(const cluster::ClusterSpec& spec, double scale) {
  std::vector<std::string> all;
  if (scale == 1) return all;
  const auto divided = [&](const char* key, Bandwidth rate) {
    if (rate.value() > 0) all.push_back(fmt::format("cluster.links.{}={}B/s", key, std::llround(rate.value() / scale)));
  };
  divided("scale_out.bandwidth", spec.nic);
  if (spec.gpus_per_node == 1) return all;
  divided("scale_up.bandwidth", spec.nvlink);
  divided("scale_up.p2p_bandwidth", spec.nvlink_message);
  divided("scale_up.sharded_p2p_gather_bandwidth", spec.nvlink_gather);
  if (spec.nvlink_uncut) divided("scale_up.uncut_bandwidth", *spec.nvlink_uncut);
  return all;
}

hosts::Plan plan_of(const HostsRequest& request, double scale) {
  const auto& scenario = *request.loaded;
  if (!scenario.concrete)
    throw UserError(
        fmt::format("{} gives times and no cluster; hosts are made of the section 'cluster'", request.scenario));
  const auto& [spec, framework] = std::tie(scenario.concrete->cluster, scenario.concrete->framework);
  return hosts::plan(
      cluster::Machine(spec), scenario.faults,
      {.scale = scale, .efficiency = spec.nic_efficiency * spec.fabric * framework.nic_share, .loss = request.loss});
}

bool is_true(const Json& json) { return json.dump() == "true"; }

// Known of links as they are now.
bool has_other_address(const Json& link) {
  const Json* now = link.find("address_now");
  return now && now->text() != link.find("address")->text();
}

std::string link_state(const Json& link) {
  if (link.find("left")->real() == 0) return "down";
  if (const Json* up = link.find("up"); up && !is_true(*up)) return "down now";
  if (has_other_address(link)) return "other address";
  std::string state;
  if (const double left = link.find("left")->real(); left < 1) state = fmt::format("{:g} of its rate", left);
  if (const double loss = link.find("loss")->real(); loss > 0)
    state += fmt::format("{}loses {:g} %", state.empty() ? "" : ", ", loss * 100);
  return state.empty() ? "ok" : state;
}

std::string text(const Json& state, const page::TextStyle& style) {
  const page::Paint paint{style.color};
  const auto& name = state.find("name")->text();
  const auto& all = state.find("hosts")->items();
  const double scale = state.find("scale")->real();
  std::string out =
      fmt::format("{} {} hosts from {} ({}), {} {} on each\n", paint.bold("hosts " + name + ":"), all.size(),
                  state.find("scenario")->text(), state.find("topology")->text(), state.find("ranks_per_host")->real(),
                  state.find("ranks_per_host")->real() == 1 ? "rank" : "ranks");
  if (scale == 1) {
    out += "Rates are those of the scenario.\n";
  } else {
    out += fmt::format("Rates are those of the scenario divided by {:g}. The scaled cluster is\n", scale);
    for (const auto& change : state.find("set")->items()) out += "  --set " + change.text() + "\n";
  }
  out += "\n";
  const bool counted = state.find("links")->items().front().find("sent_bytes") != nullptr;
  std::vector<std::vector<std::string>> rows{{"link", "between", "rate", "a stream", "latency", "state"}};
  if (counted) rows[0].insert(rows[0].end() - 1, {"sent", "received", "dropped"});
  for (const auto& link : state.find("links")->items()) {
    const auto real = [&](const char* key) { return link.find(key)->real(); };
    const bool delayed = is_true(*link.find("latency_performed"));
    std::vector<std::string> row{fmt::format("{} {}", link.find("from")->text(), link.find("interface")->text()),
                                 fmt::format("{} {}", link.find("to")->text(), link.find("to_interface")->text()),
                                 rate_text(real("rate_bytes_per_s")), rate_text(real("stream_bytes_per_s")),
                                 delayed ? show(seconds(real("latency_s"))) : "-"};
    if (counted) {
      for (const char* key : {"sent_bytes", "received_bytes"}) row.push_back(show(bytes(real(key))));
      row.push_back(fmt::format("{:.0f}", real("dropped_packets")));
    }
    row.push_back(link_state(link));
    rows.push_back(std::move(row));
  }
  out += page::table(rows, paint, style.width, {true, true, false, false, false});
  std::vector<std::string> notes;
  for (const auto& note : state.find("not_performed")->items()) notes.push_back(note.text());
  if (is_true(*state.find("routed")))
    notes.emplace_back("switches form rings here and so route; flows of all GPUs of a NIC take the way of its first");
  out += page::notes("Notes", notes, style.width, paint);
  out += fmt::format("\nEnter a host with: ip netns exec {} COMMAND\n", all.front().find("namespace")->text());
  return page::fit(out, style.width);
}

std::string csv(const Json& state) {
  std::string out;
  for (const auto& link : state.find("links")->items()) {
    std::vector<std::string> heading, row;
    for (const auto& [key, value] : link.members()) {
      heading.push_back(key);
      row.push_back(value.is_string() ? value.text() : value.dump());
    }
    if (out.empty()) out = page::csv_line(heading);
    out += page::csv_line(row);
  }
  return out;
}

void emit(const Json& state, const cli::CommonOptions& common) {
  cli::emit_report(common, {.text = [&] { return text(state, cli::text_style(common)); },
                            .json = [&] { return state.dump(2) + "\n"; },
                            .csv = [&] { return csv(state); }});
}

double scale_of(const Json& state) { return state.find("scale")->real(); }

std::vector<std::string> changes_of(const Json& state) {
  std::vector<std::string> all;
  for (const auto& change : state.find("set")->items()) all.push_back(change.text());
  return all;
}

// The command itself; or measuring the scenario over its hosts, with the options that were given.
std::vector<std::string> words(const HostsRequest& request, const Json& state, const cli::CommonOptions& common) {
  if (!request.command.empty() && !request.command.front().starts_with('-')) {
    if (common.format_given || !common.output.empty())
      throw UserError(
          fmt::format("hosts run: what '{}' writes is its own; give --format and --output behind --, if it has them",
                      request.command.front()));
    return request.command;
  }
  if (!request.loaded)
    throw UserError("hosts run: say what is to run behind --, or give a scenario, which is measured then");
  std::vector<std::string> all{launch::this_program(), "measure", request.scenario, "--backend", "mpi"};
  const auto given = [&](const char* option) {
    return std::any_of(request.command.begin(), request.command.end(), [&](const std::string& word) {
      return word == option || word.starts_with(std::string(option) + "=");
    });
  };
  if (!given("--compute") && !given("--verify")) all.insert(all.end(), {"--compute", "timed"});
  auto sets = common.set;
  for (auto& change : changes_of(state)) sets.push_back(std::move(change));
  for (const auto& set : sets) all.insert(all.end(), {"--set", set});
  constexpr std::array kFormats{"text", "json", "csv"};
  if (common.format_given) all.insert(all.end(), {"--format", kFormats[std::size_t(common.format)]});
  if (!common.output.empty()) all.insert(all.end(), {"--output", common.output});
  if (common.quiet) all.emplace_back("--quiet");
  all.insert(all.end(), request.command.begin(), request.command.end());
  return all;
}

// What is not as `up` made it: links that are down, and addresses, of which two hosts may have the same now.
std::vector<std::string> changed(const Json& state) {
  std::vector<std::string> all;
  for (const auto& link : state.find("links")->items()) {
    const auto end = fmt::format("{} ({})", link.find("from")->text(), link.find("interface")->text());
    if (link.find("left")->real() > 0 && !is_true(*link.find("up")))
      all.push_back(fmt::format("the link of {} to {} is down", end, link.find("to")->text()));
    if (has_other_address(link))
      all.push_back(fmt::format("{} has the address '{}', and was given {}", end, link.find("address_now")->text(),
                                link.find("address")->text()));
  }
  return all;
}

}  // namespace

int hosts(const HostsRequest& request, const cli::CommonOptions& common) {
  using Action = HostsRequest::Action;
  hosts::check_name(request.name);
  switch (request.action) {
    case Action::up: {
      const auto plan = plan_of(request, request.scale);
      const auto described = changes(request.loaded->concrete->cluster, plan.scale);
      if (const auto before = hosts::state_of(request.name))
        cli::warn(common, {fmt::format("the hosts '{}', made from {}, are replaced; --name makes others beside them",
                                       request.name, before->find("scenario")->text())});
      const auto state = hosts::up(plan, {.set = request.name, .scenario = request.scenario, .changes = described});
      try {
        if (request.write_scaled) request.write_scaled(described);
        emit(state, common);
      } catch (...) {  // who does not learn what was made does not use it
        hosts::down(request.name);
        throw;
      }
      return 0;
    }
    case Action::down: {
      const bool any = hosts::down(request.name);
      const Json said{{"name", request.name}, {"removed", any}};
      cli::emit_report(
          common,
          {.text = [&] { return fmt::format("hosts {}: {}\n", request.name, any ? "removed" : "none were there"); },
           .json = [&] { return said.dump(2) + "\n"; },
           .csv =
               [&] {
                 return page::csv_line({"name", "removed"}) + page::csv_line({request.name, any ? "yes" : "no"});
               }});
      return 0;
    }
    case Action::show:
    case Action::run: {
      const auto state = request.action == Action::show ? hosts::show(request.name) : hosts::require(request.name);
      auto same = request;
      if (request.loaded) {
        for (const auto& [nic, share] : state.find("loss")->members()) same.loss[std::stoll(nic)] = share.real();
        hosts::require_same(state, plan_of(same, scale_of(state)));
        if (request.write_scaled) request.write_scaled(changes_of(state));
      }
      if (request.action == Action::run) {
        const int status = hosts::run(request.name, {words(request, state, common), request.every_rank});
        if (status != 0) cli::warn(common, changed(hosts::show(request.name)));
        return status;
      }
      emit(state, common);
      return 0;
    }
  }
  return 0;
}

int enter_host(const cli::Arguments& arguments) {
  if (arguments.size() < 2) throw UserError("hosts enter: name a set and a host");
  hosts::check_name(arguments[0]);
  hosts::enter(arguments[0], arguments[1], {arguments.begin() + 2, arguments.end()});
}

cli::HostLinks host_links() {
  const char* set = std::getenv("REHEARSAL_HOSTS");
  if (!set) return {};
  cli::HostLinks all;
  const auto state = hosts::show(set);
  for (const auto& link : state.find("links")->items()) {
    const double rate = link.find("rate_bytes_per_s")->real();
    all[link.find("there")->text()] = {link.find("sent_bytes")->real(), rate};
    all[link.find("back")->text()] = {link.find("received_bytes")->real(), rate};
  }
  return all;
}

}  // namespace rehearsal::perform
