// rehearse measure: performs a scenario on real hardware.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/performer.hpp"
#include "cli/performing.hpp"
#include "cli/progress.hpp"
#include "explore/verify.hpp"
#include "report/perfetto.hpp"
#include "report/run_page.hpp"
#include "report/run_report.hpp"
#include "report/safetensors.hpp"
#include "report/timeline_file.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kMeasureText{
    .name = "measure",
    .operands = "SCENARIO --backend NAME",
    .summary =
        "Performs a scenario for real: the task graph that 'run' predicts, rank by rank, and reports what was "
        "measured.",
    .more =
        "--compute real runs this program's own kernels (framework: native), --compute timed lets every task wait "
        "out its predicted time; order, messages and dependencies are real in both. With --verify, --steps take the "
        "place of --warmup and --iterations, and more ranks than cores may compute. Exit status 1 when the training "
        "differs from that of one rank, and with --require-fit when the memory does not suffice.\n"
        "\n"
        "Ranks that are processes are started by this program (mpi: with mpirun), or by a launcher; rank 0 reports:\n"
        "  mpirun -n N rehearse measure ...   srun -n N rehearse measure ...            (mpi, cuda)\n"
        "  torchrun --no-python --nproc-per-node N rehearse measure ...                 (cuda)\n"
        "  RANK=0 WORLD_SIZE=N LOCAL_RANK=0 rehearse measure ...   and so on, by hand   (cuda)\n"
        "The last two need a folder that all ranks see: REHEARSAL_RENDEZVOUS=/path (sim/design/starting-ranks.md).",
    .example =
        "  rehearse measure scenarios/teaching-1f1b-8-stages.yaml --backend loopback --iterations 1 --warmup 0\n"
        "  rehearse measure scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --backend loopback --verify\n"
        "  rehearse measure scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml --backend mpi",
    .takes_set = true,
    .takes_long = true};

// Trains the same model on one rank, in this process.
backend::TrainingResult train_serially(const Performing& performing, const scenario::Scenario& reference,
                                       const CommonOptions& common) {
  const auto serial = answer::prepare(reference);
  const auto backend = performer().open("loopback", {});
  auto options = explore::serial_options(performing.options, performing.what.scenario);
  Progress line(common);
  line.begin("steps of the same on one rank", std::uint64_t(options.iterations));
  options.progress = [&](int ended) { line.done(std::uint64_t(ended)); };
  return explore::perform(serial, *backend, options).trained;
}

struct MeasureOptions {
  PerformingOptions performing;
  bool verify = false, require_fit = false;
  int steps = 3;
  std::string weights;
  PageOptions pages;
};

void check(const CommandLine& line, MeasureOptions& options) {
  if (!options.verify) {
    if (line.has("steps")) throw UserError("--steps belongs to --verify; --iterations says how much is measured");
    return;
  }
  for (const char* option : {"warmup", "iterations"})
    if (line.has(option))
      throw UserError(fmt::format("--verify trains for --steps, so --{} has no meaning beside it", option));
  if (options.performing.compute == "timed")
    throw UserError("--verify needs --compute real: timed tasks train nothing");
  options.performing.compute = "real";
  options.performing.run.warmup = 0, options.performing.run.iterations = options.steps;
  check_count("--steps", options.steps, 1);
}

}  // namespace

int run_measure(Session& session, const Arguments& arguments) {
  MeasureOptions options;
  OptionList own = performing_options(options.performing);
  own.insert(own.end(),
             {{"verify", "", "train a few steps and compare with the same training on one rank", &options.verify},
              {"steps", "N", "steps of --verify (default 3)", &options.steps},
              {"weights", "FILE", "write the trained weights as .safetensors (--compute real)", &options.weights},
              {"require-fit", "", "exit with status 1 if the memory does not suffice", &options.require_fit}});
  own = with_page_options(std::move(own), options.pages, "draw where time and memory went, and who worked when",
                          {"breakdown", "timeline", "memory", "memory-by-rank", "traffic", "groups"});
  CommonOptions common(session);
  const auto line = parse(kMeasureText, own, arguments, common);
  if (!line) return 0;
  const auto& path = one_operand(kMeasureText, *line, "a scenario file");
  check(*line, options);

  const std::vector<ResultFile> files{{"--timeline", options.performing.timeline, report::write_timeline},
                                      {"--trace", options.performing.trace, report::write_trace}};
  check_outputs(common, options.pages, files, {path}, {{"--weights", options.weights}});
  auto performing = begin_performing("measure", arguments, path, common, options.performing);
  performing.options.times_matter = !options.verify;
  performing.options.weights = options.verify || !options.weights.empty();
  if (!options.weights.empty() && performing.options.compute != backend::Compute::real)
    throw UserError("--weights needs --compute real: timed tasks train nothing");
  auto [timeline, trained, collectives, links] = perform(performing, common);
  if (!performer().reports(options.performing.backend)) return 0;

  const auto& scenario = performing.what.scenario;
  const auto answer = [&, &trained = trained, &timeline = timeline, how = collectives, &links = links] {
    auto measured = answer::performed(performing.predicted, std::move(timeline));
    measured.measured->collectives = how, measured.measured->links = std::move(links);
    if (!options.verify) return measured;
    auto limits = explore::limits(scenario);
    backend::TrainingResult wide;
    if (const auto in_fp32 = explore::wide_reference(scenario, options.performing.backend == "cuda"))
      wide = train_serially(performing, *in_fp32, common), limits.wide = &wide;
    auto verified =
        explore::verify(trained, train_serially(performing, explore::serial_reference(scenario), common), limits);
    measured.warnings.insert(measured.warnings.end(), verified.warnings.begin(), verified.warnings.end());
    measured.measured->verification = std::move(verified);
    return measured;
  }();
  if (!options.weights.empty())
    write_streamed(common, options.weights, [&](const auto& sink) { report::write_safetensors(trained, sink); });
  write_files(common, files, answer);
  write_pages(common, options.pages, [&] {
    return report::run_page(answer, as_asked(session, "measure", arguments, path), !options.performing.trace.empty());
  });
  emit_report(common, {.text = [&] { return report::run_text(answer, text_style(common), true); },
                       .json = [&] { return report::run_json(std::span(&answer, 1)); },
                       .csv = [&] { return report::run_csv(std::span(&answer, 1)); }});
  const auto& verification = answer.measured->verification;
  return (verification && !verification->ok) || (options.require_fit && answer.summary.fits == false) ? 1 : 0;
}

}  // namespace rehearsal::cli
