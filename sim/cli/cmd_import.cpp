// rehearse import: files of other tools become one scenario.
#include <fmt/format.h>

#include <algorithm>

#include "answer/lowered_job.hpp"
#include "base/error.hpp"
#include "cli/numbers.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "report/import_report.hpp"

namespace rehearsal::cli {
namespace {

CommandText import_text() {
  std::string formats = "Formats, known by content:\n";
  for (const auto& [name, format] : interchange::registry())
    if (format.read) formats += fmt::format("  {:<16} {}\n", name, format.summary);
  return {
      .name = "import",
      .operands = "FILE... [OPTIONS] [-- ARGUMENTS]",
      .summary =
          "Makes a scenario from files of other tools: model, layout, machine and training, each from the file that\n"
          "holds it. A comment behind each value says where it came from.",
      .more = formats +
              "\nWhat no file says is derived or assumed, and marked so. What a scenario cannot express, and what was "
              "not\nunderstood, is listed on standard error. Files that contradict each other are refused.\n",
      .example =
          "  rehearse import tests/interchange/hf-config/Qwen--Qwen3-32B_config.json --world 64 --output qwen3.yaml\n"
          "  rehearse import tests/interchange/megatron-forms/llama3-8b.log --cluster dgx-h100\n"
          "  rehearse import --world 64 -- --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --swiglu "
          "--seq-length 4096 --bf16\n",
      .takes_set = true,
      .takes_long = true};
}

std::string left_text(const std::vector<interchange::Left>& all, const char* heading) {
  if (all.empty()) return "";
  std::string text = fmt::format("{}\n", heading);
  for (const auto& left : all)
    text += printable(fmt::format("  {}: {}{}", interchange::to_text(left.where), left.what,
                                  left.why.empty() ? "" : " (" + left.why + ")")) +
            "\n";
  return text;
}

}  // namespace

int run_import(Session& session, const Arguments& arguments) {
  CommonOptions common(session);
  interchange::Asked asked;
  std::string world;
  bool strict = false;
  std::vector<std::string> formats;
  for (const auto& [name, format] : interchange::registry())
    if (format.read) formats.push_back(name);
  const OptionList own{
      {"world", "N", "number of GPUs, if no file says it", &world},
      {"cluster", "NAME", "the machine (rehearse list clusters)", &asked.cluster},
      {"as", "FORMAT", "what the files are, if their content does not tell", &asked.as, false, formats},
      {"strict", "", "exit with status 1 if something could not be expressed or understood", &strict}};
  const auto text = import_text();
  // What follows `--` is a trainer's, not ours.
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const auto line = parse(text, own, Arguments(arguments.begin(), end), common);
  if (!line) return 0;
  if (end != arguments.end()) asked.arguments.assign(end + 1, arguments.end());
  asked.files = line->operands;
  asked.sets = common.set;
  asked.world = world_size(world);
  if (asked.files.empty() && asked.arguments.empty())
    throw UserError("import: name a file, for example config.json; or give a trainer's arguments behind --");
  if (common.format == Format::csv) throw UserError("import: a scenario is YAML; --format json lists its keys");

  std::optional<Progress> progress(std::in_place, common, 2);
  progress->begin("reading");
  const auto imported = interchange::import(asked, session.files());
  std::vector<std::string> warnings;
  progress->begin("checking the scenario");
  if (imported.scenario) warnings = answer::check(*imported.scenario);  // what only its graph knows
  progress.reset();
  if (!common.quiet) {
    session.write(Stream::err, left_text(imported.draft.unworded(), "No word in a scenario:"));
    session.write(Stream::err, left_text(imported.draft.unknown(), "Not understood:"));
    for (const auto& warning : imported.warnings) warnings.push_back(warning.message);
    if (imported.part)
      warnings.emplace_back(
          "these files say nothing of what is trained: this is the `cluster` of a scenario, not a whole scenario");
    warn(common, warnings);
  }
  emit_report(common, common.format == Format::json ? report::imported_json(imported) : imported.yaml);
  return strict && !(imported.draft.unworded().empty() && imported.draft.unknown().empty()) ? 1 : 0;
}

}  // namespace rehearsal::cli
