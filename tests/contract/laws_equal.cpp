// Laws of equality: equivalent input is answered equally, whatever its form; and an option that does not name an axis
// leaves the bytes of that axis unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "laws.hpp"

namespace rehearsal::contract {

namespace {

constexpr double kDetail = .02;

void same(Trial& trial, const Sets& one, const Sets& other, const std::string& what) {
  const auto a = trial.ask(one), b = trial.ask(other);
  if (!a || !b) return;
  trial.hold(a->summary.iteration == b->summary.iteration && a->summary.peak.allocated == b->summary.peak.allocated,
             other,
             fmt::format("{} (beside {}): {} -> {} ps, {} -> {} bytes", what, fmt::join(one, " "),
                         a->summary.iteration.count(), b->summary.iteration.count(), a->summary.peak.allocated,
                         b->summary.peak.allocated));
}

// The lines of a file, without comments and what only names it, below a key.
std::string inlined(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  std::string text = key + ":\n", line;
  while (std::getline(in, line))
    if (!line.empty() && line[0] != '#' && !line.starts_with("summary:")) text += "  " + line + "\n";
  return text;
}

// The same text with a top-level line in the place of another.
std::string replaced(const std::string& text, const std::string& key, const std::string& by) {
  const auto at = text.find("\n" + key + ":");
  if (at == std::string::npos) return text + by;
  auto end = text.find('\n', at + 1);
  while (end + 1 < text.size() && text[end + 1] == ' ') end = text.find('\n', end + 1);
  return text.substr(0, at + 1) + by + text.substr(end + 1);
}

std::optional<answer::Result> answer_to(const std::string& text) {
  try {
    return answer::predict(scenario::load_text(text, "law.yaml"), answer::Options::summary_alone());
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void same_text(Trial& trial, const std::string& other, const std::string& what) {
  const auto a = trial.ask();
  if (!a) return;
  const auto b = answer_to(other);
  trial.hold(b && a->summary.iteration == b->summary.iteration && a->summary.mfu == b->summary.mfu, {},
             fmt::format("{}: {} -> {} ps, of\n{}", what, a->summary.iteration.count(),
                         b ? b->summary.iteration.count() : 0, other));
}

// Axes whose bytes an option must not change.
struct Option {
  const char* set;
  std::vector<double answer::AxisBytes::*> untouched;
};
using A = answer::AxisBytes;
const std::vector<Option> kOptions{
    {"training.offload.activations=host", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.offload.optimizer=host", {&A::tensor, &A::pipeline, &A::context, &A::expert}},
    {"training.partition_activations=device", {&A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.partition_activations=host", {&A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.recompute=full", {&A::data, &A::pipeline}},
    {"training.recompute=selective", {&A::data, &A::pipeline}},
    {"training.kernels=unfused", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.moments=int8", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.allocator=exact", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.defragment=true", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.causal=false", {&A::tensor, &A::data, &A::pipeline, &A::expert}},
    {"training.overlap.pipeline=true", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"training.overlap.gradients=true", {&A::tensor, &A::pipeline, &A::context, &A::expert}},
    {"simulate.detail=operator", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"simulate.detail=stage", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"simulate.contention=off", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"experts.balance=eplb", {&A::tensor, &A::data, &A::pipeline, &A::context}},
    {"experts.skew={zipf: 0.7}", {&A::tensor, &A::data, &A::pipeline, &A::context}},
    {"experts.capacity=1.25", {&A::data, &A::pipeline, &A::context}},
    {"framework.cuda_graph=full", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"cluster.links.scale_out.latency=99us", {&A::pipeline, &A::context, &A::expert}},
    {"cluster.message_overhead=1ms", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}},
    {"cluster.gpu.memory=400GB", {&A::tensor, &A::data, &A::pipeline, &A::context, &A::expert}}};

}  // namespace

TEST_CASE("law: equal loads are uniform, in any unit") {
  keeps({"equal loads are uniform", 80, true}, [](Trial& trial) {
    const auto& m = trial.model();
    if (!m.is_moe()) return;
    const double each = double(1 + trial.random.below(9)) / 4;
    same(trial, {"experts.skew=uniform"}, {"experts.skew={zipf: 0}"}, "zipf 0");
    same(trial, {"experts.skew=uniform"},
         {fmt::format("experts.skew=[{}]", fmt::join(std::vector<double>(std::size_t(m.experts), each), ", "))},
         "equal loads");
  });
}

TEST_CASE("law: options without effect change nothing") {
  keeps({"what cannot act changes nothing", 100, true}, [](Trial& trial) {
    const auto& p = trial.parallelism();
    if (trial.model().is_moe())
      same(trial, {"experts.skew=uniform"}, {"experts.skew=uniform", "experts.balance=eplb"}, "even loads, balanced");
    if (p.context == 1)
      for (const char* kind : {"ring", "all-gather", "all-to-all"})
        same(trial, {}, {fmt::format("training.context={}", kind)}, "a context of one");
    if (p.tensor == 1) same(trial, {}, {"parallelism.sequence=true"}, "sequence parallelism of one");
    if (p.pipeline == 1 && p.chunks == 1) same(trial, {}, {"schedule=eager-1f1b"}, "the schedule of one stage");
    // Servers are sent buckets by a worker that is alone, too.
    if (p.data == 1 && p.context == 1 && p.zero == 0 && !trial.scenario().data_parallel.served())
      same(trial, {}, {"training.bucket=3MB"}, "buckets of one replica");
  });
}

TEST_CASE("law: names say nothing") {
  keeps({"names say nothing", 60, true}, [](Trial& trial) {
    for (const char* what : {"model.name=x", "cluster.name=x", "cluster.gpu.name=x", "name=x", "cluster.summary=x"})
      same(trial, {}, {what}, "a name");
  });
}

TEST_CASE("law: a fault of nothing is none") {
  keeps({"a fault of nothing is none", 60}, [](Trial& trial) {
    const std::array faults{"{gpu: 0, slowdown: 1}", "{nvlink: 0, rate: 1}", "{nic: 0, rate: 1}"};
    const auto fault = faults[trial.random.below(faults.size())];
    // Both with a rank for each: a fault makes its rank a class of its own.
    same(trial, {"simulate.symmetry=off"}, {"simulate.symmetry=off", fmt::format("faults=[{}]", fault)},
         "a fault of nothing");
  });
}

TEST_CASE("law: coarse tasks and fine ones say the same step") {
  keeps({"coarse = fine", 80}, [](Trial& trial) {
    const auto stage = trial.ask({"simulate.detail=stage"});
    for (const char* detail : {"layer", "operator"}) {
      const Sets sets{fmt::format("simulate.detail={}", detail)};
      const auto fine = trial.ask(sets);
      if (stage && fine) trial.within(step(*fine) / step(*stage), 1 - kDetail, 1 + kDetail, sets, "step, times");
    }
  });
}

TEST_CASE("law: classes of equal ranks answer as all ranks do") {
  keeps({"symmetry off = auto", 80, true},
        [](Trial& trial) { same(trial, {}, {"simulate.symmetry=off"}, "symmetry off"); });
}

TEST_CASE("law: one expert that all tokens go to is a dense layer") {
  keeps({"one expert is a dense layer", 60, true}, [](Trial& trial) {
    const auto& m = trial.model();
    const auto& b = trial.scenario().batch;
    if (m.is_moe() || m.is_gpt() || m.hidden < 1024 || m.ffn < 1024 || b.micro * b.sequence < 1024) return;
    // The ranks of an expert are then those of a tensor group, and the host is not asked how many kernels there are.
    // With sequence parallelism experts keep the rows that they gathered, which a dense layer gathers again.
    if (!trial.settle({"placement=[tensor, context, expert, data, pipeline]", "framework.host_time_per_kernel=0us",
                       "parallelism.sequence=false"}))
      return;
    const Sets sets{"model.family=moe", "model.experts=1", "model.experts_per_token=1",
                    fmt::format("model.expert_ffn={}", m.ffn),
                    fmt::format("parallelism.expert_tensor={}", trial.parallelism().tensor)};
    const auto dense = trial.ask(), one = trial.ask(sets);
    if (!dense || !one) return;
    // What routing takes by itself is beyond a dense layer, but bounded: each token is moved twice each way.
    trial.within(step(*one) / step(*dense), 1 - .02, 1.3, sets, "step, times");
    const double parameters = double(m.layers) * double(m.hidden);
    trial.within((models::parameters(one->scenario().concrete->model) - models::parameters(m)) / parameters, 1 - 1e-9,
                 1 + 1e-9, sets, "parameters beyond those of the router, times");
  });
}

TEST_CASE("law: a machine and a model written out are the named ones") {
  keeps({"written out = named", 60}, [](Trial& trial) {
    const auto& cluster = trial.concrete().cluster;
    std::string text = trial.text();
    const auto at = text.find("\ncluster: ");
    if (at == std::string::npos) return;
    const auto name = text.substr(at + 10, text.find('\n', at + 1) - at - 10);
    auto written = inlined(fmt::format(PROJECT_ROOT "/configs/clusters/{}.yaml", name), "cluster");
    if (trial.chance(50)) {  // and its GPU
      const auto gpu = written.find("  gpu: ");
      const auto end = written.find('\n', gpu);
      const auto kind = written.substr(gpu + 7, end - gpu - 7);
      auto of_gpu = inlined(fmt::format(PROJECT_ROOT "/configs/gpus/{}.yaml", kind.substr(0, kind.find(' '))), "gpu");
      std::string deeper;
      std::istringstream lines(of_gpu);
      for (std::string line; std::getline(lines, line);) deeper += "  " + line + "\n";
      written.replace(gpu, end - gpu + 1, deeper);
    }
    same_text(trial, replaced(text, "cluster", written), cluster.name);
  });
}

TEST_CASE("law: --set is the file, and the order of keys says nothing") {
  keeps({"--set = the file", 90}, [](Trial& trial) {
    std::vector<std::string> parts;
    std::istringstream lines(trial.text());
    for (std::string line; std::getline(lines, line);)
      if (line[0] == ' ')
        parts.back() += line + "\n";
      else
        parts.push_back(line + "\n");
    for (std::size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[trial.random.below(i)]);
    same_text(trial, fmt::format("{}", fmt::join(parts, "")), "another order");
    // A part of the file that is one line comes by --set instead.
    for (auto& part : parts) {
      if (part.starts_with("version") || std::count(part.begin(), part.end(), '\n') > 1) continue;
      const auto colon = part.find(": ");
      const Sets sets{part.substr(0, colon) + "=" + part.substr(colon + 2, part.size() - colon - 3)};
      std::string without;
      for (const auto& other : parts)
        if (&other != &part) without += other;
      const auto a = trial.ask();
      std::optional<answer::Result> b;
      try {
        b = answer::predict(scenario::load_text(without, "law.yaml", sets), answer::Options::summary_alone());
      } catch (const UserError&) {
      }
      if (a)
        trial.hold(b && a->summary.digest == b->summary.digest && a->summary.iteration == b->summary.iteration, sets,
                   "--set " + sets[0]);
      return;
    }
  });
}

TEST_CASE("law: no option changes the bytes of an axis that it does not name") {
  keeps({"bytes of an axis", 250}, [](Trial& trial) {
    const auto before = trial.ask();
    if (!before) return;
    for (int tries = 0; tries < 4; ++tries) {
      const auto& option = kOptions[trial.random.below(kOptions.size())];
      if (std::string_view(option.set).starts_with("experts") && !trial.model().is_moe()) continue;
      const auto after = trial.ask({option.set});
      if (!after) continue;
      for (const auto bytes : option.untouched) {
        const double was = before->summary.traffic.all_gpus.*bytes, is = after->summary.traffic.all_gpus.*bytes;
        const auto& parts = answer::AxisBytes::parts();
        const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.bytes == bytes; });
        if (was == 0 && is == 0) continue;
        trial.hold(std::abs(is - was) <= 1e-6 * was, {option.set},
                   fmt::format("{} changes the bytes of {}: {} -> {}", option.set, part->name, was, is));
      }
    }
  });
}

}  // namespace rehearsal::contract
