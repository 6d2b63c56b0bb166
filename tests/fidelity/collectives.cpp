// NCCL's measured collectives against our predictions, always on measurements that the prediction has not seen. Every
// row of the tables has its source.
//   every second size:  a size curve of every other point predicts the points between
//   a system left out:  links alone (collective/choice.hpp), constants fitted on the other systems
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "../links.hpp"
#include "cluster/fields.hpp"
#include "collective/choice.hpp"
#include "collective/registry.hpp"
#include "collective/size_curve.hpp"
#include "cost/cost_model.hpp"
#include "scenario/cluster_file.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;
using test::Fit;

namespace {

constexpr double kLarge = 256e6;  // bytes

std::vector<std::vector<std::string>> cells(const std::string& file) {
  std::ifstream in(TEST_DATA "/fidelity/" + file);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(in, line);  // header
  while (std::getline(in, line)) {
    auto& row = rows.emplace_back();
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) row.push_back(cell);
  }
  return rows;
}

struct Sweep {
  std::string name, system;  // system: H100 counts as H200, which has the same links and switches
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::uint32_t ranks = 0;
  bool ring = false;  // NCCL was not allowed to reduce in the switch
  int links = -1;  // hybrid cube mesh: of a GPU's 6 NVLinks, those on rings through only these GPUs; 0 = no such ring
  std::vector<Point> points;
};

std::vector<Sweep> sweeps() {
  std::map<std::string, Sweep> all;
  for (const auto& row : cells("collectives.csv")) {
    const auto name = fmt::format("{:<19} {} x{} {}", row[0], row[1], row[3], row[2]);
    auto& s = all[name];
    s.name = name, s.system = row[1], s.ranks = static_cast<std::uint32_t>(std::stoul(row[3]));
    s.kind = row[2] == "all_reduce"   ? CollectiveKind::all_reduce
             : row[2] == "all_gather" ? CollectiveKind::all_gather
                                      : CollectiveKind::reduce_scatter;
    s.ring = row[5] == "ring";
    if (!row[6].empty()) s.links = std::stoi(row[6]);
    s.points.push_back({Bytes(std::stoll(row[7])), seconds(std::stod(row[8]) * 1e-6)});
  }
  std::vector<Sweep> list;
  for (auto& [name, s] : all) {
    std::sort(s.points.begin(), s.points.end(), [](const Point& a, const Point& b) { return a.size < b.size; });
    list.push_back(std::move(s));
  }
  return list;
}

struct Errors {
  std::vector<double> all, from_1mb, large;  // |predicted/measured - 1|
  void add(Bytes size, double predicted, Time measured) {
    const double e = std::abs(predicted / to_seconds(measured) - 1);
    all.push_back(e);
    if (double(size.count()) >= 1e6) from_1mb.push_back(e);
    if (double(size.count()) > kLarge) large.push_back(e);
  }
};

double mean(const std::vector<double>& e) {
  return e.empty() ? 0 : std::accumulate(e.begin(), e.end(), 0.) / double(e.size());
}
double p90(std::vector<double> e) {
  std::sort(e.begin(), e.end());
  return e.empty() ? 0 : e[std::min(e.size() - 1, e.size() * 9 / 10)];
}
std::string percent(const std::vector<double>& e) {
  return e.empty() ? "     -" : fmt::format("{:6.1f}", 100 * mean(e));
}

std::string line(const std::string& name, const Errors& e) {
  return fmt::format("{:<48} {:>6} {} {:6.1f} {} {}\n", name, e.all.size(), percent(e.all), 100 * p90(e.all),
                     percent(e.from_1mb), percent(e.large));
}
const std::string kHeader = fmt::format("\n{:<48} {:>6} {:>6} {:>6} {:>6} {:>6}   errors in %\n", "sweep", "points",
                                        "mean", "p90", ">=1MB", ">256MB");

// ---- links alone: T is linear in (launch, step, 1/ring, sqrt(ramp/ring)) and the same three of the switch.
constexpr std::size_t kTerms = 7;
using Terms = std::array<double, kTerms>;

int generation_of(const Sweep& s) {
  static const std::map<std::string, int> numbers{{"V100", 2}, {"A100", 3}, {"H100", 4}, {"H200", 4}, {"B200", 5}};
  return numbers.at(s.system);
}
cluster::Interconnect links_of(const Sweep& s, const Fit& fit) {
  auto links = test::nvlink(generation_of(s), fit);
  if (s.ring) links.switch_share = 0;
  return links;
}
Bandwidth rate_of(const Sweep& s) {
  return Bandwidth(test::as_sold(generation_of(s)) * (s.links > 0 ? s.links / 6. : 1));
}

Choice predicted(const Sweep& s, Bytes size, const Fit& fit = {}) {
  Wires wires;
  wires.rate = rate_of(s), wires.latency = fit.step;
  return inside_node(s.kind, s.ranks, size, wires, {links_of(s, fit), test::nccl()});
}

Terms terms(const Sweep& s, Bytes size) {
  const auto links = links_of(s, {});
  const auto& algorithm = *predicted(s, size).algorithm;
  const bool nvls = algorithm.name == "nvls-all-reduce";
  Wires wires;
  wires.rate = rate_of(s) * (nvls ? links.switch_share / Fit{}.nvls : links.ring_share / Fit{}.ring);
  const double w = algorithm.time(s.ranks, size, wires);
  if (nvls) return {0, 0, 0, 0, 1, w, std::sqrt(w)};
  return {1, double(algorithm.steps(s.ranks)), w, std::sqrt(w), 0, 0, 0};
}

// Least absolute relative errors with non-negative constants, by iteratively reweighted least squares. All sweeps weigh
// the same, whatever their number of sizes.
Fit fitted(const std::vector<const Sweep*>& from) {
  struct Row {
    Terms x;
    double sweep, weight;
  };
  std::vector<Row> rows;
  Terms scale{};
  for (const auto* s : from) {
    for (const auto& p : s->points) {
      Row row{terms(*s, p.size), 1. / double(s->points.size()), 1};
      for (auto& t : row.x) t /= to_seconds(p.time);
      for (std::size_t j = 0; j < kTerms; ++j) scale[j] = std::max(scale[j], row.x[j]);
      rows.push_back(row);
    }
  }
  Terms c{};
  for (int round = 0; round < 60; ++round) {
    std::array<Terms, kTerms> normal{};
    Terms right{};
    for (const auto& r : rows)
      for (std::size_t i = 0; i < kTerms; ++i) {
        if (scale[i] <= 0) continue;
        right[i] += r.sweep * r.weight * r.x[i] / scale[i];
        for (std::size_t j = 0; j < kTerms; ++j)
          if (scale[j] > 0) normal[i][j] += r.sweep * r.weight * r.x[i] / scale[i] * r.x[j] / scale[j];
      }
    for (int pass = 0; pass < 5000; ++pass)
      for (std::size_t i = 0; i < kTerms; ++i) {
        if (normal[i][i] <= 0) continue;
        double rest = right[i];
        for (std::size_t j = 0; j < kTerms; ++j)
          if (j != i) rest -= normal[i][j] * c[j];
        c[i] = std::max(0., rest / normal[i][i]);
      }
    for (auto& r : rows) {
      double predicted = 0;
      for (std::size_t j = 0; j < kTerms; ++j)
        if (scale[j] > 0) predicted += c[j] * r.x[j] / scale[j];
      r.weight = 1 / std::max(.01, std::abs(predicted - 1));
    }
  }
  for (std::size_t j = 0; j < kTerms; ++j)
    if (scale[j] > 0) c[j] /= scale[j];
  Fit fit;
  fit.launch = c[0], fit.step = c[1], fit.ring = 1 / c[2], fit.ramp = c[3] * c[3] / c[2];
  if (c[5] > 0) fit.nvls_launch = c[4], fit.nvls = 1 / c[5], fit.nvls_ramp = c[6] * c[6] / c[5];
  return fit;
}

std::string text(const Fit& f) {
  return fmt::format(
      "  launch {:.1f} us, step {:.2f} us, ring {:.3f}, ramp {:.0f} us; switch: {:.0f} us, {:.3f}, {:.1f} us\n",
      f.launch * 1e6, f.step * 1e6, f.ring, f.ramp * 1e6, f.nvls_launch * 1e6, f.nvls, f.nvls_ramp * 1e6);
}

}  // namespace

TEST_CASE("a size curve of every second size predicts the others") {
  // The two misses: small all-gathers on 8 H200 scatter by 25 % between sizes; B200 jumps from 423 to 479 GB/s between
  // 4 and 8 GiB.
  const std::map<std::string, std::pair<double, double>> misses{
      {"aiconfigurator      H200 x8 all_gather", {.115, .03}}, {"ml-engineering      B200 x8 all_reduce", {.08, .045}}};
  std::string table = kHeader;
  std::size_t judged = 0, missed = 0;
  for (const auto& s : sweeps()) {
    if (s.points.size() < 4) continue;
    std::vector<Point> known;
    for (std::size_t i = 0; i < s.points.size(); i += 2) known.push_back(s.points[i]);
    Errors errors;
    for (std::size_t i = 1; i < s.points.size(); i += 2)
      errors.add(s.points[i].size, interpolate(known, s.points[i].size), s.points[i].time);
    table += line(s.name, errors);
    ++judged;
    CAPTURE(s.name);
    const auto miss = misses.find(s.name);
    missed += miss != misses.end();
    const auto [aim, aim_large] = miss != misses.end() ? miss->second : std::pair{.08, .03};
    CHECK(mean(errors.all) <= aim);
    CHECK(mean(errors.large) <= aim_large);
  }
  MESSAGE(table);
  CHECK(judged == 43);
  CHECK(missed == misses.size());
}

TEST_CASE("a system left out is predicted from its links") {
  // Limits of a system's mean error: over all sizes, and above 256 MB. The goals (8 and 3 %) are missed: small messages
  // differ as much between set-ups of one machine (1 MiB on 8 A100: 51, 93 and 102 us); rings of two ranks do not reach
  // the rate of larger ones; and direct links (V100) reach .90 of their rate where NCCL's tables assume .80.
  struct MessagePath {
    std::string out;
    double all, large;
  };
  const auto all = sweeps();
  std::string table = kHeader;
  for (const auto& reached : std::vector<MessagePath>{
           {"A100", .26, .09}, {"H200", .21, .05}, {"B200", .06, .04}, {"V100", .25, .17}, {"", .13, .06}}) {
    std::vector<const Sweep*> known, held;
    for (const auto& s : all)
      if (s.links != 0) (s.system == reached.out ? held : known).push_back(&s);
    if (reached.out.empty()) held = known;
    const Fit fit = fitted(known);
    table += fmt::format("--- constants fitted {}\n{}", reached.out.empty() ? "on all" : "without " + reached.out,
                         text(fit));
    std::vector<double> means, from_1mb, large, plain, plain_large;
    for (const auto* s : held) {
      Errors errors, rings;
      for (const auto& p : s->points) {
        const auto rate = rate_of(*s);
        errors.add(p.size, predicted(*s, p.size, fit).seconds, p.time);
        const auto& ring = registry().at(std::string("ring-") + name(s->kind));
        rings.add(p.size, ring.time(s->ranks, p.size, {0, 2e-6, rate * .8, 0, {}}), p.time);
      }
      if (!reached.out.empty()) table += line(s->name, errors);
      means.push_back(mean(errors.all)), from_1mb.push_back(mean(errors.from_1mb)), plain.push_back(mean(rings.all));
      if (errors.large.empty()) continue;
      large.push_back(mean(errors.large)), plain_large.push_back(mean(rings.large));
    }
    table += fmt::format(
        "    mean of {} sweeps {:.1f}, from 1 MB on {:.1f}, above 256 MB {:.1f}; a ring at .8 of the link and 2 us a "
        "step: {:.1f}, above 256 MB {:.1f}\n",
        held.size(), 100 * mean(means), 100 * mean(from_1mb), 100 * mean(large), 100 * mean(plain),
        100 * mean(plain_large));
    CAPTURE(reached.out);
    CHECK(mean(means) <= reached.all);
    CHECK(mean(large) <= reached.large);
    if (!reached.out.empty()) continue;
    // Our constants are this fit, here and in configs/interconnects.
    const Fit kept;
    for (const int generation : {2, 3, 4, 5}) {
      const auto file = scenario::named_interconnect(fmt::format("nvlink-{}", generation));
      const auto of_fit = test::nvlink(generation, kept);
      for (const auto& field : cluster::interconnect_fields().fields) {
        CAPTURE(field.key);
        const auto a = field.get(&file), b = field.get(&of_fit);
        if (const auto* share = std::get_if<double>(&a))
          CHECK(*share == doctest::Approx(std::get<double>(b)).epsilon(1e-5));
        else if (!(generation < 4 && field.key.starts_with("switch_")))
          CHECK(fields::written(a) == fields::written(b));
      }
    }
    CHECK(kept.launch == doctest::Approx(fit.launch).epsilon(.03));
    CHECK(kept.step == doctest::Approx(fit.step).epsilon(.03));
    CHECK(kept.ring == doctest::Approx(fit.ring).epsilon(.01));
    CHECK(kept.ramp == doctest::Approx(fit.ramp).epsilon(.05));
    CHECK(kept.nvls_launch == doctest::Approx(fit.nvls_launch).epsilon(.03));
    CHECK(kept.nvls == doctest::Approx(fit.nvls).epsilon(.01));
    CHECK(kept.nvls_ramp == doctest::Approx(fit.nvls_ramp).epsilon(.05));
  }
  MESSAGE(table);
}

TEST_CASE("NVLS: one rate per generation reproduces seven published points") {
  // 8 GiB on 5..8 H200 and 6..8 B200: busbw 414.2 435.6 460.0 473.1, 778.2 811.2 838.0 GB/s. B = .823 x .85 x 450 = 315
  // and .823 x .74 x 900 = 548 GB/s; a ring's plateau (366, 680) would be the same for all.
  std::size_t points = 0;
  for (const auto& s : sweeps()) {
    if (!s.name.starts_with("ml-engineering nvls")) continue;
    for (const auto& p : s.points) {
      const auto choice = predicted(s, p.size);
      CHECK(choice.algorithm->name == "nvls-all-reduce");
      CHECK(choice.seconds == doctest::Approx(to_seconds(p.time)).epsilon(.02));
      ++points;
    }
  }
  CHECK(points == 8);  // the seven, and 16 GiB on 8 H200
}
