// How fast does the simulator go through a 1F1B grid of p stages and m micro-batches, and how large is its graph?
//
//   engine_bench [p] [m] [repeats]        default 256 2048 3; appends to tools/bench/results/engine.csv
//
// The peer (peer/replay_bench.cpp) runs the same grid, with the same durations, in the same session: its 2pm tasks are
// F and B, and messages are delays on edges. Here every message is a task on either side too: 2pm + 4(p-1)m tasks.
// Rates are tasks per second of CPU time, best of the repeats, each counting its own tasks; both makespans must agree.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/sim.hpp"
#include "first_line.hpp"
#include "graph/builder.hpp"

namespace {

using namespace rehearsal;
using graph::EndpointKind;
using graph::Lane;
using graph::Pass;

constexpr std::int64_t kHop = 5'000'000;  // ps; the peer's delay between stages

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// The peer's durations: 1 ms and 2 ms with up to 2 % of noise, from the finaliser of MurmurHash3.
std::uint32_t noise(std::uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<std::uint32_t>(x ^ x >> 33);
}
Time forward_time(std::uint64_t stage, std::uint64_t m) {
  return Time((1'000'000 + noise(stage << 32 | m) % 20000) * std::int64_t{1000});
}
Time backward_time(std::uint64_t stage, std::uint64_t m) {
  return Time((2'000'000 + noise((stage << 32 | m) ^ 0x9e3779b97f4a7c15ULL) % 40000) * std::int64_t{1000});
}

// One stage: warm-up forwards, then one forward and one backward in turn. Receive before and send after each.
class Stage {
 public:
  Stage(graph::GraphBuilder& graph, std::uint16_t stage, std::uint32_t p, WorkId message, WorkId receive)
      : graph_(graph), program_("stage"), stage_(stage), message_(message), receive_(receive) {
    if (stage > 0) {
      from_below = program_.endpoint(EndpointKind::receive);
      to_below = program_.endpoint(EndpointKind::send);
    }
    if (stage + 1u < p) {
      from_above = program_.endpoint(EndpointKind::receive);
      to_above = program_.endpoint(EndpointKind::send);
    }
    has_below_ = stage > 0, has_above_ = stage + 1u < p;
  }
  void forward(std::uint32_t m) {
    action(Pass::forward, m, forward_time(stage_, m), has_below_, from_below, has_above_, to_above);
  }
  void backward(std::uint32_t m) {
    action(Pass::backward, m, backward_time(stage_, m), has_above_, from_above, has_below_, to_below);
  }
  graph::Program finish() && { return std::move(program_).finish(); }

  graph::EndpointId from_below, to_below, from_above, to_above;

 private:
  void action(Pass pass, std::uint32_t m, Time time, bool receives, graph::EndpointId in, bool sends,
              graph::EndpointId out) {
    const graph::Coordinates at{pass, stage_, graph::kNoLayer, m};
    std::vector<LocalTask> after;
    if (receives) after.push_back(program_.add({receive_, Lane::receive, at, in.value, {}}));
    const LocalTask done =
        program_.add({graph_.intern(graph::FixedDelay{time}), Lane::compute, at, graph::kNoEndpoint, {}}, after);
    if (sends) program_.add({message_, Lane::send, at, out.value, {}}, std::span(&done, 1));
  }

  graph::GraphBuilder& graph_;
  graph::ProgramBuilder program_;
  std::uint16_t stage_;
  WorkId message_, receive_;
  bool has_below_ = false, has_above_ = false;
};

graph::TaskGraph one_f_one_b(std::uint32_t p, std::uint32_t m) {
  graph::GraphBuilder graph;
  const WorkId message = graph.intern(graph::Message{.size = Bytes(1), .gathered = {}});
  const WorkId receive = graph.intern(graph::Receive{});
  std::vector<RankId> ranks;
  std::vector<std::array<graph::EndpointId, 4>> ends;
  for (std::uint32_t s = 0; s < p; ++s) {
    Stage stage(graph, static_cast<std::uint16_t>(s), p, message, receive);
    const std::uint32_t warmup = std::min(p - s - 1, m);
    for (std::uint32_t i = 0; i < warmup; ++i) stage.forward(i);
    for (std::uint32_t i = 0; i < m; ++i) {
      if (i + warmup < m) stage.forward(i + warmup);
      stage.backward(i);
    }
    ends.push_back({stage.from_below, stage.to_below, stage.from_above, stage.to_above});
    ranks.push_back(graph.add_rank(graph.add(std::move(stage).finish())));
  }
  for (std::uint32_t s = 0; s + 1 < p; ++s) {
    graph.connect(ranks[s], ends[s][3], ranks[s + 1], ends[s + 1][0]);
    graph.connect(ranks[s + 1], ends[s + 1][1], ranks[s], ends[s][2]);
  }
  return std::move(graph).finish();
}

struct Row {
  std::string name;
  double tasks = 0, seconds = 0, ratio = 0;
  long long makespan = 0;
  double rate() const { return tasks / seconds; }
};

// Runs the peer and reads its rows: "name  S s  N ns/task  R M/s  makespan_ps=M". Only those of this comparison.
std::vector<Row> run_peer(std::uint32_t p, std::uint32_t m, int repeats) {
  const std::string command = fmt::format("{} {} {} {}", PEER_BINARY, p, m, repeats);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw MachineError("cannot start " + command);
  std::vector<Row> rows;
  char line[512];
  while (std::fgets(line, sizeof line, pipe.get())) {
    const std::string text = line;
    if (text.rfind("hold model", 0) == 0) break;
    const auto at = text.find("makespan_ps="), time_end = text.rfind(" s ", text.find("ns/task"));
    if (at == std::string::npos || text.find("replicas") != std::string::npos) continue;
    const auto time = text.rfind(' ', time_end - 1);
    Row row{"peer " + text.substr(0, time), 2. * p * m, std::atof(text.substr(time).c_str()), 0,
            std::atoll(text.c_str() + at + 12)};
    row.name.erase(row.name.find_last_not_of(' ') + 1);
    rows.push_back(row);
  }
  return rows;
}

void append_csv(const std::vector<Row>& rows) {
  std::ifstream existing(RESULTS);
  const bool fresh = !existing.good();
  std::ofstream out(RESULTS, std::ios::app);
  if (fresh) out << "date,cpu,commit,name,tasks,seconds,tasks_per_s,ratio\n";
  const std::string date = first_line_of("date +%F");
  const std::string cpu = first_line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo");
  const std::string commit = first_line_of("git rev-parse --short HEAD 2>/dev/null");
  for (const Row& row : rows)
    out << fmt::format("{},{},{},\"{}\",{:.0f},{:.4f},{:.4g},{:.3f}\n", date, cpu, commit, row.name, row.tasks,
                       row.seconds, row.rate(), row.ratio);
}

Row measure(const std::string& name, const std::string& engine, backend::Session& session,
            std::span<const Time> durations, double tasks, int repeats) {
  Row row{name, tasks, 1e30, 0, 0};
  for (int i = 0; i < repeats; ++i) {
    backend::RunOptions options;
    options.durations = durations;
    options.engine = engine;
    const double before = cpu_seconds();
    const timeline::Timeline timeline = session.run(options);
    row.seconds = std::min(row.seconds, cpu_seconds() - before);
    row.makespan = timeline.makespan().count();
  }
  return row;
}

// The fastest of the peer's rows that begin with "peer " + prefix.
const Row& best(const std::vector<Row>& peer, const std::string& prefix) {
  const Row* found = nullptr;
  for (const Row& row : peer)
    if (row.name.rfind("peer " + prefix, 0) == 0 && (!found || row.rate() > found->rate())) found = &row;
  INVARIANT(found, "no row of the peer begins with " + prefix);
  return *found;
}

int run(std::uint32_t p, std::uint32_t m, int repeats) {
  const std::vector<Row> peer = run_peer(p, m, repeats);

  double before = cpu_seconds();
  const graph::TaskGraph graph = one_f_one_b(p, m);
  const double build = cpu_seconds() - before;
  std::vector<Time> durations;
  for (const graph::Work& work : graph.works()) {
    const auto* wait = std::get_if<graph::FixedDelay>(&work);
    durations.push_back(wait ? wait->duration : std::holds_alternative<graph::Message>(work) ? Time(kHop) : Time{});
  }
  const auto sim = engine::make_sim();
  before = cpu_seconds();
  const auto session = sim->prepare(graph);
  const double prepare = cpu_seconds() - before;
  const auto tasks = double(graph.tasks());
  Row replay = measure("sim replay", "replay", *session, durations, tasks, repeats);
  Row events = measure("sim events", "events", *session, durations, tasks, repeats);
  replay.ratio = replay.rate() / best(peer, "C").rate();
  events.ratio = events.rate() / best(peer, "D").rate();

  std::vector<Row> rows = peer;
  rows.insert(rows.end(), {{"sim build", tasks, build, 0, 0}, {"sim prepare", tasks, prepare, 0, 0}, replay, events});
  fmt::print("1F1B, p = {}, m = {}: {} actions; graph of {:.0f} tasks, {} works, {:.1f} bytes per task\n", p, m,
             2ULL * p * m, tasks, graph.works().size(), double(graph.bytes()) / tasks);
  for (const Row& row : rows)
    fmt::print("{:60} {:8.3f} s {:8.2f} ns/task {:8.1f} M tasks/s {}\n", row.name, row.seconds,
               row.seconds / row.tasks * 1e9, row.rate() / 1e6,
               row.ratio > 0 ? fmt::format("ratio {:.2f}", row.ratio) : "");
  fmt::print("ratio of replay: to the best Kahn order of the peer (C); of events: to its best event queue (D)\n");
  append_csv(rows);

  const long long expected = best(peer, "D").makespan;
  if (replay.makespan == expected && events.makespan == expected) return 0;
  fmt::print(stderr, "makespans differ: peer {}, replay {}, events {}\n", expected, replay.makespan, events.makespan);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  try {
    return run(static_cast<std::uint32_t>(argument(1, 256)), static_cast<std::uint32_t>(argument(2, 2048)),
               argument(3, 3));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 70;
  }
}
