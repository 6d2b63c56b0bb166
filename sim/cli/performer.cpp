#include "cli/performer.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "engine/sim.hpp"
#include "modules/module.hpp"

namespace rehearsal::cli {
namespace {

std::unique_ptr<Performer> load() {
  try {
    return std::unique_ptr<Performer>(static_cast<Performer*>(modules::open_module("perform", kPerformerEntry)));
  } catch (const MachineError& why) {
    throw MachineError(fmt::format(
        "what performs and measures is a part of its own that could not be loaded: {}. 'tools/rehearse measure' builds "
        "it, and so does 'cmake --build' with the target 'all_modules'",
        why.what()));
  }
}

}  // namespace

const Performer& performer() {
  static const std::unique_ptr<Performer> loaded = load();  // stays loaded until the process ends
  return *loaded;
}

std::vector<BackendEntry> backends() {
  const auto sim = engine::make_sim();
  std::vector<BackendEntry> all{{sim->name(), sim->summary(), false, std::nullopt, sim->capabilities()}};
  try {
    for (auto& entry : performer().backends()) all.push_back(std::move(entry));
  } catch (const MachineError& why) {
    for (const char* name : {"loopback", "mpi", "cuda"})
      all.push_back({name, "Performs the graph.", true, why.what(), {}});
  }
  return all;
}

}  // namespace rehearsal::cli
