// rehearse check: validates files without running them.
#include <fmt/format.h>

#include <cstdio>

#include "answer/lowered_job.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "cli/output.hpp"
#include "page/layout.hpp"
#include "report/answers.hpp"
#include "scenario/check.hpp"
#include "scenario/schema.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCheckText{
    .name = "check",
    .operands = "FILE... | --schema [answers]",
    .summary =
        "Validates scenario files without running them: every error that 'run' would name, with its line and column; "
        "or\n"
        "prints their schema.",
    .more =
        "Files in folders named gpus, clusters, collectives, framework or zoo are read as such parts; questions of\n"
        "resharding are known by their keys.\n"
        "Exit status 2 when any file is wrong; all files are read.\n"
        "--schema prints the JSON Schema (2020-12) of scenarios instead, for editors: text and json alike; csv\n"
        "lists all keys with their values and defaults. --schema answers: of the JSON that commands print.",
    .example =
        "  rehearse check scenarios/*.yaml\n"
        "  rehearse check scenarios/gpt3-175b-1024xa100.yaml --set batch.micro=2\n"
        "  rehearse check --schema --output scenario.schema.json\n",
    .takes_set = true};

Json to_json(const std::vector<Diagnostic>& diagnostics) {
  auto list = Json::array();
  for (const auto& [where, message] : diagnostics)
    list.push_back({{"file", where.file}, {"line", where.line}, {"column", where.column}, {"message", message}});
  return list;
}

// Formats a diagnostic for the terminal; format() is for errors, and warnings are not errors.
std::string warning_line(const Diagnostic& d) {
  return (d.where.line ? fmt::format("{}:{}:{}: ", d.where.file, d.where.line, d.where.column) : d.where.file + ": ") +
         "warning: " + d.message + "\n";
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
  if (line.operands == std::vector<std::string>{"answers"} && common.set.empty()) {
    if (common.format == Format::csv) throw UserError("check: the schema of answers is JSON; leave --format csv out");
    emit_report(common, report::answers_schema());
    return 0;
  }
  if (!line.operands.empty() || !common.set.empty())
    throw UserError("check: --schema describes all scenarios and takes neither FILE nor --set");
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
  const OptionList own{{"schema", "", "print the JSON Schema of scenarios; no FILE then", &schema}};
  const auto line = parse(kCheckText, own, arguments, common);
  if (!line) return 0;
  if (schema) return print_schema(common, *line);
  if (line->operands.empty()) throw UserError("check: name a file, for example scenarios/gpt3-175b-1024xa100.yaml");

  bool all_ok = true;
  std::string text, csv = page::csv_line({"file", "ok", "line", "column", "severity", "message"}), errors;
  auto json = Json::array();
  for (const auto& path : line->operands) {
    const auto checked = check(path, common);
    all_ok = all_ok && checked.ok();
    json.push_back({{"file", path},
                    {"ok", checked.ok()},
                    {"errors", to_json(checked.errors)},
                    {"warnings", to_json(checked.warnings)}});
    if (checked.ok()) text += path + ": ok\n", csv += page::csv_line({path, "true", "", "", "", ""});
    for (const auto& d : checked.warnings) {
      text += warning_line(d);
      csv += page::csv_line({d.where.file, checked.ok() ? "true" : "false", std::to_string(d.where.line),
                             std::to_string(d.where.column), "warning", d.message});
    }
    if (!checked.ok()) errors += format(checked.errors) + "\n";
    for (const auto& d : checked.errors)
      csv += page::csv_line(
          {d.where.file, "false", std::to_string(d.where.line), std::to_string(d.where.column), "error", d.message});
  }
  switch (common.format) {
    case Format::json:
      // Quotes from files are valid UTF-8, but --set comes from the shell.
      emit_report(common, json.dump(2) + "\n");
      break;
    case Format::csv:
      emit_report(common, csv);
      break;
    case Format::text:
      emit_report(common, text);
      session.write(Stream::err, errors);
      break;
  }
  return all_ok ? 0 : 2;
}

}  // namespace rehearsal::cli
