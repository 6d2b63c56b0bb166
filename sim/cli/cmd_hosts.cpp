// rehearse hosts: the nodes of a cluster as hosts of this machine.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/spelling.hpp"
#include "cli/numbers.hpp"
#include "cli/performer.hpp"
#include "scenario/plan_file.hpp"

namespace rehearsal::cli {
namespace {

const std::vector<std::string> kActions{"up", "show", "run", "down"};

const CommandText kHostsText{
    .name = "hosts",
    .operands = "up|show|run|down SCENARIO [OPTIONS] [-- COMMAND]",
    .summary =
        "Makes the nodes of a scenario's cluster on this machine: a network namespace each, with NICs at their rates, "
        "joined by switches as in the topology. What is measured over them is about that cluster, with its rates "
        "divided by --scale.",
    .more =
        "up makes them, show says what has passed each link, down removes them with all that runs on them; show needs "
        "no "
        "scenario, and down takes none. run starts COMMAND on the first host, in an environment in which mpirun starts "
        "ranks "
        "on all of them. Without a command it measures the scenario (--backend mpi --compute timed); what begins "
        "with a dash behind -- are further options of measure.\n"
        "\n"
        "Needs root and iproute2, and changes nothing outside the namespaces it makes. The next call removes what "
        "a killed call left behind. Latency needs sch_netem in the kernel; where it is missing, up says so "
        "(sim/design/hosts.md).",
    .example =
        "  rehearse hosts up tests/hosts/three-hosts.yaml\n"
        "  rehearse hosts run tests/hosts/three-hosts.yaml -- --iterations 5\n"
        "  rehearse hosts run tests/hosts/three-hosts.yaml -- mpirun -n 3 hostname\n"
        "  rehearse hosts run -- rehearse collective all-reduce --ranks 3 --size 8MB --cluster "
        "tests/hosts/three-hosts.yaml --backend mpi\n"
        "  rehearse hosts down",
    .takes_set = true,
    .choices = kActions};

// "3=1%" or "3=0.01": a NIC, and what it loses.
std::pair<std::int64_t, double> loss_of(const std::string& text) {
  const auto equals = text.find('=');
  const std::string nic = text.substr(0, equals);
  std::string share = equals == text.npos ? "" : text.substr(equals + 1);
  const bool percent = share.ends_with('%');
  if (percent) share.pop_back();
  double value = -1;
  try {
    value = parse_number(share) / (percent ? 100 : 1);
  } catch (const UserError&) {  // reported below
  }
  if (!(value >= 0 && value <= 1))
    throw UserError(
        fmt::format("--loss is '{}'; it names a NIC, counted through the cluster, and the share of packets that it "
                    "loses, for example 3=0.1%",
                    printable(text.substr(0, 40))));
  return {static_cast<std::int64_t>(whole_number("--loss", nic, 0, 1'000'000)), value};
}

double scale_of(const std::string& text) {
  double value = 0;
  try {
    value = parse_number(text);
  } catch (const UserError&) {  // reported below
  }
  if (!(value >= 1 && value <= 1e9))
    throw UserError(fmt::format("--scale is '{}'; it is what rates are divided by, a number from 1 to 1e9, such as 400",
                                printable(text.substr(0, 40))));
  return value;
}

HostsRequest::Action action_of(const CommandLine& line) {
  if (line.operands.empty())
    throw UserError("'rehearse hosts' needs one of up, show, run and down; see 'rehearse hosts --help'");
  const auto& word = line.operands.front();
  const auto found = std::find(kActions.begin(), kActions.end(), word);
  if (found == kActions.end())
    throw UserError(fmt::format("'rehearse hosts' has up, show, run and down, found '{}'{}", printable(word),
                                suggestion(word, kActions)));
  return HostsRequest::Action(found - kActions.begin());
}

}  // namespace

int run_hosts(Session& session, const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == kEnterHost)
    return performer().enter_host({arguments.begin() + 1, arguments.end()});
  CommonOptions common(session);
  HostsRequest request;
  request.name = "cluster";
  std::string scale, scaled;
  std::vector<std::string> loss;
  const OptionList own{
      {"name", "NAME", "of the hosts, where there are several sets at once (default cluster)", &request.name},
      {"scale", "F", "up: divide all rates by F (default: so that the fastest link has 1 Gb/s at most)", &scale},
      {"loss", "NIC=SHARE", "up: what a NIC loses on the way out, such as 3=0.1%; repeatable", &loss},
      {"scaled", "FILE", "up, show: write the scenario of the scaled cluster", &scaled},
      {"every-rank", "", "run: start COMMAND once for each rank, on its host, told who it is as torchrun does",
       &request.every_rank}};
  // What follows `--` is the user's command, not ours.
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const auto line = parse(kHostsText, own, Arguments(arguments.begin(), end), common);
  if (!line) return 0;
  if (end != arguments.end()) request.command.assign(end + 1, arguments.end());
  using Action = HostsRequest::Action;
  request.action = action_of(*line);
  if (line->operands.size() > 2)
    throw UserError(fmt::format("'rehearse hosts {}' takes one scenario, found also '{}'{}", line->operands[0],
                                printable(line->operands[2]),
                                request.action == Action::run ? "; a command stands behind --" : ""));
  if (request.action == Action::down && line->operands.size() == 2)
    throw UserError(
        fmt::format("'rehearse hosts down' takes no scenario, found '{}'; it removes the hosts '{}' (--name)",
                    printable(line->operands[1]), printable(request.name)));
  const auto belongs = [&](const char* option, std::initializer_list<Action> to, const char* text) {
    if (line->has(option) && std::find(to.begin(), to.end(), request.action) == to.end())
      throw UserError(fmt::format("--{} belongs to {}", option, text));
  };
  belongs("scale", {Action::up}, "'hosts up'"), belongs("loss", {Action::up}, "'hosts up'");
  belongs("scaled", {Action::up, Action::show}, "'hosts up' and 'hosts show'");
  belongs("every-rank", {Action::run}, "'hosts run'");
  if (end != arguments.end() && request.action != Action::run)
    throw UserError("a command behind -- belongs to 'hosts run'");
  if (request.every_rank && request.command.empty()) throw UserError("--every-rank needs a command behind --");
  if (!scale.empty()) request.scale = scale_of(scale);
  for (const auto& one : loss)
    if (const auto [nic, share] = loss_of(one); !request.loss.emplace(nic, share).second)
      throw UserError(fmt::format("--loss names NIC {} twice", nic));

  std::optional<scenario::Scenario> loaded;
  if (line->operands.size() == 2) {
    request.scenario = line->operands[1];
    loaded = scenario::load(request.scenario, common.set, "", session.files());
    request.loaded = &*loaded;
  } else if (request.action == Action::up) {
    throw UserError("'rehearse hosts up' needs a scenario file, whose cluster is made");
  } else if (!scaled.empty()) {
    throw UserError("--scaled needs the scenario whose cluster is scaled");
  }
  if (!scaled.empty()) {
    AtomicFile::check(session, scaled, "--scaled");
    request.write_scaled = [&](const std::vector<std::string>& changes) {
      auto sets = common.set;
      sets.insert(sets.end(), changes.begin(), changes.end());
      write_file(common, scaled, scenario::standalone(request.scenario, sets, session.files()));
    };
  }
  return performer().hosts(request, common);
}

}  // namespace rehearsal::cli
