// rehearse check: validates files without running them.
#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <cstring>

#include "answer/lowered_job.hpp"
#include "base/error.hpp"
#include "base/program.hpp"
#include "cli/kinds.hpp"
#include "cli/progress.hpp"
#include "page/layout.hpp"
#include "published/report.hpp"
#include "scenario/check.hpp"
#include "scenario/schema.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCheckText{
    .name = "check",
    .operands = "FILE... | --schema [answers]",
    .summary =
        "Validates scenario files without running them: every error that 'run' would name, with its line and column; "
        "or prints their schema.",
    .more =
        "Reads all files; exit status 2 if any is wrong. Files in folders named gpus, clusters, collectives, framework "
        "or zoo are checked as such parts; resharding files are recognised by their keys. --schema prints the JSON "
        "Schema (2020-12) of scenarios for editors, or with --format csv all keys with their values and defaults. "
        "--schema answers prints the schema of the JSON that commands print. --format sarif (SARIF 2.1.0) is for "
        "services that show errors beside the lines of a change.",
    .example =
        "  rehearse check scenarios/*.yaml\n"
        "  rehearse check scenarios/gpt3-175b-1024xa100.yaml --set batch.micro=2\n"
        "  rehearse check --schema --output scenario.schema.json\n"
        "  rehearse check scenarios/*.yaml --format sarif --output rehearse.sarif\n",
    .takes_set = true,
    .takes_sarif = true,
    .takes_long = true};

struct CheckedFile {
  std::string file;
  scenario::Checked found;
};
report::Shown<CheckedFile> check_answer() {
  const auto diagnostic = report::Shown<Diagnostic>()
                              .figure("file", [](auto& d) { return d.where.file; })
                              .figure("line", [](auto& d) { return d.where.line; })
                              .figure("column", [](auto& d) { return d.where.column; })
                              .figure("message", &Diagnostic::message);
  return report::Shown<CheckedFile>("What is wrong with a file.")
      .figure("file", &CheckedFile::file)
      .figure("ok", [](auto& c) { return c.found.ok(); })
      .rows("errors", diagnostic, [](auto& c) { return &c.found.errors; })
      .rows("warnings", diagnostic, [](auto& c) { return &c.found.warnings; });
}

// The name of a file as a URI: relative ones stay so, the reader knows to what.
std::string uri_of(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path)
    if (std::isalnum(static_cast<unsigned char>(c)) || std::strchr("/-._~", c))
      uri += c;
    else
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return uri;
}

// A result of SARIF 2.1.0 (OASIS, section 3.27), whose place is in the file that was checked where the diagnostic has
// no line of its own: of --set, of the scenario as a whole.
Json sarif_result(const std::string& checked, const Diagnostic& d, const std::string& severity) {
  const bool placed = d.where.line > 0;
  Json place{{"artifactLocation", Json{{"uri", uri_of(placed ? d.where.file : checked)}}}};
  if (placed) {
    Json region{{"startLine", d.where.line}};
    if (d.where.column > 0) region["startColumn"] = d.where.column;
    place["region"] = region;
  }
  auto places = Json::array();
  places.push_back(Json{{"physicalLocation", place}});
  const bool elsewhere = !placed && !d.where.file.empty() && d.where.file != checked;
  return Json{{"ruleId", severity},
              {"ruleIndex", severity == "error" ? 0 : 1},
              {"level", severity},
              {"message", Json{{"text", (elsewhere ? d.where.file + ": " : "") + d.message}}},
              {"locations", places}};
}

Json sarif_log(const Json& results) {
  auto rules = Json::array(), runs = Json::array();
  const auto rule = [&](const char* id, const char* text) {
    rules.push_back(
        Json{{"id", id}, {"shortDescription", Json{{"text", text}}}, {"defaultConfiguration", Json{{"level", id}}}});
  };
  rule("error", "The scenario cannot be run: rehearse run refuses it with the same words.");
  rule("warning", "The scenario is run, and may not mean what its author wants.");
  Json driver{{"name", "rehearse"}, {"version", program_version()}, {"rules", rules}};
  runs.push_back(Json{{"tool", Json{{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", results}});
  return Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", runs}};
}

// Checks the file and, for a scenario, everything that `run` would report before it simulates.
scenario::Checked check(const std::string& path, const CommonOptions& common) {
  auto checked = scenario::check(path, common.set, common.session.files());
  if (!checked.scenario) return checked;
  try {
    for (auto& warning : answer::check(*checked.scenario))
      checked.warnings.push_back({{path, 0, 0}, std::move(warning)});
  } catch (const UserError& error) {
    checked.errors = error.diagnostics();
  }
  return checked;
}

int print_schema(const CommonOptions& common, const CommandLine& line) {
  if (common.sarif) throw UserError("check: --format sarif says what is wrong with files; --schema has none");
  if (!common.set.empty()) throw UserError("check: --schema describes all scenarios and takes no --set");
  if (line.operands == std::vector<std::string>{"answers"}) {
    if (common.format == Format::csv) throw UserError("check: the schema of answers is JSON; leave --format csv out");
    auto more = list_answers();
    more.emplace_back("check", check_answer(), true);
    for (const auto& answer : published::answers()) more.push_back(answer);
    emit_report(common, report::answers_schema(more));
    return 0;
  }
  if (!line.operands.empty())
    throw UserError(
        fmt::format("check: --schema describes scenarios, and --schema answers what commands print as JSON; found '{}'",
                    line.operands.front().substr(0, 80)));
  if (common.format != Format::csv) {
    emit_report(common, scenario::json_schema(common.session.files()));
    return 0;
  }
  std::string csv = page::csv_line({"key", "value", "default", "meaning"});
  for (const auto& row : scenario::keys()) csv += page::csv_line({row.path, row.value, row.fallback, row.help});
  emit_report(common, csv);
  return 0;
}

}  // namespace

int run_check(Session& session, const Arguments& arguments) {
  CommonOptions common(session);
  bool schema = false;
  const OptionList own{{"schema", "", "print the JSON Schema of scenarios; takes no FILE", &schema}};
  const auto line = parse(kCheckText, own, arguments, common);
  if (!line) return 0;
  if (schema) return print_schema(common, *line);
  if (line->operands.empty()) throw UserError("check: name a file, for example scenarios/gpt3-175b-1024xa100.yaml");

  bool all_ok = true;
  std::string text, csv = page::csv_line({"file", "ok", "line", "column", "severity", "message"}), errors;
  auto json = Json::array(), results = Json::array();
  const auto shown = check_answer();
  std::optional<Progress> progress(std::in_place, common);
  progress->begin("files", line->operands.size());
  for (const auto& path : line->operands) {
    progress->done(json.items().size());
    const CheckedFile one{path, check(path, common)};
    const auto& checked = one.found;
    all_ok = all_ok && checked.ok();
    json.push_back(shown.json(one));
    if (checked.ok()) text += printable(path) + ": ok\n", csv += page::csv_line({path, "true", "", "", "", ""});
    const auto tell = [&](const std::vector<Diagnostic>& all, const char* severity, std::string& to) {
      for (const auto& d : all) {
        results.push_back(sarif_result(path, d, severity));
        to += format({d}, severity) + "\n";
        csv += page::csv_line({d.where.file, checked.ok() ? "true" : "false", std::to_string(d.where.line),
                               std::to_string(d.where.column), severity, d.message});
      }
    };
    tell(checked.warnings, "warning", text), tell(checked.errors, "error", errors);
  }
  progress.reset();
  // Quotes from files are valid UTF-8, but --set comes from the shell: dump() mends it.
  emit_report(common, {.text = [&] { return text; },
                       .json = [&] { return (common.sarif ? sarif_log(results) : json).dump(2) + "\n"; },
                       .csv = [&] { return csv; }});
  if (common.format == Format::text) session.write(Stream::err, errors);
  return all_ok ? 0 : 2;
}

}  // namespace rehearsal::cli
