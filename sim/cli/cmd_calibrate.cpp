// rehearse calibrate: parses the request; sim/perform measures, or sim/traces makes a profile of what others measured.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/calibrate_from.hpp"
#include "cli/performer.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCalibrateText{
    .name = "calibrate",
    .operands = "[SCENARIO] --backend loopback|mpi|cuda [OPTIONS] | [SCENARIO] --from FILE...",
    .summary =
        "Measures this machine: this program's kernels with all ranks at once, messages, collectives, timers, noise, "
        "and what lies beside: copies in memory, an optimizer on the host, a disk. Writes a profile, from which "
        "scenarios on the cluster 'this-machine' are predicted afterwards. With --from, logs of real runs say how fast "
        "a machine is that is not at hand.",
    .more =
        "With SCENARIO its own kernel shapes are measured too, on as much memory as it uses; a shape that was "
        "measured is predicted by its median, any other by a fit. The profile goes to this-machine-BACKEND.yaml in "
        "$REHEARSAL_PROFILES, else in ~/.config/rehearsal; --output names another file. Takes about half a minute; "
        "best on a machine that does nothing else. The disk is that of --tier-directory, else of $TMPDIR, else of "
        "/tmp; 64 MiB of it are taken for some seconds. With --backend cuda it is the GPU that is measured: about "
        "three minutes, of which --quick leaves one. The profile goes to configs/profiles and is named after the "
        "GPU; clusters take it as 'profile: NAME'. With a scenario of several ranks, or --ranks, the GPU is measured "
        "as that many virtual stages; several scenarios may be named.\n"
        "With --from nothing is measured. SCENARIO is then that of logs that do not begin with their arguments. Of "
        "logs, "
        "factors of the machine (the clock at which its GPUs train, what its "
        "NICs and links reach, how "
        "long its hosts launch) are fitted to the steps of logs, as many as these determine. The result is a cluster "
        "file, which a scenario names as its cluster; what was fitted within which interval, and what was not, goes to "
        "standard error. Of traces (JSON of PyTorch's profiler, .sqlite of Nsight Systems), the profile of a GPU is "
        "made of their matrix products, attention and memory-bound kernels with known shapes (record_shapes=True), of "
        "the gap between kernels, and of collectives where all ranks of a group have a trace.",
    .example =
        "  rehearse calibrate --backend loopback --quick --output /dev/null\n"
        "  rehearse calibrate --backend mpi scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml\n"
        "  rehearse calibrate --backend cuda --quick --output gpu.yaml\n"
        "  rehearse calibrate --from tests/traces/qwen1.5_h100.json.gz --output traced.yaml",
    .takes_set = true};

}  // namespace

int run_calibrate(Session& session, const Arguments& arguments) {
  Calibration what;
  LogOptions from;
  std::string collectives;
  const OptionList own{{"backend", "NAME", "whose messages: loopback or mpi; or the GPU of cuda", &what.backend},
                       {"ranks", "N", "ranks at once (the scenario's, else one per core)", &what.ranks},
                       {"collectives",
                        "HOW",
                        "own: by their own steps, as 'measure' performs them; library: as MPI does (default: own)",
                        &collectives,
                        false,
                        {"own", "library"}},
                       {"quick", "", "fewer shapes: less than ten seconds", &what.quick},
                       {"tier-directory", "DIR", "whose disk is measured ($TMPDIR, else /tmp)", &what.tier_directory},
                       {"from", "FILE...", "logs or traces of real runs, in place of measuring", &from.logs, true},
                       {"cluster", "NAME", "of logs that say what the run was: the machine", &from.cluster},
                       {"world", "N", "of these logs: GPUs, where a log does not say it", &from.world}};
  CommonOptions common(session);
  Arguments given = arguments;
  if (given.size() >= 2 && given[given.size() - 2] == kPart && performer().is_rank())
    what.part = given.back(), given.resize(given.size() - 2);
  const auto line = parse(kCalibrateText, own, given, common);
  if (!line) return 0;
  if (!from.logs.empty()) {
    for (const auto* other : {"backend", "ranks", "collectives", "quick", "tier-directory"})
      if (line->has(other))
        throw UserError(fmt::format("calibrate --from measures nothing: --{} has no effect", other));
    return calibrate_from(common, from,
                          line->operands.empty() ? "" : one_operand(kCalibrateText, *line, "a scenario file"));
  }
  what.scenarios = line->operands;
  if (what.backend.empty())
    throw UserError("calibrate: name the backend: --backend loopback, --backend mpi, or --backend cuda");
  if (what.scenarios.size() > 1 && what.backend != "cuda") throw UserError("calibrate: takes one scenario at most");
  if (line->has("ranks") && (what.ranks < 1 || what.ranks > 1024))
    throw UserError("calibrate: --ranks must be a whole number from 1 to 1024");
  if (line->has("collectives") && what.backend == "cuda")
    throw UserError("calibrate: --collectives is for loopback and mpi: collectives of one GPU are not measured");
  if (collectives == "library") what.collectives = backend::Collectives::library;
  if (line->has("tier-directory") && what.backend == "cuda")
    throw UserError("calibrate: --tier-directory names a disk, and --backend cuda measures a GPU");
  return performer().calibrate(what, arguments, common);
}

}  // namespace rehearsal::cli
