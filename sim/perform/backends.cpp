#include "perform/backends.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "launch/launch.hpp"
#include "loopback/loopback.hpp"
#include "modules/module.hpp"

namespace rehearsal::perform {
namespace {

using cli::BackendEntry;

BackendEntry entry(const backend::Backend& backend) {
  return {backend.name(), backend.summary(), true, std::nullopt, backend.capabilities()};
}

// `summary`: of one that is missing and cannot speak for itself.
BackendEntry module(const char* name, const char* summary) {
  if (const auto why = launch::why_unavailable(name)) return {name, summary, true, why, {}};
  return entry(*modules::load_backend(name));
}

}  // namespace

std::vector<BackendEntry> backends() {
  return {entry(*loopback::make_loopback()), module("mpi", "Performs the graph with one MPI process per rank."),
          module("cuda", "Performs the graph on NVIDIA GPUs, with cuBLAS and NCCL.")};
}

std::unique_ptr<backend::Backend> open_backend(const std::string& name, const cli::Arguments& arguments) {
  if (name == "loopback") return loopback::make_loopback();
  if (name == "mpi") return launch::open(name, arguments);
  if (name == "cuda")  // a GPU for each rank, or all ranks on one
    return launch::open(name, arguments, [](std::size_t ranks) {
      // With the variable also a single rank is a process of its own: the way of many GPUs, tried where there is one.
      const bool apart = ranks > 1 || std::getenv("REHEARSAL_ONE_RANK_APART") != nullptr;
      return apart && modules::load_backend("cuda")->devices() >= ranks;
    });
  if (name == "sim")
    throw UserError("--backend sim only predicts: that is 'rehearse run'; loopback, mpi and cuda perform");
  throw UserError(fmt::format("--backend is '{}'{}", name, suggestion(name, {"loopback", "mpi", "cuda"})));
}

}  // namespace rehearsal::perform
