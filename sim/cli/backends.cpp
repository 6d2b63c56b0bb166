#include "cli/backends.hpp"

#include <fmt/format.h>

#include "backend/module.hpp"
#include "base/error.hpp"
#include "base/spelling.hpp"
#include "engine/sim.hpp"
#include "launch/launch.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal::cli {
namespace {

constexpr const char* kNoCuda = "it is not written yet";

BackendEntry entry(const backend::Backend& backend, bool performs) {
  return {backend.name(), backend.summary(), performs, std::nullopt, backend.capabilities()};
}

BackendEntry mpi() {
  if (const auto why = launch::why_unavailable("mpi"))
    return {"mpi", "Performs the graph with one MPI process per rank.", true, why, {}};
  return entry(*backend::load_backend("mpi"), true);
}

}  // namespace

std::vector<BackendEntry> backends() {
  return {entry(*engine::make_sim(), false),
          entry(*loopback::make_loopback(), true),
          mpi(),
          {"cuda", "Will perform the graph on NVIDIA GPUs, with cuBLAS and NCCL.", true, kNoCuda, {}}};
}

std::unique_ptr<backend::Backend> open_backend(const std::string& name, const Arguments& arguments) {
  if (name == "loopback") return loopback::make_loopback();
  if (name == "mpi") return launch::open(name, arguments);
  if (name == "cuda") throw MachineError(fmt::format("backend cuda unavailable: {}", kNoCuda));
  if (name == "sim") throw UserError("--backend sim only predicts: that is 'rehearse run'; loopback and mpi perform");
  throw UserError(fmt::format("--backend is '{}'{}", name, suggestion(name, {"loopback", "mpi", "cuda"})));
}

}  // namespace rehearsal::cli
