// rehearse export: a scenario in the words of another tool.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/export_chakra.hpp"
#include "cli/exported.hpp"
#include "interchange/format.hpp"

namespace rehearsal::cli {
namespace {

std::vector<std::string> written_formats() {
  std::vector<std::string> names;
  for (const auto& [name, format] : interchange::registry())
    if (format.write || format.writes_graph) names.push_back(name);
  return names;
}

CommandText export_text() {
  std::string formats = "Formats:\n";
  for (const auto& name : written_formats())
    formats += fmt::format("  {:<16} {}\n", name, interchange::registry().at(name).summary);
  return {
      .name = "export",
      .operands = "SCENARIO --as FORMAT [OPTIONS]",
      .summary =
          "Writes a scenario as the configuration of another tool, so that what was rehearsed can be run. What that\n"
          "tool cannot express is listed on standard error.",
      .more = formats + "\n`rehearse import` makes the same scenario from the result, except for what is listed.\n",
      .example =
          "  rehearse export scenarios/llama3-70b-64xh100.yaml --as megatron\n"
          "  rehearse export scenarios/llama3-8b-dgx-h100.yaml --as torchtitan --output llama3.toml\n"
          "  rehearse export scenarios/llama3-8b-dgx-h100.yaml --as chakra --output llama3\n",
      .takes_set = true,
      .takes_long = true};
}

}  // namespace

int run_export(Session& session, const Arguments& arguments) {
  CommonOptions common(session);
  std::string as;
  bool strict = false;
  const OptionList own{{"as", "FORMAT", "the other tool (see below)", &as, false, written_formats()},
                       {"strict", "", "exit with status 1 if that tool cannot express something", &strict}};
  const auto text = export_text();
  const auto line = parse(text, own, arguments, common);
  if (!line) return 0;
  const auto& path = one_operand(text, *line, "a scenario file");
  const auto names = written_formats();
  if (as.empty()) throw UserError(fmt::format("export: --as FORMAT says in whose words: {}", fmt::join(names, ", ")));
  if (std::find(names.begin(), names.end(), as) == names.end())
    throw UserError(fmt::format("export: --as {}: not a format that is written{}", as, suggestion(as, names)));
  if (common.format_given) throw UserError("export: the result has the form of that tool; leave --format out");

  if (interchange::registry().at(as).writes_graph) {
    export_chakra(common, path);
    return 0;
  }
  const auto scenario = scenario_of_model(common, path, common.set);
  const bool all = emit_exported(common, as, scenario);
  return strict && !all ? 1 : 0;
}

}  // namespace rehearsal::cli
