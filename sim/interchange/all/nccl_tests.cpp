// What nccl-tests (and rccl-tests) print: times of one collective by size, among ranks whose hosts and GPUs are listed
// above them. A size is the whole array of an all-reduce, and of others the larger side (nccl-tests, doc/PERFORMANCE.md
// and src/*.cu), as curves of a scenario count it. Times are those of the faster of "out-of-place" and "in-place", and
// of several runs the least: a run that something else disturbed says nothing of the machine. What is left is kept as
// it is, also where it falls with the size.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/quantity_text.hpp"
#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "interchange/names.hpp"

namespace rehearsal::interchange {
namespace {

struct Operation {
  std::string_view program;  // that measures it, without "_perf"
  const char* ours;          // key of cluster.collectives.measured; null: there is no such curve
};
constexpr std::array kOperations{Operation{"all_reduce", "all_reduce"},
                                 Operation{"all_gather", "all_gather"},
                                 Operation{"reduce_scatter", "reduce_scatter"},
                                 Operation{"alltoall", nullptr},
                                 Operation{"alltoallv", nullptr},
                                 Operation{"broadcast", nullptr},
                                 Operation{"reduce", nullptr},
                                 Operation{"sendrecv", nullptr},
                                 Operation{"gather", nullptr},
                                 Operation{"scatter", nullptr},
                                 Operation{"hypercube", nullptr}};

// One table: what was measured among whom.
struct Sweep {
  int line = 0;  // of its first row, or of what names it
  std::string program = {}, how = {};
  std::map<std::string, int> ranks_of = {};  // host -> ranks
  int ranks = 0;
  std::string gpu = {};
  std::string version = {};
  std::map<std::int64_t, double> times = {};            // bytes -> microseconds
  std::vector<std::array<double, 2>> bandwidths = {};   // algbw, busbw of large sizes
  bool reduces = false;                                 // rows name an operation such as sum
  std::vector<std::pair<int, std::string>> wrong = {};  // lines with wrong results
};

bool is_header_of_tests(std::string_view line) { return line.find("nccl-tests version") != line.npos; }
bool is_columns(std::string_view line) {
  return line.starts_with('#') && line.find(" size ") != line.npos && line.find("algbw") != line.npos &&
         line.find("busbw") != line.npos;
}

bool recognises(const Source& source) {
  if (source.kind != Source::Kind::text) return false;
  const std::string_view text = source.text;
  return text.find("algbw") != text.npos && text.find("busbw") != text.npos && text.find("(us)") != text.npos;
}

// "23003" is 2.30.3; "2.18.3+cuda12.2" is 2.18.3.
std::string version_of(std::string_view word) {
  const auto number = integer_of(word.substr(0, word.find_first_not_of("0123456789")));
  if (word.find('.') == word.npos && number && *number >= 2000)
    return *number < 10000 ? fmt::format("{}.{}", *number / 1000, *number / 100 % 10)
                           : fmt::format("{}.{}", *number / 10000, *number / 100 % 100);
  const auto first = word.find('.');
  return first == word.npos ? "" : std::string(word.substr(0, word.find_first_not_of("0123456789", first + 1)));
}

// "#  Rank  0 Group  0 Pid  12574 on HOST device  0 [0000:06:00] NAME"; older: "[0x06]".
bool read_rank(const Line& line, Sweep& sweep) {
  const auto at = line.text.find("Rank");
  if (!line.text.starts_with('#') || at == std::string::npos || line.text.find(" device ") == std::string::npos)
    return false;
  const auto words = words_of(line.text);
  const auto on = std::find(words.begin(), words.end(), "on");
  if (on == words.end() || on + 1 == words.end()) return false;
  ++sweep.ranks_of[*(on + 1)], ++sweep.ranks;
  const auto bracket = line.text.find(']');
  if (bracket != std::string::npos && sweep.gpu.empty()) {
    auto name = line.text.substr(bracket + 1);
    name.erase(0, name.find_first_not_of(' '));
    sweep.gpu = name.substr(0, name.find_last_not_of(' ') + 1);
  }
  return true;
}

// size count type [redop [root]], and then twice time algbw busbw #wrong.
void read_row(const Source& source, const Line& line, Sweep& sweep) {
  const auto words = words_of(line.text);
  if (words.size() < 7 || line.text.starts_with('#')) return;
  const auto size = integer_of(words[0]);
  if (!size || !integer_of(words[1]) || *size < 0) return;
  const std::size_t groups = words.size() >= 11 ? 2 : 1;
  if (words.size() < 3 + 4 * groups) return;
  std::optional<double> least;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto at = words.size() - 4 * (groups - group);
    const auto time = number_of(words[at]), algorithm = number_of(words[at + 1]), bus = number_of(words[at + 2]);
    if (!time || !algorithm || !bus || *time < 0)
      throw UserError({{{source.name, line.number, 0},
                        fmt::format("no row of nccl-tests: '{} {} {}' are no time and bandwidths", words[at],
                                    words[at + 1], words[at + 2])}});
    if (const auto wrong = number_of(words[at + 3]); wrong && *wrong > 1e-3)
      sweep.wrong.emplace_back(line.number, words[at + 3]);
    if (*time > 0 && (!least || *time < *least)) least = time;
    if (*algorithm >= 1) sweep.bandwidths.push_back({*algorithm, *bus});
  }
  for (std::size_t i = 3; i < words.size() - 4 * groups; ++i)
    sweep.reduces |= words[i] == "sum" || words[i] == "prod" || words[i] == "min" || words[i] == "max" ||
                     words[i] == "avg" || words[i] == "mulsum";
  if (*size == 0 || !least) return;
  if (sweep.line == 0) sweep.line = line.number;
  const auto [there, fresh] = sweep.times.emplace(*size, *least);
  if (!fresh) there->second = std::min(there->second, *least);
}

// "all_reduce" of "all_reduce_perf" somewhere in a text.
std::string program_in(std::string_view text) {
  for (std::size_t at = text.find("_perf"); at != text.npos; at = text.find("_perf", at + 1)) {
    auto begin = at;
    while (begin > 0 && (std::isalpha(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '_')) --begin;
    const auto word = text.substr(begin, at - begin);
    for (const auto& one : kOperations)
      if (word == one.program) return std::string(word);
  }
  return {};
}

// By the bandwidth on the bus over that of the algorithm, which nccl-tests states of each operation, and by whether
// rows name what adds up. Empty: several have the same.
std::string program_by_bandwidth(const Sweep& sweep) {
  double ratio = 0;
  for (const auto& [algorithm, bus] : sweep.bandwidths) ratio += bus / algorithm;
  if (sweep.bandwidths.empty() || sweep.ranks < 3) return {};
  ratio /= double(sweep.bandwidths.size());
  const double share = double(sweep.ranks - 1) / sweep.ranks;
  const auto is = [ratio](double of) { return std::abs(ratio / of - 1) < .02; };
  if (sweep.reduces && is(2 * share)) return "all_reduce";
  if (sweep.reduces && is(share)) return "reduce_scatter";
  return {};
}

std::vector<Sweep> sweeps_of(const Source& source) {
  std::vector<Sweep> sweeps(1);
  std::string program, version, named;
  for (const auto& line : lines_of(source.text)) {
    const bool begins = is_header_of_tests(line.text) || line.text.find("Using devices") != std::string::npos;
    if (begins && !sweeps.back().times.empty()) sweeps.emplace_back(), program.clear();
    if (auto found = program_in(line.text); !found.empty()) program = found;
    for (const char* before : {"nccl-library=", "NCCL version "})
      if (const auto at = line.text.find(before); at != std::string::npos)
        if (auto found = version_of(std::string_view(line.text).substr(at + std::string_view(before).size()));
            !found.empty())
          version = found;
    auto& sweep = sweeps.back();
    if (!sweep.times.empty() && is_columns(line.text)) continue;
    if (!read_rank(line, sweep)) read_row(source, line, sweep);
    sweep.program = program, sweep.version = version;
    if (!program.empty()) sweep.how = "the program's name in the text";
  }
  std::erase_if(sweeps, [](const Sweep& sweep) { return sweep.times.empty(); });
  return sweeps;
}

void name_program(const Source& source, Sweep& sweep) {
  if (!sweep.program.empty()) return;
  const auto file = source.name.substr(source.name.rfind('/') + 1);
  sweep.program = program_by_bandwidth(sweep), sweep.how = "its bandwidths";
  if (!sweep.program.empty()) return;
  sweep.how = "the file's name";
  for (const auto& one : kOperations)
    if (file.find(one.program) != file.npos && one.program.size() > sweep.program.size()) sweep.program = one.program;
  if (sweep.program.empty())
    throw UserError(
        {{{source.name, sweep.line, 0},
          "which collective this is does not say before nccl-tests 2.18; put the name of the program into the file's, "
          "such as all_gather_perf.txt, or the line '# Collective test starting: all_gather_perf' in front of it"}});
}

// A curve in the draft, with what it has of an earlier file.
void put_curve(Sources& sources, const Source& source, const Sweep& sweep, ScenarioDraft& draft, const char* ours) {
  auto times = sweep.times;
  const auto key = fmt::format("cluster.collectives.measured.{}.{}", ours, sweep.ranks);
  if (const Json* before = draft.find(key)) {
    for (const auto& point : before->items()) {
      const double time = to_seconds(parse_time(point.items()[1].text())) * 1e6;
      const auto [there, fresh] = times.emplace(parse_bytes(point.items()[0].text()).count(), time);
      if (!fresh) there->second = std::min(there->second, time);
    }
    draft.remove(key);
  }
  auto points = Json::array();
  for (const auto& [size, time] : times) {
    auto point = Json::array();
    point.push_back(size_text(double(size)));
    point.push_back(fmt::format("{:.10g}us", time));
    points.push_back(std::move(point));
  }
  const auto* node = sources.make(scenario::Node::Kind::null, source.name, sweep.line);
  draft.say(key, std::move(points), *node,
            fmt::format("{}_perf of {} ranks ({})", sweep.program, sweep.ranks, sweep.how));
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  auto sweeps = sweeps_of(source);
  if (sweeps.empty())
    throw UserError({{{source.name, 0, 0}, "a table of nccl-tests without rows: no size was measured"}});
  for (auto& sweep : sweeps) {
    const auto at = [&](int line) { return Location{source.name, line, 0}; };
    name_program(source, sweep);
    if (sweep.ranks == 0)
      throw UserError({{at(sweep.line),
                        "which ranks measured this is not said: the lines '#  Rank  0 ... on HOST device ...' are "
                        "missing; give the whole output of nccl-tests"}});
    for (const auto& [line, wrong] : sweep.wrong)
      throw UserError({{at(line), fmt::format("{} wrong values: what computes wrong is no measurement", wrong)}});
    const auto operation = std::find_if(kOperations.begin(), kOperations.end(),
                                        [&](const Operation& one) { return one.program == sweep.program; });
    const char* ours = operation == kOperations.end() ? nullptr : operation->ours;
    if (!ours) {
      draft.no_word(at(sweep.line), sweep.program + "_perf", "curves are of all-reduce, all-gather and reduce-scatter");
      continue;
    }
    put_curve(sources, source, sweep, draft, ours);
    const auto* node = sources.make(scenario::Node::Kind::null, source.name, sweep.line);
    const auto each = sweep.ranks / int(sweep.ranks_of.size());
    if (sweep.ranks_of.size() > 1) {
      for (const auto& [host, ranks] : sweep.ranks_of)
        if (ranks != each)
          throw UserError(
              {{at(sweep.line), fmt::format("host {} has {} of the {} ranks on {} hosts; curves are of hosts "
                                            "with as many each",
                                            host, ranks, sweep.ranks, sweep.ranks_of.size())}});
      draft.say("cluster.collectives.measured_on.gpus", each, *node,
                fmt::format("{} ranks on {} hosts", sweep.ranks, sweep.ranks_of.size()));
    }
    if (!sweep.version.empty()) draft.say("cluster.collectives.measured_on.nccl", sweep.version, *node);
    if (const auto named = cluster_with(sweep.gpu, sources.files()))
      draft.say("cluster.use", *named, *node, fmt::format("GPUs called '{}'", sweep.gpu));
    else
      draft.wanted(at(sweep.line), "cluster.use",
                   sweep.gpu.empty() ? std::string("GPUs without a name") : fmt::format("GPUs called '{}'", sweep.gpu),
                   "the name of the machine: --cluster NAME (rehearse list clusters)");
  }
}

}  // namespace

void register_nccl_tests(Registry& registry) {
  registry.add({.name = "nccl-tests",
                .title = "an output of nccl-tests",
                .summary = "all_reduce_perf and others: `cluster.collectives`, measured",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
