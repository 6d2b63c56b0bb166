#include <fmt/format.h>

#include <filesystem>

#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "schedule/text.hpp"

namespace rehearsal::scenario {
namespace {

void read_name(Diagnostics& problems, const Node& node, ScheduleChoice& choice) {
  if (const auto name = read_value(problems, node, "'schedule'", fields::name_of("schedule")))
    choice.name = std::get<std::string>(*name);
}

constexpr std::size_t kLargestOrder = 256 << 20;

void read_order(Context& context, const Node& node, ScheduleChoice& choice) {
  auto& problems = context.problems;
  const auto name = read_text(problems, node, "'file'");
  if (!name) return;
  const std::filesystem::path path = beside(node, *name);
  try {
    const auto text = read_text_file(path.string(), kLargestOrder, context.files);
    auto imported =
        std::make_shared<schedule::Imported>(schedule::import_csv(text, path.string(), path.stem().string()));
    auto problem = schedule::uniform_problem(imported->ranks, imported->microbatches, imported->chunks, Time{1},
                                             Time{1}, Time{1}, Time{});
    problem.pieces = imported->pieces;
    problem.stage_ranks = imported->stage_ranks;
    choice.imported_sha256 = order_sha256(imported->schedule, problem);
    for (const auto& warning : imported->warnings) problems.warn(node.where(), warning);
    choice.name = imported->schedule.name;
    choice.imported = std::move(imported);
  } catch (const UserError& e) {
    for (const auto& d : e.diagnostics())
      problems.error(d.where.line > 0 ? d.where : node.where(),
                     d.where.line > 0 ? d.message : fmt::format("{} {}", in_quotes(path.string()), d.message));
  }
}

}  // namespace

ScheduleChoice load_schedule(Context& context, const Node* node, bool abstract) {
  auto& problems = context.problems;
  ScheduleChoice choice;
  if (!node) return choice;
  if (node->kind != Node::Kind::map) {
    read_name(problems, *node, choice);
    return choice;
  }
  MapReader map(problems, *node, "schedule");
  if (const Node* file = map.find("file")) {
    read_order(context, *file, choice);
    if (const Node* name = map.find("name"))
      problems.error(name->where(), "give either 'name' or 'file', not both: the order comes from one of them");
  } else if (const Node* name = map.require("name", "a name of 'rehearse list schedules'"))
    read_name(problems, *name, choice), map.find("file");
  map.fill(schedule_fields(), &choice, {"name", "memory_limit"});
  const Node* limit = map.nullable("memory_limit");
  if (abstract) {
    if (limit) choice.memory_limit = read_number(problems, *limit, "'memory_limit'", kPositive);
  } else if (limit) {
    if (const auto size = read_bytes(problems, *limit, "'memory_limit'")) {
      choice.memory_limit = double(size->count());
      if (size->count() == 0)
        problems.error(limit->where(), "'memory_limit' must be above zero; leave it out for no limit");
    }
  }
  map.finish();
  return choice;
}

void check_schedule(Context& context, const ScheduleChoice& choice, const Node* node,
                    const ParallelismChoice& parallelism, std::int64_t microbatches) {
  auto& problems = context.problems;
  const auto& schedule = choice.schedule();
  const auto& p = parallelism.value;
  const Location here = node ? node->where() : parallelism.reader.place().where();
  if (p.chunks > schedule.max_chunks) {
    const bool one = schedule.max_chunks == 1;
    problems.error(parallelism.reader.at("chunks"),
                   fmt::format("'{}' takes {}; found 'chunks' {}{}", choice.name,
                               one ? std::string("one chunk per rank")
                                   : fmt::format("at most {} chunks per rank", schedule.max_chunks),
                               p.chunks, one && choice.name == "1f1b" ? "; use 'interleaved-1f1b'" : ""));
    return;
  }
  if (p.chunks < schedule.min_chunks) {
    problems.error(parallelism.reader.given("chunks") ? parallelism.reader.at("chunks") : here,
                   fmt::format("'{}' needs at least {} chunks per rank; set 'parallelism.chunks'", choice.name,
                               schedule.min_chunks));
    return;
  }
  if (p.chunks == 1 && p.pipeline > 1 && !schedule.one_chunk.empty())
    problems.warn(
        parallelism.reader.given("chunks") ? parallelism.reader.at("chunks") : here,
        fmt::format("'{}' with one chunk per rank is {}; set parallelism.chunks to 2 or more, or the schedule "
                    "to {}",
                    choice.name, schedule.one_chunk, schedule.one_chunk));
  // Only counts are checked here, so any times will do.
  const Time any{1'000'000};
  auto problem =
      schedule::uniform_problem(static_cast<std::uint32_t>(p.pipeline), static_cast<std::uint32_t>(microbatches),
                                static_cast<std::uint32_t>(p.chunks), any, any, any, Time{});
  choice.set_knobs(problem);
  problem.memory_limit.reset();  // limits are in units that this problem does not have
  try {
    schedule::check(schedule, problem);
  } catch (const UserError& e) {
    problems.error(here, e.diagnostics()[0].message);
  }
}

}  // namespace rehearsal::scenario
