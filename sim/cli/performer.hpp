// Who performs graphs and measures this machine: loopback, MPI, GPUs. The kernels, threads and processes that this
// takes are a module of their own, librehearsal_perform.so (sim/perform), loaded by the first command that asks for it:
// a program that only predicts is built and started without them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cli/output.hpp"

namespace rehearsal::cli {

struct BackendEntry {
  std::string name;
  std::string summary;             // one honest sentence
  bool performs = false;           // for real; the simulator does not
  std::optional<std::string> why;  // this machine cannot use it; nothing = it can
  std::vector<backend::Capability> capabilities;
};
// All there are, also those that are missing here.
std::vector<BackendEntry> backends();

// What `calibrate` is asked for.
struct Calibration {
  std::string backend;
  std::vector<std::string> scenarios;  // whose kernels are measured too; several for a GPU only
  unsigned ranks = 0;                  // 0: the scenarios', else those of the machine
  bool quick = false;
  std::string tier_directory{};  // where the disk is measured; empty: the usual one for files that go away
  std::string part{};            // in a rank that calibrate started: what it was started for
};
// What calibrate tells the ranks that it starts, with their part: last on their command line, no option for users.
inline constexpr const char* kPart = "--part";

class Performer {
 public:
  virtual ~Performer() = default;

  virtual std::vector<BackendEntry> backends() const = 0;

  // A backend that performs. `arguments`: the whole command line without the name of the program, for backends whose
  // ranks are processes (launch/launch.hpp). Throws UserError for a name that does not perform, MachineError "backend
  // mpi unavailable: ...".
  virtual std::unique_ptr<backend::Backend> open(const std::string& name, const Arguments& arguments) const = 0;

  // Those of launch/launch.hpp.
  virtual bool reports(const std::string& backend) const = 0;
  virtual void refuse_crowding(const backend::RunOptions& options, std::size_t here) const = 0;

  virtual bool is_rank() const = 0;  // launch/rank_environment.hpp

  // The command, parsed; `arguments`: all of its own, for ranks that are processes. Returns the exit status.
  virtual int calibrate(const Calibration& what, const Arguments& arguments, const CommonOptions& common) const = 0;
};

// What the entry of the module is called; it hands over a Performer (modules/module.hpp).
inline constexpr const char* kPerformerEntry = "rehearsal_performer";

// Throws MachineError where the module is missing.
const Performer& performer();

}  // namespace rehearsal::cli
