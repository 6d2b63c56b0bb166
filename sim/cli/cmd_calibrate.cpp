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
        "Measures this machine: kernels with all ranks at once, messages, collectives, timers, noise, copies in "
        "memory, an optimizer on the host, and a disk. Writes a profile from which scenarios on the cluster "
        "'this-machine' are predicted. With --from, fits a machine to logs or traces of real runs.",
    .more =
        "With SCENARIO, the kernel shapes of that scenario are measured too, on as much memory as it uses. A measured "
        "shape is predicted by its median, any other by a fit. The profile goes to this-machine-BACKEND.yaml in "
        "$REHEARSAL_PROFILES, else in ~/.config/rehearsal; --output names another file. It takes about half a minute, "
        "on a machine that should do nothing else. The disk is that of --tier-directory, else of $TMPDIR, else of "
        "/tmp; 64 MiB of it are used for some seconds.\n\n"
        "--backend cuda measures the GPU, which takes about three minutes, or one with --quick. Its profile goes to "
        "configs/profiles and is named after the GPU; a cluster uses it with 'profile: NAME'. With a scenario of "
        "several ranks, or --ranks, the GPU is measured as that many virtual stages; several scenarios may be "
        "named.\n\n"
        "--from measures nothing. From logs it fits factors of the machine (the clock at which its GPUs train, what "
        "its NICs and links reach, how long its hosts take to launch), as many as the steps determine, and writes a "
        "cluster file. Standard error says what was fitted, within which interval, and what was not. SCENARIO is "
        "needed "
        "for logs that do not begin with their arguments. From traces (JSON of PyTorch's profiler, .sqlite of Nsight "
        "Systems) it makes the profile of a GPU: matrix products, attention and memory-bound kernels with known shapes "
        "(record_shapes=True), the gap between kernels, and collectives if all ranks of a group have a trace.",
    .example =
        "  rehearse calibrate --backend loopback --quick --output /dev/null\n"
        "  rehearse calibrate --backend mpi scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml\n"
        "  rehearse calibrate --backend cuda --quick --output gpu.yaml\n"
        "  rehearse calibrate --from tests/traces/qwen1.5_h100.json.gz --output traced.yaml",
    .takes_set = true,
    .takes_long = true};

}  // namespace

int run_calibrate(Session& session, const Arguments& arguments) {
  Calibration what;
  LogOptions from;
  std::string collectives;
  const OptionList own{
      {"backend", "NAME", "what to measure: loopback (threads), mpi (processes) or cuda (a GPU)", &what.backend},
      {"ranks", "N", "ranks at once (default: the scenario's, else one per core)", &what.ranks},
      {"collectives",
       "HOW",
       "own: step by step, as 'measure' performs them; library: those of MPI (default: own)",
       &collectives,
       false,
       {"own", "library"}},
      {"quick", "", "fewer shapes: less than ten seconds", &what.quick},
      {"tier-directory", "DIR", "a folder on the disk to measure (default: $TMPDIR, else /tmp)", &what.tier_directory},
      {"from", "FILE...", "fit to logs or traces of real runs instead of measuring", &from.logs, true},
      {"cluster", "NAME", "for logs that begin with their arguments: the machine", &from.cluster},
      {"world", "N", "for these logs: number of GPUs, if a log does not say it", &from.world}};
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
