// rehearse calibrate: parses the request; sim/perform measures.
#include "base/error.hpp"
#include "cli/performer.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCalibrateText{
    .name = "calibrate",
    .operands = "[SCENARIO] --backend loopback|mpi|cuda [OPTIONS]",
    .summary =
        "Measures this machine: this program's kernels with all ranks at once, messages, collectives, timers, noise,\n"
        "and what lies beside: copies in memory, an optimizer on the host, a disk.\n"
        "Writes a profile, from which scenarios on the cluster 'this-machine' are predicted afterwards.",
    .more =
        "With SCENARIO its own kernel shapes are measured too, on as much memory as it uses; a shape that was "
        "measured\n"
        "is predicted by its median, any other by a fit. The profile goes to this-machine-BACKEND.yaml in\n"
        "$REHEARSAL_PROFILES, else in ~/.config/rehearsal; --output names another file. Takes about half a minute;\n"
        "best on a machine that does nothing else.\n"
        "The disk is that of --tier-directory, else of $TMPDIR, else of /tmp; 64 MiB of it are taken for some "
        "seconds.\n"
        "With --backend cuda it is the GPU that is measured: about three minutes, of which --quick leaves one. The "
        "profile\n"
        "goes to configs/profiles and is named after the GPU; clusters take it as 'profile: NAME'. With a scenario of "
        "several\n"
        "ranks, or --ranks, the GPU is measured as that many virtual stages; several scenarios may be named.",
    .example =
        "  rehearse calibrate --backend loopback --quick --output /dev/null\n"
        "  rehearse calibrate --backend mpi scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml\n"
        "  rehearse calibrate --backend cuda --quick --output gpu.yaml",
    .takes_set = true};

}  // namespace

int run_calibrate(Session& session, const Arguments& arguments) {
  Calibration what;
  const OptionList own{{"backend", "NAME", "whose messages: loopback or mpi; or the GPU of cuda", &what.backend},
                       {"ranks", "N", "ranks at once (the scenario's, else one per core)", &what.ranks},
                       {"quick", "", "fewer shapes: less than ten seconds", &what.quick},
                       {"tier-directory", "DIR", "whose disk is measured ($TMPDIR, else /tmp)", &what.tier_directory}};
  CommonOptions common(session);
  Arguments given = arguments;
  if (given.size() >= 2 && given[given.size() - 2] == kPart && performer().is_rank())
    what.part = given.back(), given.resize(given.size() - 2);
  const auto line = parse(kCalibrateText, own, given, common);
  if (!line) return 0;
  what.scenarios = line->operands;
  if (what.backend.empty())
    throw UserError("calibrate: name the backend: --backend loopback, --backend mpi, or --backend cuda");
  if (what.scenarios.size() > 1 && what.backend != "cuda") throw UserError("calibrate: takes one scenario at most");
  if (line->has("ranks") && (what.ranks < 1 || what.ranks > 1024))
    throw UserError("calibrate: --ranks must be a whole number from 1 to 1024");
  if (line->has("tier-directory") && what.backend == "cuda")
    throw UserError("calibrate: --tier-directory names a disk, and --backend cuda measures a GPU");
  return performer().calibrate(what, arguments, common);
}

}  // namespace rehearsal::cli
