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

BackendEntry entry(const backend::Backend& backend, bool performs) {
  return {backend.name(), backend.summary(), performs, std::nullopt, backend.capabilities()};
}

BackendEntry mpi() {
  if (const auto why = launch::why_unavailable("mpi"))
    return {"mpi", "Performs the graph with one MPI process per rank.", true, why, {}};
  return entry(*backend::load_backend("mpi"), true);
}

BackendEntry cuda() {
  if (const auto why = backend::why_unavailable("cuda"))
    return {"cuda", "Performs the graph on NVIDIA GPUs, with cuBLAS and NCCL.", true, why, {}};
  return entry(*backend::load_backend("cuda"), true);
}

}  // namespace

std::vector<BackendEntry> backends() {
  return {entry(*engine::make_sim(), false), entry(*loopback::make_loopback(), true), mpi(), cuda()};
}

std::unique_ptr<backend::Backend> open_backend(const std::string& name, const Arguments& arguments) {
  if (name == "loopback") return loopback::make_loopback();
  if (name == "mpi") return launch::open(name, arguments);
  if (name == "cuda")  // a GPU for each rank, or all ranks on one
    return launch::open(name, arguments, [](std::size_t ranks) {
      return ranks > 1 && backend::load_backend("cuda")->devices() >= ranks;
    });
  if (name == "sim")
    throw UserError("--backend sim only predicts: that is 'rehearse run'; loopback, mpi and cuda perform");
  throw UserError(fmt::format("--backend is '{}'{}", name, suggestion(name, {"loopback", "mpi", "cuda"})));
}

}  // namespace rehearsal::cli
