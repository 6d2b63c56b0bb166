#include <fmt/format.h>

#include "base/spelling.hpp"
#include "scenario/load.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::scenario {
namespace {

void read_name(Diagnostics& problems, const Node& node, ScheduleChoice& choice) {
  const auto name = read_text(problems, node, "'schedule'");
  if (!name) return;
  if (schedule::registry().find(*name))
    choice.name = *name;
  else
    problems.error(node.where(), fmt::format("unknown schedule {}{}", in_quotes(*name),
                                             suggestion(*name, schedule::registry().names())));
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
  if (map.given("file"))
    map.unbuilt("file", "", "schedules from a file are"), map.find("name");
  else if (const Node* name = map.require("name", "a name of 'rehearse list schedules'"))
    read_name(problems, *name, choice), map.find("file");
  const auto small = [](std::optional<std::int64_t> n) {
    return n ? std::optional(static_cast<std::uint32_t>(*n)) : std::nullopt;
  };
  choice.group = small(map.optional_integer("group", kCount));
  choice.extra_warmup = small(map.optional_integer("extra_warmup", {0, kCount.high}));
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
  map.unbuilt("time_limit", "", "a time limit of schedule searches is");
  map.finish();
  return choice;
}

void check_schedule(Context& context, const ScheduleChoice& choice, const Node* node,
                    const ParallelismChoice& parallelism, std::int64_t microbatches) {
  auto& problems = context.problems;
  const auto& schedule = schedule::registry().at(choice.name);
  const auto& p = parallelism.value;
  const Location here = node ? node->where() : parallelism.reader.place().where();
  if (p.chunks > schedule.max_chunks) {
    const bool one = schedule.max_chunks == 1;
    problems.error(parallelism.reader.at("chunks"),
                   fmt::format("'{}' takes {}, found 'chunks' {}{}", choice.name,
                               one ? std::string("one chunk per rank")
                                   : fmt::format("at most {} chunks per rank", schedule.max_chunks),
                               p.chunks, one && choice.name == "1f1b" ? "; use 'interleaved-1f1b'" : ""));
    return;
  }
  if (p.chunks < schedule.min_chunks) {
    problems.error(parallelism.reader.given("chunks") ? parallelism.reader.at("chunks") : here,
                   fmt::format("'{}' needs at least {} chunks per rank; set parallelism.chunks", choice.name,
                               schedule.min_chunks));
    return;
  }
  // The rules of a schedule speak of counts; any times will do.
  const Time any{1'000'000};
  auto problem =
      schedule::uniform_problem(static_cast<std::uint32_t>(p.pipeline), static_cast<std::uint32_t>(microbatches),
                                static_cast<std::uint32_t>(p.chunks), any, any, any, Time{});
  problem.group = choice.group;
  problem.extra_warmup = choice.extra_warmup;
  try {
    schedule::check(schedule, problem);
  } catch (const UserError& e) {
    problems.error(here, e.diagnostics()[0].message);
  }
}

}  // namespace rehearsal::scenario
