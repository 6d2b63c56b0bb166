// Published layouts of runs against the search: their rank among all layouts that fit, the best layout that the
// framework of that time could run, and how much faster that is by our prediction. This is the table of
// docs/planning.md, which draws the conclusions. published_layouts.csv names the rows: rows of another table of this
// folder or shipped scenarios, which have the layout and its source.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "published/row_scenario.hpp"
#include "search/search.hpp"
#include "table.hpp"

using namespace rehearsal;

namespace {

// The choices that the framework had at that time.
struct Means {
  std::string keys, recompute;
};
const std::map<std::string, Means> kMeans{
    // No sequence parallelism and no selective recomputation before 2022; no sharded optimizer.
    {"megatron-2021",
     {"context: 1, sequence: false, zero: 0, schedules: [1f1b, gpipe, interleaved-1f1b]", "[none, full]"}},
    {"deepspeed-2021",
     {"context: 1, chunks: 1, sequence: false, zero: [0, 1], schedules: [1f1b, gpipe]", "[none, full]"}},
    {"meta-2024", {"zero: [0, 1], schedules: [1f1b, interleaved-1f1b]", "auto"}},
    {"nemo", {"zero: [0, 1], schedules: [1f1b, interleaved-1f1b]", "auto"}},
    {"nemo-fsdp", {"zero: [0, 1, 3], schedules: [1f1b, interleaved-1f1b]", "auto"}},
};

constexpr std::size_t kRanks = 30;  // counted at most

// The file of a row; removed after the test unless it is shipped.
class ScenarioFile {
 public:
  explicit ScenarioFile(const std::string& run) {
    if (run.ends_with(".yaml")) {
      path_ = PROJECT_ROOT "/" + run;
      return;
    }
    for (const char* table : {"training_runs", "recipes"})
      for (const auto& row : published::read_runs(fmt::format(TEST_DATA "/fidelity/{}.csv", table)))
        if (row.id == run) {
          const auto made = published::scenario_of(row, published::read_mapping(), published::FrameworkDetail::knobs);
          REQUIRE(!made.yaml.empty());
          sets_ = made.sets;
          path_ = (std::filesystem::temp_directory_path() / fmt::format("layouts-{}.yaml", ::getpid())).string();
          std::ofstream(path_) << made.yaml;
          ours_ = true;
          return;
        }
    FAIL("no such run: " << run);
  }
  ~ScenarioFile() {
    if (ours_) std::filesystem::remove(path_);
  }
  ScenarioFile(const ScenarioFile&) = delete;
  ScenarioFile& operator=(const ScenarioFile&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> sets(const std::string& more = "") const {
    auto all = sets_;
    if (!more.empty()) all.push_back(more);
    return all;
  }

 private:
  std::string path_;
  std::vector<std::string> sets_;
  bool ours_ = false;
};

// The layout of a scenario within a space.
std::optional<search::Layout> layout_of(const search::Space& space, const scenario::Scenario& s) {
  const auto& p = s.parallelism;
  const auto& names = space.schedules();
  for (const auto& family : space.families()) {
    auto layout = family.layout;
    if (layout.tensor != p.tensor || layout.context != p.context || layout.pipeline != p.pipeline ||
        layout.data != p.data || layout.micro != s.batch.micro || layout.sequence != p.sequence ||
        layout.recompute != s.concrete->training.recompute)
      continue;
    layout.chunks = std::int32_t(p.chunks), layout.zero = std::uint8_t(p.zero);
    for (const auto& order : space.orders(family.layout)) {
      // Without a pipeline all schedules are the same.
      if (p.pipeline > 1 && (order.chunks != p.chunks || names[order.schedule] != s.schedule.name)) continue;
      layout.schedule = order.schedule, layout.chunks = order.chunks;
      for (const auto& setting : space.settings(family.layout))
        if (setting.zero == layout.zero) return layout;
    }
  }
  return std::nullopt;
}

std::string text_of(const search::Layout& l) {
  const char* recompute = l.recompute == models::Recompute::none   ? "-"
                          : l.recompute == models::Recompute::full ? "full"
                                                                   : "sel";
  return fmt::format("t{}{} c{} p{}x{} d{} b{} z{} {}", l.tensor, l.sequence ? "s" : "", l.context, l.pipeline,
                     l.chunks, l.data, l.micro, l.zero, recompute);
}

// With contention, as `run` reports it.
Time in_full(const search::Space& space, const search::Layout& layout) {
  auto sets = space.file().sets;
  for (const auto& [key, value] : space.sets(layout)) sets.push_back(key + "=" + value);
  sets.emplace_back("simulate.contention=auto");
  return answer::predict(scenario::load(space.file().path, sets)).summary.iteration;
}

// A published layout in one space.
struct Ranked {
  std::uint64_t layouts = 0;
  std::optional<std::size_t> rank;  // nothing: it does not fit, or at least kRanks layouts are better
  bool fits = false;
  search::Layout published, best;
  Time theirs, ours;  // with contention
};
Ranked ranked(const ScenarioFile& file, const std::string& plan) {
  auto sets = file.sets("plan={" + plan + "}");
  sets.emplace_back("simulate.contention=off");  // ranks are by time without contention
  const search::Space space(scenario::load_plan(file.path(), sets));
  Ranked r;
  r.layouts = space.layouts();
  const auto published = layout_of(space, scenario::load(file.path(), file.sets()));
  REQUIRE_MESSAGE(published, "the published layout is one of the space");
  const auto there = search::evaluate(space, *published);
  REQUIRE(there);
  const auto outcome = search::search(space, {.threads = std::max(1u, std::thread::hardware_concurrency()),
                                              .best = kRanks,
                                              .proven = kRanks,
                                              .predict = false});
  REQUIRE(outcome.proven);
  REQUIRE(!outcome.top.empty());
  r.published = *published, r.best = outcome.top.front().layout;
  r.fits = there->device <= search::capacity(space, *published);
  if (r.fits) {
    CHECK(outcome.top.front().iteration <= there->iteration);
    const auto place = std::find_if(outcome.top.begin(), outcome.top.end(),
                                    [&](const auto& found) { return found.iteration >= there->iteration; });
    if (place != outcome.top.end()) r.rank = std::size_t(place - outcome.top.begin()) + 1;
  }
  r.theirs = in_full(space, r.published), r.ours = in_full(space, r.best);
  return r;
}

std::string rank_text(const Ranked& r) {
  return !r.fits ? "no fit" : r.rank ? std::to_string(*r.rank) : fmt::format("> {}", kRanks);
}
double gain(const Ranked& r) { return (r.theirs / r.ours - 1) * 100; }

}  // namespace

TEST_CASE("published layouts beside those that the search finds") {
  const char* only = std::getenv("REHEARSAL_LAYOUTS");  // part of a name; unset: only those that take seconds
  std::string text = fmt::format(
      "\n| run | published | time | layouts | rank | found | faster | recomputing alike: rank | "
      "found | faster |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<double> gains;
  for (const auto& row : fidelity::rows("published_layouts.csv", true)) {
    const auto& name = row.at("name");
    if (only ? name.find(only) == std::string::npos : row.at("when") != "always") continue;
    CAPTURE(name);
    const ScenarioFile file(row.at("run"));
    const auto& means = kMeans.at(row.at("means"));
    const auto recompute = scenario::load(file.path(), file.sets()).concrete->training.recompute;
    const auto all = ranked(file, means.keys + ", recompute: " + means.recompute);
    const auto alike = ranked(file, means.keys + ", recompute: " + scenario::name(recompute));
    gains.push_back(gain(alike));
    text += fmt::format("| {} | {} | {:.2f} s | {} | {} | {} | {:.1f} % | {} | {} | {:.1f} % |\n", name,
                        text_of(all.published), to_seconds(all.theirs), all.layouts, rank_text(all), text_of(all.best),
                        gain(all), rank_text(alike), text_of(alike.best), gain(alike));
  }
  MESSAGE(text);
  REQUIRE(!gains.empty());
  std::sort(gains.begin(), gains.end());
  // The authors tuned their layouts: if the search finds much more, the model lacks something.
  CHECK(gains[gains.size() / 2] < 8);
  CHECK(gains.back() < 18);
}
