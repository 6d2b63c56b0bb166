// Every member of every struct of a scenario is described, and every described field has an effect.
#include "scenario/fields.hpp"

#include <map>
#include <set>

#include "cluster/fields.hpp"
#include "helpers.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// Three scenarios that together contain every part.
std::vector<Scenario> examples() {
  return {load_text(kGood + "partition: [11, 12, 12, 12, 12, 12, 12, 13]\n"), load_text(kGoodAbstract),
          load_text(with(kGood, "gpt3-175b", "deepseek-v3")), load_text(with(kGood, "gpt3-175b", "qwen3-vl-32b"))};
}

}  // namespace

TEST_CASE("a member more, and the description does not compile: members are counted") {
  struct Three {
    int a;
    std::optional<double> b;
    std::map<std::string, std::vector<int>> c;
  };
  static_assert(fields::detail::arity<Three>() == 3);
  struct Nested {
    Three three;
    std::string name;
    Time time;
    bool flag = true;
  };
  static_assert(fields::detail::arity<Nested>() == 4);
}

TEST_CASE("keys are described once") {
  std::set<std::string> known;
  for (const auto& field : scenario_fields().fields) CHECK_MESSAGE(known.insert(field.key).second, field.key);
  CHECK(known.size() > 120);
}

TEST_CASE("whatever value of a scenario changes, its digest changes") {
  std::set<std::string> moved;
  for (auto scenario : examples()) {
    if (scenario.concrete) {
      auto& job = scenario.job.emplace();
      job.failures.emplace(), job.evaluation.emplace();
      job.checkpoint.host.emplace(), job.checkpoint.peer.emplace();
      job.ramp.emplace().samples = Count(1e6);
    }
    const auto before = digest(scenario);
    for (const auto& field : scenario_fields().fields) {
      if (!field.set) continue;
      for (const auto& value : fields::others(field, field.get(&scenario))) {
        Scenario changed = scenario;
        field.set(&changed, value);
        if (field.get(&changed) == field.get(&scenario)) continue;  // of the other kind of scenario
        moved.insert(field.key);
        CAPTURE(field.key);
        CAPTURE(fields::written(value));
        CHECK((digest(changed) != before) == field.acts);
      }
    }
  }
  // What cannot be set so: tables (below), curves and times that the examples do not have.
  for (const auto& field : scenario_fields().fields)
    if (moved.count(field.key) == 0) {
      CAPTURE(field.key);
      CHECK((field.key.find("collectives.") != std::string::npos || field.key == "cluster.profile" ||
             field.key == "cluster.library" || field.key == "cluster.written_links" || field.key == "cluster.groups" ||
             field.key == "faults" || field.key == "experts.skew" || field.key == "parallelism.stages" ||
             field.key == "costs.edges" || field.key == "job.phases" || field.key == "job.stops" ||
             field.key == "batch.microbatches" || field.key == "model.listed_layers"));
    }
  auto scenario = examples().front();
  const auto before = digest(scenario);
  auto linked = scenario;
  linked.concrete->cluster.written = {{"gpu0", "gpu1", Bandwidth(1e9), Time(1)}};
  CHECK(digest(linked) != before);
  auto with_library = scenario;
  with_library.concrete->cluster.library.algorithms["ring-all-reduce"].since = Version{2, 1};
  CHECK(digest(with_library) != before);
  auto own_steps = scenario;
  own_steps.concrete->cluster.library.nccl_protocols = false;
  CHECK(digest(own_steps) != before);
  auto laid_out = scenario;
  laid_out.parallelism.layouts.resize(2);
  const auto one_way = digest(laid_out);
  CHECK(one_way != before);
  laid_out.parallelism.layouts[1].sharding = reshard::parse_spec("S0RS1");
  CHECK(digest(laid_out) != one_way);
  auto planned = scenario;
  planned.job.emplace();
  const auto at_once = digest(planned);
  planned.job->stops.emplace_back();
  CHECK(digest(planned) != at_once);
  planned.job->stops.clear(), planned.job->phases.emplace_back();
  CHECK(digest(planned) != at_once);
  auto skewed = scenario;
  skewed.concrete->experts.skew.kind = models::Skew::Kind::zipf;
  CHECK(digest(skewed) != before);
  REQUIRE_FALSE(scenario.concrete->curves.measured.empty());
  scenario.concrete->curves.measured.begin()->second.front().time += Time(1);
  CHECK(digest(scenario) != before);
}

TEST_CASE("what does not act is argued here") {
  std::set<std::string> labels;
  for (const auto& field : scenario_fields().fields)
    if (!field.acts) labels.insert(field.key);
  CHECK(labels == std::set<std::string>{"name"});  // a title
}

TEST_CASE("a value written as the description writes it is read as the same value") {
  const auto scenario = examples().front();
  Diagnostics problems;
  Documents documents(problems);
  for (const auto& field : scenario_fields().fields) {
    const auto value = field.get(&scenario);
    if (!field.key_of_files || value.absent() || (field.form.list && !field.form.each_once && !field.form.set) ||
        field.form.kind == fields::Form::Kind::table || value == fields::Value(std::string{}))
      continue;
    CAPTURE(field.key);
    const Node* node = documents.read_text(fields::written(value), "test");
    REQUIRE(node);
    Diagnostics complaints;
    const auto read = read_value(complaints, *node, field.key, field.form);
    if (value == fields::Value(Bytes{}) || value == fields::Value(std::int64_t{0})) continue;  // absent, not 0
    REQUIRE(read);
    CHECK(*read == value);
  }
}

TEST_CASE("any number of a named cluster or GPU may be set, cited alone or with others") {
  const auto rate = [](const std::string& set) {
    return load_text(kGood, {set}).concrete->cluster.gpu.peak.at(Precision::bf16).value();
  };
  CHECK(rate("cluster.gpu.peak.bf16=900TFLOP/s") == 900e12);
  CHECK(rate("cluster.gpu={peak: {bf16: 900TFLOP/s}}") == 900e12);
  CHECK(rate("cluster.gpu.peak={bf16: {value: 900TFLOP/s, source: a data sheet}}") == 900e12);
  const auto s = load_text(kGood, {"cluster.gpu.peak.bf16=900TFLOP/s"}).concrete->cluster.gpu;
  CHECK(s.peak.at(Precision::fp16).value() == 312e12);
  CHECK(s.sources.count("peak.fp16") == 1);
  CHECK(s.sources.count("peak.bf16") == 0);  // its source is the user
  // Every number of the file, by the key that is described.
  const auto before = load_text(kGood);
  for (const auto& field : scenario_fields().fields) {
    if (!field.key_of_files || !field.key.starts_with("cluster.") || field.key.find("collectives") != std::string::npos)
      continue;
    const auto now = field.get(&before);
    if (!field.form.measurable() || now.absent() || now == fields::Value(FlopRate{})) continue;
    const auto moved = fields::scaled(field.form, now, .99);
    if (!moved || now == fields::Value(std::int64_t{0}) || field.key.ends_with("per_node")) continue;  // must divide
    CAPTURE(field.key);
    const auto after = load_text(kGood, {field.key + "=" + fields::written(*moved)});
    CHECK(field.get(&after) == *moved);
    CHECK(after.digest != before.digest);
  }
}

TEST_CASE("an inline set of curves may have a source of its own") {
  const auto s = load_text(kGood, {"cluster.collectives={use: a100-nvswitch, source: our own cluster}"});
  CHECK(s.concrete->curves.source == "our own cluster");
}

TEST_CASE("a named GPU with fewer multiprocessors keeps the rate of each") {
  const auto gpu = load_text(kGood, {"cluster.gpu.sms=54"}).concrete->cluster.gpu;  // half of 108
  CHECK(gpu.peak.at(Precision::bf16).value() == 156e12);
  CHECK(gpu.fused_attention_rate.value() == doctest::Approx(104e12));
  const auto both = load_text(kGood, {"cluster.gpu.sms=54", "cluster.gpu.peak.bf16=312TFLOP/s"}).concrete->cluster.gpu;
  CHECK(both.peak.at(Precision::bf16).value() == 312e12);
  CHECK(both.peak.at(Precision::fp16).value() == 156e12);
}

TEST_CASE("a named GPU with another memory keeps the share of it that kernels reach") {
  const auto gpu = load_text(kGood, {"cluster.gpu.memory_bandwidth=4078GB/s"}).concrete->cluster.gpu;  // twice 2039
  CHECK(gpu.sustained_memory_bandwidth.value() == doctest::Approx(2 * 1620e9));
  const auto both =
      load_text(kGood, {"cluster.gpu.memory_bandwidth=4078GB/s", "cluster.gpu.sustained_memory_bandwidth=2TB/s"})
          .concrete->cluster.gpu;
  CHECK(both.sustained_memory_bandwidth.value() == 2e12);
}

}  // namespace rehearsal::scenario
