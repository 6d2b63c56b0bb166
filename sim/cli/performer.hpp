// The interface to hardware backends, which perform graphs and measure this machine: loopback, MPI, GPUs. Their
// kernels, threads and processes are in a separate module, librehearsal_perform.so (sim/perform), loaded by the first
// command that needs it: a program that only predicts is built and started without it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cli/output.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::cli {

struct BackendEntry {
  std::string name;
  std::string summary;             // one sentence
  bool performs = false;           // on real hardware; false for the simulator
  std::optional<std::string> why;  // why this machine cannot use it; nothing = it can
  std::vector<backend::Capability> capabilities;
};
// All backends, including those unavailable here.
std::vector<BackendEntry> backends();

// The request of `calibrate`.
struct Calibration {
  std::string backend;
  std::vector<std::string> scenarios;  // whose kernels are measured too; several only for a GPU
  unsigned ranks = 0;                  // 0: as in the scenarios, otherwise as on the machine
  bool quick = false;
  backend::Collectives collectives = backend::Collectives::own;
  std::string tier_directory{};  // where the disk is measured; empty: the default folder for temporary files
  std::string part{};            // in a rank started by calibrate: its task
};
// How calibrate passes the task to the ranks that it starts: last on their command line; not a user option.
inline constexpr const char* kPart = "--part";

// The request of `hosts`, as far as the command line says it.
struct HostsRequest {
  enum class Action : std::uint8_t { up, show, run, down };
  Action action = Action::up;
  std::string name;                            // of the set
  std::string scenario;                        // its file; empty: not given
  const scenario::Scenario* loaded = nullptr;  // where it is given
  double scale = 0;                            // 0: chosen
  std::map<std::int64_t, double> loss{};       // by NIC
  std::vector<std::string> command{};          // of run; empty: measure the scenario
  bool every_rank = false;
  std::function<void(const std::vector<std::string>& changes)>
      write_scaled{};  // with what describes the scaled cluster
};
// What mpirun calls in the place of ssh, first behind `hosts`; not a user option.
inline constexpr const char* kEnterHost = "enter";

// One way of a link between hosts: what the kernel has counted on it until now, and its rate in bytes a second.
struct HostLink {
  double bytes = 0, rate = 0;
};
using HostLinks = std::map<std::string, HostLink>;

class Performer {
 public:
  virtual ~Performer() = default;

  virtual std::vector<BackendEntry> backends() const = 0;

  // A backend that performs. `arguments`: the whole command line without the program's name, for backends whose
  // ranks are processes (launch/launch.hpp). Throws UserError for a name that is not such a backend, MachineError
  // "backend mpi unavailable: ...".
  virtual std::unique_ptr<backend::Backend> open(const std::string& name, const Arguments& arguments) const = 0;

  // See launch/launch.hpp.
  virtual bool reports(const std::string& backend) const = 0;
  virtual void refuse_crowding(const backend::RunOptions& options, std::size_t here) const = 0;

  virtual bool is_rank() const = 0;  // see launch/rank_environment.hpp

  // `hosts`: makes, shows, uses and removes hosts on this machine. Both return the exit status.
  virtual int hosts(const HostsRequest& request, const CommonOptions& common) const = 0;
  virtual int enter_host(const Arguments& arguments) const = 0;
  // Inside of `hosts run`: each link, one way, by the name that predictions have for it. Empty elsewhere.
  virtual HostLinks host_links() const = 0;

  // Runs the parsed command; `arguments`: all of its own, for ranks that are processes. Returns the exit status.
  virtual int calibrate(const Calibration& what, const Arguments& arguments, const CommonOptions& common) const = 0;
};

// The name of the module's entry point, which returns a Performer (modules/module.hpp).
inline constexpr const char* kPerformerEntry = "rehearsal_performer";

// Throws MachineError if the module is missing.
const Performer& performer();

}  // namespace rehearsal::cli
