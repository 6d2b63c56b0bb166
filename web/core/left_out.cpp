// What a page has in place of what REHEARSAL_LEFT_OUT (tools/cmake/browser.cmake) names.
#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/compare_store.hpp"
#include "cli/performer.hpp"
#include "cli/performing.hpp"
#include "engine/sim.hpp"
#include "report/answers.hpp"

namespace rehearsal::cli {
namespace {

[[noreturn]] int elsewhere() {
  throw MachineError(
      "a page in a browser has no disk, no other processes and no hardware to measure; this command is for the program "
      "itself (tools/rehearse)");
}

}  // namespace

int run_sweep(Session&, const Arguments&) { return elsewhere(); }
int run_measure(Session&, const Arguments&) { return elsewhere(); }
int run_validate(Session&, const Arguments&) { return elsewhere(); }
int run_calibrate(Session&, const Arguments&) { return elsewhere(); }
int run_hosts(Session&, const Arguments&) { return elsewhere(); }
int run_completion(Session&, const Arguments&) { return elsewhere(); }

// Of `reshard --backend` and `collective --backend`.
backend::Collectives collectives_asked(const std::string&, const std::string&, backend::Compute) { elsewhere(); }
void check_count(const char*, int, int) { elsewhere(); }
Time timeout_of(const std::string&) { elsewhere(); }
HostLinks host_links(const std::string&) { elsewhere(); }
std::vector<answer::Measured::Link> counted(const HostLinks&, const std::map<std::string, double>&, int) {
  elsewhere();
}
std::unique_ptr<backend::Backend> open_backend(const std::string&, const std::string&, const Arguments&) {
  elsewhere();
}
const Performer& performer() { elsewhere(); }

bool is_store(const std::string&) { return false; }
int show_store(const std::string&, const TableOptions&, const CommonOptions&) { return 0; }

std::vector<BackendEntry> backends() {
  const auto sim = engine::make_sim();
  std::vector<BackendEntry> all{{sim->name(), sim->summary(), false, std::nullopt, sim->capabilities()}};
  for (const char* name : {"loopback", "mpi", "cuda"})
    all.push_back({name, "Performs the graph.", true, "a page in a browser performs nothing", {}});
  return all;
}

}  // namespace rehearsal::cli

namespace rehearsal::explore {

// Asked of what was performed.
std::optional<backend::Collectives> collectives(const std::string&, const backend::RunOptions&) { return {}; }

}  // namespace rehearsal::explore

namespace rehearsal::report {

std::vector<AnswerOf> trace_answers() { return {}; }

}  // namespace rehearsal::report
