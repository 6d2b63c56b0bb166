// rehearse schedule: one pipeline schedule with given costs, or a batch of them (contract, section 5).
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <set>

#include "base/error.hpp"
#include "base/json.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/progress.hpp"
#include "cli/schedule_options.hpp"
#include "report/pages.hpp"
#include "schedule/csv.hpp"

namespace rehearsal::cli {
namespace {

std::string names_text() {
  std::string text = "Schedules ('rehearse list schedules' describes them):\n", line = " ";
  for (const auto& name : schedule::registry().names()) {
    if (line.size() + 1 + name.size() > 78) text += line + "\n", line = " ";
    line += " " + name;
  }
  return text + line + "\n";
}

CommandText schedule_text() {
  return {.name = "schedule",
          .operands =
              "NAME... --pipeline P --microbatches M --forward T --backward T [OPTIONS]\n"
              "       rehearse schedule --batch CASES.jsonl [--output FILE]",
          .summary =
              "Shows one pipeline schedule with given costs: a picture, its bubble and memory, and\n"
              "with --format json or csv also its order.",
          .more =
              "Times are those of one stage and carry a unit. A comma list gives one value per stage\n"
              "(P*V values), for memory one per rank (P values).\n"
              "cost = the longest time from the first to the last action of one rank; bubble = the share\n"
              "of it in which the busiest rank is idle. Several schedules are shown one after the other, in\n"
              "pictures on one time scale.\n\n"
              "CSV is written and read in the form of torch.distributed.pipelining: one row per rank, one cell\n"
              "per action (3F0: stage, type, micro-batch); older files with B and BW are understood. An\n"
              "imported order is checked first: errors name line and column of the wrong cell.\n\n"
              "A batch holds one JSON object per line: the options as keys ('extra_warmup'), 'schedule'\n"
              "for the name, and 'id', which the answer repeats. Times without a unit are milliseconds, null\n"
              "is the default. Each line is answered by one line of JSON, or by {\"id\", \"error\"} if it\n"
              "fails; the exit status is then still 0.\n\n" +
              names_text(),
          .example =
              "  rehearse schedule zb-h1 --pipeline 4 --microbatches 8 \\\n"
              "    --forward 5ms --backward 5ms --weight 5ms --transfer 100us\n"
              "  rehearse schedule --import my.csv --forward 5ms --backward 10ms --svg my.svg\n",
          .takes_long = true};
}

// Reads one line strictly: duplicate keys are errors. `id` is set as soon as it is known.
Json parse_line(const std::string& line, Json& id) {
  Json object;
  try {
    object = Json::parse(line);
  } catch (const UserError& error) {
    throw UserError(fmt::format("not JSON: {}", error.diagnostics().front().message));
  }
  if (const auto* given = object.find("id")) id = *given;
  std::set<std::string> seen;
  if (object.is_object())
    for (const auto& member : object.members())
      if (!seen.insert(member.key).second) throw UserError(fmt::format("key '{}' is given twice", member.key));
  return object;
}

// Processes one line of a batch; false after an internal error.
bool answer(const std::string& line, std::uint64_t number, schedule::WantOrder order, report::BatchLine& out) {
  const auto fail = [&](std::string_view what) { out.error = fmt::format("line {}: {}", number, what); };
  try {
    const auto object = parse_line(line, out.id);
    const auto resolved = resolve(case_from_json(object));
    out.result = schedule::evaluate(resolved.schedule, resolved.problem, {order, false});
  } catch (const UserError& error) {
    const auto& first = error.diagnostics().front();
    fail(first.where.line > 0
             ? fmt::format("{}:{}:{}: {}", first.where.file, first.where.line, first.where.column, first.message)
             : first.message);
  } catch (const MachineError& error) {
    fail(error.what());
  } catch (const std::bad_alloc&) {
    fail("this machine has too little memory for the case");
  } catch (const InternalError& error) {
    fail(fmt::format("internal error, please report it: {}", error.what()));
    return false;
  }
  return true;
}

int run_batch(const std::string& path, const CommonOptions& common, schedule::WantOrder order) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) throw UserError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
    if (file.peek(); file.bad()) throw UserError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  std::istream& in = path == "-" ? std::cin : file;
  AtomicFile out(common.session, common.output);
  bool sound = true;
  const auto shown = report::batch_answer();
  std::string line;
  for (std::uint64_t number = 1; std::getline(in, line); number++) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    report::BatchLine answered;
    sound = answer(line, number, order, answered) && sound;
    out.write(shown.json(answered).dump() + "\n");
    if (common.output.empty()) out.flush();
  }
  if (in.bad()) throw MachineError(fmt::format("cannot read '{}' to its end", path));
  out.commit();
  return sound ? 0 : 70;
}

OptionList own_options(PageOptions& pages) {
  OptionList options;
  for (const auto& f : schedule_fields()) {
    if (f.help.empty()) continue;
    std::string name(f.key);
    std::replace(name.begin(), name.end(), '_', '-');
    options.push_back({name, std::string(f.value_name), std::string(f.help)});
  }
  options.insert(
      options.end(),
      {{"order", "", "show the order of every rank, however long (text, json)"},
       {"comms", "", "csv: with the SEND and RECV of every message, in the order\nof torch.distributed.pipelining"},
       {"batch", "FILE", "evaluate every line of FILE ('-': standard input)"}});
  return with_page_options(std::move(options), pages, "draw the order and the memory of every rank as a picture");
}

// `name`: of a schedule; none: it is imported from a file.
ScheduleCase case_from_line(const std::optional<std::string>& name, const CommandLine& line) {
  ScheduleCase given;
  if (name) given.values["schedule"] = {*name};
  for (const auto& f : schedule_fields()) {
    const std::string option = given.label(f.key).substr(2);
    if (f.help.empty() || !line.has(option)) continue;
    auto& texts = given.values[std::string(f.key)];
    const auto value = line.given.at(option).front();
    const bool list = f.kind == FieldKind::times || f.kind == FieldKind::amounts;
    for (std::size_t at = 0; at <= value.size();) {
      const auto comma = list ? std::min(value.find(',', at), value.size()) : value.size();
      texts.push_back(value.substr(at, comma - at));
      at = comma + 1;
    }
  }
  return given;
}

void write_csv(const ResolvedCase& resolved, const CommonOptions& common, bool comms) {
  AtomicFile out(common.session, common.output);
  export_csv(resolved.schedule, resolved.problem, {comms}, [&](std::string_view piece) { out.write(piece); });
  out.commit();
}

}  // namespace

int run_schedule(Session& session, const Arguments& arguments) {
  const CommandText text = schedule_text();
  CommonOptions common(session);
  PageOptions pages;
  const auto line = parse(text, own_options(pages), arguments, common);
  if (!line) return 0;
  const bool order = line->has("order");
  std::vector<std::string> inputs;
  for (const char* option : {"batch", "import"})
    if (line->has(option)) inputs.push_back(line->given.at(option).front());
  check_outputs(common, {}, inputs);

  if (line->has("batch")) {
    if (!line->operands.empty())
      throw UserError(fmt::format("--batch takes every case from its file; leave '{}' out", line->operands.front()));
    for (const char* option : {"svg", "html", "comms"})
      if (line->has(option)) throw UserError(fmt::format("--batch writes no such output; leave --{} out", option));
    for (const auto& f : schedule_fields())
      if (line->has(ScheduleCase{}.label(f.key).substr(2)))
        throw UserError(
            fmt::format("--batch takes every case from its file; leave {} out", ScheduleCase{}.label(f.key)));
    if (common.format_given && common.format != Format::json)
      throw UserError("--batch answers in lines of JSON; leave --format out");
    return run_batch(line->given.at("batch").front(), common,
                     order ? schedule::WantOrder::always : schedule::WantOrder::when_small);
  }

  using schedule::WantOrder;
  if (line->has("comms") && common.format != Format::csv)
    throw UserError("--comms says what --format csv writes; add --format csv or leave it out");
  if (line->operands.size() > 1 && common.format == Format::csv)
    throw UserError("--format csv writes the order of one schedule; name one");
  check_outputs(common, page_outputs(pages), inputs);
  std::vector<ResolvedCase> all;
  if (line->has("import") && line->operands.empty()) all.push_back(resolve(case_from_line(std::nullopt, *line)));
  if (all.empty() && line->operands.empty()) one_operand(text, *line, "the name of a schedule");  // says what to name
  for (const auto& name : line->operands) all.push_back(resolve(case_from_line(name, *line)));
  for (const auto& resolved : all) warn(common, resolved.warnings);

  const bool drawn = common.format == Format::text || pages.any();
  if (common.format == Format::csv && !pages.any()) {
    write_csv(all.front(), common, line->has("comms"));
    return 0;
  }
  const auto short_of_asked = common.format == Format::json ? WantOrder::when_small : WantOrder::never;
  std::vector<schedule::Evaluation> results;
  std::optional<Progress> progress(std::in_place, common);
  progress->begin("schedules", all.size());
  for (const auto& resolved : all) {
    results.push_back(
        schedule::evaluate(resolved.schedule, resolved.problem, {order ? WantOrder::always : short_of_asked, drawn}));
    progress->done(results.size());
  }
  progress.reset();
  write_pages(common, pages,
              [&] { return report::schedule_page(results, as_asked(session, "schedule", arguments, "")); });
  switch (common.format) {
    case Format::csv:
      write_csv(all.front(), common, line->has("comms"));
      break;
    case Format::json: {
      std::string json;
      for (const auto& result : results)
        json += (json.empty() ? "" : ",\n") + report::schedule_answer().json(result).lines("order", 1);
      emit_report(common, results.size() > 1 ? "[\n" + json + "]\n" : json);
      break;
    }
    case Format::text: {
      std::string words;
      for (const auto& result : results)
        words += (words.empty() ? "" : "\n") + report::to_text(result, text_style(common));
      emit_report(common, words);
      break;
    }
  }
  return 0;
}

}  // namespace rehearsal::cli
