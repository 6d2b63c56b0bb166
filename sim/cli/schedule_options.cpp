#include "cli/schedule_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/quantity_text.hpp"
#include "scenario/document.hpp"
#include "schedule/csv.hpp"

namespace rehearsal::cli {
namespace {

using schedule::Problem;

const std::vector<std::string>* find(const ScheduleCase& given, std::string_view key) {
  const auto it = given.values.find(key);
  return it == given.values.end() ? nullptr : &it->second;
}

// A number as written in JSON, whole numbers without ".0".
std::string number_text(const Json& value) {
  if (value.is_real()) {
    const double d = value.real();
    if (d == std::floor(d) && std::abs(d) < 0x1p53) return std::to_string(static_cast<std::int64_t>(d));
  }
  return value.dump();
}

std::string scalar_text(const Field& field, const Json& value) {
  const auto refuse = [&](std::string_view allowed) {
    throw UserError(
        fmt::format("'{}' must be {}, found {} {}", field.key, allowed, value.type_name(), value.dump().substr(0, 40)));
  };
  switch (field.kind) {
    case FieldKind::name:
      if (!value.is_string()) refuse("a name");
      return value.text();
    case FieldKind::times:
      if (value.is_string()) return value.text();
      if (!value.is_number()) refuse("a number of milliseconds, a time with its unit, or a list of them");
      return number_text(value) + "ms";
    case FieldKind::count:
      if (!value.is_number()) refuse("a whole number");
      return number_text(value);
    case FieldKind::amounts:
      if (!value.is_number()) refuse("a number, or a list of numbers");
      return number_text(value);
  }
  return {};
}

std::uint32_t whole_number(const ScheduleCase& given, std::string_view key, std::uint64_t least, std::uint64_t most) {
  const std::string& text = find(given, key)->front();
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size() || number < least || number > most)
    throw UserError(fmt::format("{} must be a whole number from {} to {}, found '{}'", given.label(key), least, most,
                                text.substr(0, 40)));
  return static_cast<std::uint32_t>(number);
}

std::optional<std::uint32_t> optional_number(const ScheduleCase& given, std::string_view key, std::uint64_t least,
                                             std::uint64_t most) {
  if (!find(given, key)) return std::nullopt;
  return whole_number(given, key, least, most);
}

template <class T, class Parse>
std::vector<T> list(const ScheduleCase& given, std::string_view key, std::size_t expected, std::string_view each,
                    const Parse& parse) {
  const auto& texts = *find(given, key);
  if (texts.size() != 1 && texts.size() != expected)
    throw UserError(
        fmt::format("{} has {} values, but needs 1 or {}: one per {}", given.label(key), texts.size(), expected, each));
  std::vector<T> values;
  for (const auto& text : texts) {
    try {
      values.push_back(parse(text));
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}: {}", given.label(key), error.diagnostics().front().message));
    }
  }
  values.resize(expected, values.front());
  return values;
}

// Each of the `copies` of a model has the same number of stages; a list for one copy applies to all.
std::vector<Time> times(const ScheduleCase& given, std::string_view key, std::size_t stages, std::size_t copies) {
  if (!find(given, key)) return std::vector<Time>(stages);
  const std::size_t expected = find(given, key)->size() == stages / copies ? stages / copies : stages;
  auto values = list<Time>(given, key, expected, "stage", [](const std::string& t) { return parse_time(t); });
  while (values.size() < stages) values.push_back(values[values.size() - expected]);
  return values;
}

double amount(const std::string& text) {
  const double value = parse_number(text);
  // Sums over 2^32 micro-batches stay far inside what a double counts exactly or at least represents.
  if (value < 0 || value > 1e30) throw UserError(fmt::format("'{}' must be from 0 to 1e30", text.substr(0, 40)));
  return value;
}

// One amount per rank, used for each of its stages.
std::vector<double> amounts(const ScheduleCase& given, std::string_view key, const Problem& problem,
                            schedule::Placement placement, double otherwise) {
  std::vector<double> of_stage(problem.stages(), otherwise);
  if (!find(given, key)) return of_stage;
  const auto of_rank = list<double>(given, key, problem.ranks, "rank", amount);
  for (std::uint32_t s = 0; s < problem.stages(); s++) of_stage[s] = of_rank[rank_of(placement, problem, s)];
  return of_stage;
}

// No sum of the replay may exceed 2^63 ps. At every moment of a run an action or a transfer is active, so a run
// takes at most the time of all of them in sequence.
void require_countable(const Problem& problem) {
  long double total = 0;
  for (std::uint32_t s = 0; s < problem.stages(); s++) {
    if (!problem.overlapped.empty()) total += (long double)(problem.overlapped[s].count());
    total += (long double)(problem.forward[s].count()) + (long double)(problem.input_gradient[s].count()) +
             (long double)(problem.weight_gradient[s].count());
    if (s + 1 < problem.stages()) total += 2 * (long double)(problem.transfer[s].count());
  }
  if (total * problem.microbatches > 9e18L)
    throw UserError(
        "all actions together take more than 100 days, which picoseconds in 64 bits cannot count; give "
        "shorter times or fewer micro-batches");
}

constexpr std::size_t kLargestCsv = 256 << 20;

// Reads the order and derives sizes, pieces and the rank of each stage from it.
void import_file(const ScheduleCase& given, ResolvedCase& result) {
  const std::string& path = find(given, "import")->front();
  const auto* label = find(given, "schedule");
  auto imported = schedule::import_csv(scenario::read_text_file(path, kLargestCsv), path,
                                       label ? label->front() : std::filesystem::path(path).stem().string());
  result.schedule = std::move(imported.schedule);
  result.warnings = std::move(imported.warnings);
  Problem& p = result.problem;
  p.ranks = imported.ranks, p.microbatches = imported.microbatches, p.chunks = imported.chunks;
  p.pieces = imported.pieces;
  p.stage_ranks = std::move(imported.stage_ranks);
  for (const auto& [key, of_file] :
       {std::pair{"pipeline", imported.ranks}, std::pair{"microbatches", imported.microbatches},
        std::pair{"chunks", imported.chunks}})
    if (const auto asked = optional_number(given, key, 1, UINT32_MAX - 1); asked && *asked != of_file)
      throw UserError(fmt::format("{} is {}, but the order of '{}' is for {}; leave it out", given.label(key), *asked,
                                  path, of_file));
}

}  // namespace

std::vector<Field> schedule_fields() {
  using enum FieldKind;
  return {{"schedule", name, "", ""},
          {"pipeline", count, "P", "pipeline ranks"},
          {"microbatches", count, "M", "micro-batches"},
          {"chunks", count, "V", "stages (model chunks) per rank; default: the fewest that\nthe schedule takes"},
          {"forward", times, "T", "time of one forward of one stage, for example 5ms"},
          {"backward", times, "T", "time of one backward for the input gradient"},
          {"weight", times, "T",
           "time of one backward for the weight gradient (default 0);\na combined backward takes both"},
          {"transfer", times, "T", "latency between stages of two ranks (default 0)"},
          {"group", count, "G", "interleaved schedules: micro-batches per group (default P)"},
          {"extra_warmup", count, "N", "interleaved schedules: more warm-up forwards per rank\n(default 0)"},
          {"activation", amounts, "A",
           "memory that a forward of one stage holds until its input\ngradient, in any one unit (default 1: the peak "
           "counts\nforwards)"},
          {"weight_hold", amounts, "A", "part of it that stays until the weight gradient (default 0)"},
          {"memory_limit", amounts, "L", "memory limit of a rank, for schedules that observe one\n(default: none)"},
          {"overlapped", times, "T",
           "time of a forward and a backward that run as one block, by\nthe stage of the forward (default: both "
           "together)"},
          {"pieces", count, "Q", "seq1f1b: pieces that a micro-batch is cut into (default 2)"},
          {"waves", count, "N", "hanayo: waves, of two chunks each"},
          {"time_limit", times, "T", "searches: how long they may take"},
          {"import", name, "FILE", "take the order from a CSV file; NAME is then only a label\nand may be left out"}};
}

std::string ScheduleCase::label(std::string_view key) const {
  if (from_json) return fmt::format("'{}'", key);
  std::string option = "--" + std::string(key);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

ScheduleCase case_from_json(const Json& object) {
  if (!object.is_object())
    throw UserError(fmt::format("each line must be a JSON object, found {}", object.type_name()));
  const auto fields = schedule_fields();
  std::vector<std::string> keys{"id"};
  for (const auto& f : fields) keys.emplace_back(f.key);
  ScheduleCase given;
  given.from_json = true;
  for (const auto& [key, value] : object.members()) {
    if (key == "id" || value.is_null()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    }
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&key = key](const Field& f) { return f.key == key; });
    if (field == fields.end())
      throw UserError(fmt::format("unknown key '{}'{}", key.substr(0, 80), suggestion(key, keys)));
    auto& texts = given.values[key];
    const bool lists = field->kind == FieldKind::times || field->kind == FieldKind::amounts;
    if (lists && value.is_array()) {
      if (value.items().empty()) throw UserError(fmt::format("'{}' is an empty list", key));
      for (const auto& v : value.items()) texts.push_back(scalar_text(*field, v));
    } else {
      texts.push_back(scalar_text(*field, value));
    }
  }
  return given;
}

ResolvedCase resolve(const ScheduleCase& given) {
  std::string missing;
  const bool file = find(given, "import") != nullptr;
  for (const char* key : {"schedule", "pipeline", "microbatches", "forward", "backward"}) {
    const bool in_file = file && std::strcmp(key, "forward") != 0 && std::strcmp(key, "backward") != 0;
    if (!in_file && !find(given, key)) missing += (missing.empty() ? "" : ", ") + given.label(key);
  }
  if (!missing.empty()) throw UserError(fmt::format("missing {}", missing));

  ResolvedCase result;
  Problem& p = result.problem;
  if (file)
    import_file(given, result);
  else
    result.schedule = schedule::registry().at(find(given, "schedule")->front());
  const auto& schedule = result.schedule;
  if (find(given, "pieces") && !schedule.cuts_sequences)
    throw UserError(fmt::format("schedule {} takes no {}", schedule.name, given.label("pieces")));
  if (find(given, "waves") && schedule.placement != schedule::Placement::wave)
    throw UserError(fmt::format("schedule {} takes no {}", schedule.name, given.label("waves")));

  p.ranks = optional_number(given, "pipeline", 1, schedule::kMaxStages).value_or(p.ranks);
  p.microbatches = optional_number(given, "microbatches", 1, UINT32_MAX - 1).value_or(p.microbatches);
  if (const auto pieces = optional_number(given, "pieces", 1, UINT32_MAX - 1)) p.pieces = pieces;
  p.waves = optional_number(given, "waves", 1, schedule::kMaxStages / 2);
  p.chunks =
      optional_number(given, "chunks", 1, schedule::kMaxStages).value_or(p.waves ? 2 * *p.waves : schedule.min_chunks);
  // A rank of a bidirectional schedule has two stages, whether counted as chunks or as a stage and its copy.
  const bool both_ways = schedule.placement == schedule::Placement::bidirectional;
  if (both_ways && p.chunks == 1) p.chunks = 2;
  const std::size_t copies = both_ways ? 2 : 1;
  p.group = optional_number(given, "group", 1, UINT32_MAX - 1);
  p.extra_warmup = optional_number(given, "extra_warmup", 0, UINT32_MAX - 1);
  const std::uint64_t stages = std::uint64_t(p.ranks) * p.chunks;
  if (stages > schedule::kMaxStages)
    throw UserError(fmt::format("{} x {} = {} stages, but at most {} are possible", given.label("pipeline"),
                                given.label("chunks"), stages, schedule::kMaxStages));
  const std::uint64_t units =
      std::uint64_t(p.microbatches) * (schedule.cuts_sequences ? p.pieces.value_or(schedule::kUsualPieces) : 1);
  const std::uint64_t actions = stages * units * (schedule.splits_backward ? 3 : 2);
  if (units >= UINT32_MAX)
    throw UserError(
        fmt::format("{} x {} are more pieces than can be counted", given.label("microbatches"), given.label("pieces")));
  if (actions > kMaxActions)
    throw UserError(fmt::format(
        "{} stages x {} micro-batches make {} actions, more than the {} that can be held; "
        "choose a smaller {} or {}",
        stages, p.microbatches, actions, kMaxActions, given.label("pipeline"), given.label("microbatches")));

  p.forward = times(given, "forward", stages, copies);
  p.input_gradient = times(given, "backward", stages, copies);
  p.weight_gradient = times(given, "weight", stages, copies);
  if (find(given, "overlapped")) p.overlapped = times(given, "overlapped", stages, copies);
  p.transfer = times(given, "transfer", stages, copies);
  p.transfer.pop_back();  // the last stage sends to no other
  for (const char* key : {"forward", "backward"}) {
    const auto& values = key[0] == 'f' ? p.forward : p.input_gradient;
    if (std::find(values.begin(), values.end(), Time()) != values.end())
      throw UserError(fmt::format("{} must be more than 0", given.label(key)));
  }
  require_countable(p);

  p.activation = amounts(given, "activation", p, schedule.placement, 1);
  p.weight_hold = amounts(given, "weight_hold", p, schedule.placement, 0);
  if (find(given, "memory_limit")) {
    const auto limits = list<double>(given, "memory_limit", p.ranks, "rank", amount);
    if (limits.front() <= 0) throw UserError(fmt::format("{} must be more than 0", given.label("memory_limit")));
    if (std::adjacent_find(limits.begin(), limits.end(), std::not_equal_to<>()) != limits.end())
      throw UserError(fmt::format("{} must be the same for every rank", given.label("memory_limit")));
    p.memory_limit = limits.front();
  }
  if (const auto* limit = find(given, "time_limit")) {
    if (limit->size() != 1) throw UserError(fmt::format("{} is one time", given.label("time_limit")));
    p.time_limit =
        list<Time>(given, "time_limit", 1, "case", [](const std::string& t) { return parse_time(t); }).front();
  }
  return result;
}

}  // namespace rehearsal::cli
