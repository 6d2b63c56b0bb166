// Laws of single prices, on every shipped GPU and on random ones: larger work is never cheaper, one more of anything
// costs about its share, and nothing is faster than the hardware. REHEARSAL_LAW_CASES: number of cases.
//
// Real jumps, and their bounds:
// - a wave: all tiles of a product run in rounds over the SMs; one more tile may take one more round;
// - a tile: a product is split into tiles of up to 256 rows or columns, and a partial last one counts whole.
// One exception: kernels with dropout backward were measured faster than their bytes over the bandwidth (caches;
// `framework.dropout_backward`), so that factor is their bound.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/random.hpp"
#include "cost/cost_model.hpp"
#include "models/framework.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

constexpr double kRounding = 1e-9;

std::uint64_t cases_asked() {
  const char* asked = std::getenv("REHEARSAL_LAW_CASES");
  return asked ? std::strtoull(asked, nullptr, 10) : 40'000;
}

// A node of GPUs of this kind, without anything else that affects a kernel's price.
scenario::Concrete machine(const std::string& gpu) {
  settle();
  auto c =
      *scenario::load_text(
           "version: 1\nmodel: {family: gpt, layers: 1, hidden: 128, heads: 1}\nparallelism: {data: 1}\nbatch: "
           "{global: 1}\nframework: megatron-2025\ntraining: {attention: unfused, precision: fp32}\n",
           "laws",
           {fmt::format("cluster={{gpu: {}, gpus_per_node: 1, nodes: 1, links: {{scale_up: {{bandwidth: 300GB/s}}}}}}",
                        gpu)})
           .concrete;
  c.framework.fp8_scaling = models::Fp8Scaling::tensorwise;  // the only one that every GPU supports
  return c;
}

std::vector<scenario::Concrete> shipped() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(PROJECT_ROOT "/configs/gpus"))
    names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  std::vector<scenario::Concrete> all;
  for (const auto& name : names) all.push_back(machine(name));
  return all;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(Random(seed).next()) {}
  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  bool chance(int percent) { return below(100) < std::uint64_t(percent); }
  double between(double low, double high) { return low * std::pow(high / low, double(below(1 << 20)) / (1 << 20)); }
  // Realistic sizes: any magnitude, often round, often one beside a round number.
  std::int64_t size(std::int64_t most) {
    const auto any = static_cast<std::int64_t>(between(1, double(most) + 1));
    const std::int64_t round = std::int64_t(1) << below(std::uint64_t(std::log2(double(most))) + 1);
    const std::int64_t near = chance(50) ? any : round + std::int64_t(below(3)) - 1;
    return std::clamp<std::int64_t>(near, 1, most);
  }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }

 private:
  Random random_;
};

// A GPU unlike any real one.
cluster::Gpu unlike(cluster::Gpu gpu, Draw& draw) {
  gpu.name = "random";
  gpu.sms = static_cast<std::int64_t>(draw.between(1, 300));
  for (auto& [precision, rate] : gpu.peak) rate = rate * draw.between(.2, 5);
  gpu.sustained_memory_bandwidth = gpu.sustained_memory_bandwidth * draw.between(.1, 10);
  gpu.gemm_efficiency = draw.between(.3, 1), gpu.sustained_clock = draw.between(.3, 1.1);
  gpu.weight_gradient_rate = draw.between(.7, 1.4), gpu.small_tile_loss = draw.between(.001, 1.5);
  gpu.gemm_overhead = seconds(draw.between(1e-9, 1e-5)), gpu.tile_overhead = seconds(draw.between(1e-9, 2e-5));
  gpu.kernel_gap = seconds(draw.between(1e-9, 1e-5)), gpu.attention_tail = draw.between(.01, 3);
  gpu.power = gpu.power_limit = 0;
  return gpu;
}

class Laws {
 public:
  Laws() : shipped_(shipped()) {
    for (const auto& c : shipped_) models_.emplace_back(c.cluster, c.curves, c.framework);
  }

  // In turn, and now and then an invented one.
  const cost::CostModel& model(std::uint64_t number, Draw& draw) {
    const auto& like = shipped_[number % shipped_.size()];
    if (number % 3 != 0) return models_[number % shipped_.size()];
    auto machine = like.cluster;
    machine.gpu = unlike(machine.gpu, draw);
    unsold_.emplace(machine, like.curves, like.framework);
    return *unsold_;
  }

  void holds(bool law, const std::function<std::string()>& what) {
    ++checked_;
    if (law) return;
    if (++broken_ <= 10) FAIL_CHECK(what());
  }
  std::uint64_t checked() const { return checked_; }

 private:
  std::vector<scenario::Concrete> shipped_;
  std::vector<cost::CostModel> models_;
  std::optional<cost::CostModel> unsold_;
  std::uint64_t checked_ = 0, broken_ = 0;
};

std::vector<Precision> precisions(const cluster::Gpu& gpu) {
  std::vector<Precision> all;
  for (const auto& [precision, rate] : gpu.peak) all.push_back(precision);
  return all;
}

// The format that sets the rate of attention kernels.
Precision main_format(const cluster::Gpu& gpu) {
  return gpu.peak.count(Precision::bf16)   ? Precision::bf16
         : gpu.peak.count(Precision::fp16) ? Precision::fp16
                                           : Precision::fp32;
}
double gap(const cost::CostModel& model) { return to_seconds(model.machine().gpu.kernel_gap); }
double bandwidth(const cost::CostModel& model) { return model.machine().gpu.sustained_memory_bandwidth.value(); }
std::string of(const cost::CostModel& model, const graph::Work& work) {
  return fmt::format("{}: {}", model.machine().gpu.name, graph::describe(work));
}

// One round of the largest tiles over all SMs, whole K, with prologue and epilogue: the most that one more tile can
// cost.
double wave(const cost::CostModel& model, const Gemm& shape) {
  const auto& gpu = model.machine().gpu;
  const auto counted =
      gpu.peak.count(Precision::bf16) && bytes_per_element(shape.precision) == 1 ? Precision::bf16 : shape.precision;
  const double rate = std::min(gpu.peak.at(counted).value(), gpu.peak.at(shape.precision).value()) *
                      std::min(1., gpu.clock()) * gpu.gemm_efficiency / double(gpu.sms);
  const double loop = 2. * 256 * 128 * double(std::max<std::int64_t>(shape.k, 256)) / rate;
  return (loop + std::min(loop, to_seconds(gpu.tile_overhead))) / std::min(1., gpu.weight_gradient_rate) +
         to_seconds(gpu.tile_overhead);
}

struct Dimension {
  const char* name;
  std::int64_t Gemm::*of;
  double tile;  // rows or columns of the largest tile
};
constexpr Dimension kDimensions[] = {
    {"m", &Gemm::m, 256}, {"n", &Gemm::n, 256}, {"k", &Gemm::k, 1}, {"batch", &Gemm::batch, 1}};

}  // namespace

TEST_CASE("products: larger is never cheaper, one more costs its share, a tile or a wave, and silicon is the limit") {
  Laws laws;
  for (std::uint64_t n = 0; n < cases_asked(); ++n) {
    Draw draw(n);
    const auto& model = laws.model(n, draw);
    const auto& gpu = model.machine().gpu;
    const auto formats = precisions(gpu);
    const std::int64_t batch = draw.chance(50) ? 1 : draw.size(512);
    const Gemm shape{draw.size(batch > 1 ? 8192 : 200'000), draw.size(30'000),
                     draw.size(batch > 1 ? 8192 : 100'000), batch,
                     formats[draw.below(formats.size())],   draw.chance(30)};
    const double time = model.gemm(shape), alone = time - gap(model);
    laws.holds(shape.flops().value() <= alone * gpu.peak.at(shape.precision).value() * (1 + kRounding),
               [&] { return of(model, shape) + ": above the peak"; });
    laws.holds(shape.operand_bytes() <= alone * bandwidth(model) * (1 + kRounding),
               [&] { return of(model, shape) + ": above the memory rate"; });
    for (const auto& [name, member, tile] : kDimensions) {
      auto next = shape, more = shape;
      const auto now = double(shape.*member);
      next.*member += 1;
      more.*member += draw.size(shape.*member);
      const double after = model.gemm(next);
      laws.holds(time <= after * (1 + kRounding) && time <= model.gemm(more) * (1 + kRounding), [&, &name = name] {
        return fmt::format("{}: {} s, {} with one more of {}, {} with {}", of(model, shape), time, after, name,
                           model.gemm(more), of(model, more));
      });
      // For K twice the share, where the ends of a tile begin to matter.
      const double share = member == &Gemm::k ? 2 / now : tile / now,
                   round = member == &Gemm::k ? 0 : wave(model, shape);
      laws.holds(after <= (time * (1 + share) + round) * (1 + kRounding), [&, &name = name] {
        return fmt::format("{}: {} s, {} with one more of {}: a share is {}, a wave {}", of(model, shape), time, after,
                           name, time * share, round);
      });
    }
    // However rows are divided, one product of all of them has at most as many tiles.
    if (shape.batch > 1 && !shape.weight_gradient) {
      auto whole = shape;
      whole.m *= shape.batch, whole.batch = 1;
      laws.holds(model.gemm(whole) <= time * (1 + kRounding),
                 [&] { return of(model, shape) + ": faster than all rows in one product"; });
    }
  }
  CHECK(laws.checked() > 5 * cases_asked());
}

TEST_CASE("products: nothing happens where a row stops being a multiple of 16 bytes, and least of all in tokens") {
  Laws laws;
  for (std::uint64_t n = 0; n < cases_asked() / 8; ++n) {
    Draw draw(n + 1'000'000);
    const auto& model = laws.model(n, draw);
    if (!model.machine().gpu.peak.count(Precision::fp16)) continue;
    const std::int64_t tokens = 8 * draw.size(4096), columns = 8 * draw.size(1024);
    const Gemm scores{tokens, tokens, columns, draw.size(64), Precision::fp16},
        weights{columns, 8 * draw.size(1024), tokens, draw.size(64), Precision::fp16, true};
    for (const auto& shape : {scores, weights})
      for (std::int64_t Gemm::*const member : {&Gemm::m, &Gemm::n, &Gemm::k}) {
        auto less = shape, more = shape;
        less.*member -= 1, more.*member += 8;
        laws.holds(model.gemm(less) <= model.gemm(shape) && model.gemm(less) <= model.gemm(more),
                   [&] { return of(model, less) + ": slower than " + of(model, shape); });
      }
  }
  CHECK(laws.checked() > cases_asked() / 4);
}

TEST_CASE("fused attention: larger is never cheaper, one more costs its share, and silicon is the limit") {
  Laws laws;
  for (std::uint64_t n = 0; n < cases_asked(); ++n) {
    Draw draw(n + 2'000'000);
    const auto& model = laws.model(n, draw);
    const auto& gpu = model.machine().gpu;
    if (gpu.fused_attention_rate.value() == 0) continue;
    FusedAttention shape{draw.size(64),  draw.size(128),  draw.size(100'000), draw.size(100'000),
                         draw.size(300), draw.chance(50), draw.chance(50),    draw.chance(30) ? draw.size(300) : 0};
    if (draw.chance(50)) shape.keys = shape.queries;
    const auto formats = precisions(gpu);
    shape.precision = formats[draw.below(formats.size())];
    const double time = model.attention(shape), alone = time - gap(model);
    laws.holds(shape.flops().value() <= alone * gpu.peak.at(shape.precision).value() * (1 + kRounding),
               [&] { return of(model, shape) + ": above the peak"; });
    laws.holds(shape.operand_bytes() <= alone * bandwidth(model) * (1 + kRounding),
               [&] { return of(model, shape) + ": above the memory rate"; });
    using A = FusedAttention;
    for (std::int64_t A::*const member : {&A::batch, &A::heads, &A::queries, &A::keys, &A::head_dim, &A::value_dim}) {
      if (shape.*member == 0) continue;
      auto next = shape, more = shape;
      next.*member += 1, more.*member += draw.size(shape.*member);
      const double after = model.attention(next), now = double(shape.*member);
      laws.holds(time <= after * (1 + kRounding) && time <= model.attention(more) * (1 + kRounding),
                 [&] { return of(model, shape) + ": slower than " + of(model, next) + " or " + of(model, more); });
      // Wide heads are slightly less efficient: there a column costs up to a quarter more than its share.
      const bool columns = member == &A::head_dim || member == &A::value_dim;
      laws.holds(after <= time * (1 + (columns ? 1.25 : 1) / now) * (1 + kRounding),
                 [&] { return fmt::format("{}: {} s, {}: {}", of(model, shape), time, of(model, next), after); });
    }
    const auto fp32 = gpu.peak.find(Precision::fp32);
    if (fp32 != gpu.peak.end() && bytes_per_element(shape.precision) == 2 &&
        fp32->second <= std::min(gpu.peak.at(shape.precision), gpu.peak.at(main_format(gpu)))) {
      auto wide = shape;
      wide.precision = Precision::fp32;
      laws.holds(time <= model.attention(wide) * (1 + kRounding),
                 [&] { return of(model, wide) + ": faster than in 16 bits"; });
    }
  }
  CHECK(laws.checked() > 5 * cases_asked());
}

TEST_CASE("memory-bound kernels and optimizers: bytes over the memory rate, and what a launch takes") {
  Laws laws;
  for (std::uint64_t n = 0; n < cases_asked(); ++n) {
    Draw draw(n + 3'000'000);
    const auto& model = laws.model(n, draw);
    const Traffic kind = draw.one_of({Traffic::plain, Traffic::with_dropout_forward, Traffic::with_dropout_backward});
    const MemoryBound shape{Bytes(draw.size(std::int64_t(1) << 36)), draw.size(20), kind};
    const double factor = kind == Traffic::with_dropout_backward ? models::Framework{}.dropout_backward : 1;
    const double time = model.memory_bound(shape), byte = 2 / bandwidth(model);
    laws.holds(time >= factor * double(shape.traffic.count()) / bandwidth(model) * (1 - kRounding),
               [&] { return of(model, shape) + ": above the memory rate"; });
    auto next = shape;
    next.traffic = shape.traffic + Bytes(1);
    laws.holds(model.memory_bound(next) >= time && model.memory_bound(next) <= time + byte,
               [&] { return of(model, shape) + ": a byte is no byte"; });
    next = shape, next.kernels += 1;
    laws.holds(model.memory_bound(next) >= time && model.memory_bound(next) <= time + gap(model) * (1 + 1e-6),
               [&] { return of(model, shape) + ": a launch is no launch"; });
    const graph::OptimizerStep step{double(draw.size(std::int64_t(1) << 34)), shape.traffic};
    auto more = step;
    more.traffic = step.traffic + Bytes(1);
    laws.holds(model.optimizer(step) * bandwidth(model) >= double(step.traffic.count()) &&
                   model.optimizer(more) >= model.optimizer(step) &&
                   model.optimizer(more) <= model.optimizer(step) + byte,
               [&] { return of(model, step); });
  }
  CHECK(laws.checked() == 4 * cases_asked());
}

namespace {

double priced(const cost::CostModel& model, const models::Step& step, double& waves) {
  if (const auto* gemm = std::get_if<Gemm>(&step.what)) {
    waves += wave(model, *gemm);
    return model.gemm(*gemm);
  }
  if (const auto* attention = std::get_if<FusedAttention>(&step.what)) return model.attention(*attention);
  return model.memory_bound(std::get<MemoryBound>(step.what));
}

struct Passes {
  double time = 0, waves = 0;  // waves: one per product
};
// Forward and backward of every kind of part once: embedding, layers, head with the loss.
Passes passes(const cost::CostModel& model, const models::Transformer& m, const models::Training& training,
              const models::Framework& framework, const models::Shard& shard) {
  Passes all;
  const auto network = models::framework_network(m, training, framework, shard);
  const auto add = [&](const models::Part& part) {
    for (const auto* list : {&part.forward, &part.input_gradient_steps, &part.weight_gradient_steps})
      for (const auto& step : *list) all.time += priced(model, step, all.waves);
  };
  add(network.embedding), add(network.head);
  for (const auto& layer : network.layers) add(layer);
  return all;
}

}  // namespace

TEST_CASE(
    "layers, embedding and loss: tokens, columns and experts cost their share, in whatever way they are computed") {
  using namespace models;
  Laws laws;
  for (std::uint64_t n = 0; n < cases_asked() / 20; ++n) {
    Draw draw(n + 4'000'000);
    const auto& model = laws.model(n, draw);
    const auto& gpu = model.machine().gpu;
    Transformer m;
    m.family = draw.one_of({Family::gpt, Family::llama, Family::moe});
    m.layers = 2, m.heads = m.kv_heads = draw.size(64), m.head_dim = draw.one_of({32, 64, 80, 108, 128, 192});
    m.hidden = m.heads * m.head_dim, m.ffn = draw.size(20'000), m.vocabulary = draw.size(200'000);
    m.ffn_kind = m.is_gpt() ? FfnKind::gelu : FfnKind::swiglu;
    if (m.family == Family::moe) {
      m.experts = draw.size(300) + 1, m.experts_per_token = std::min<std::int64_t>(m.experts, draw.size(8));
      m.expert_ffn = draw.size(4000);
    }
    Training training;
    training.precision = gpu.peak.count(Precision::bf16) && draw.chance(70) ? Precision::bf16
                         : gpu.peak.count(Precision::fp16)                  ? Precision::fp16
                                                                            : Precision::fp32;
    if (!gpu.peak.count(training.precision)) continue;
    if (m.is_moe() && !gpu.peak.count(Precision::tf32)) continue;  // format in which routers compute
    training.attention =
        gpu.fused_attention_rate.value() > 0 && draw.chance(50) ? AttentionKind::flash : AttentionKind::unfused;
    training.kernels = draw.chance(20) ? Kernels::unfused : Kernels::fused;
    Framework framework;
    framework.dropout = draw.chance(30);
    const Shard shard{.micro_batch = draw.size(4), .sequence = draw.size(9000), .microbatches = 2};
    const auto before = passes(model, m, training, framework, shard);
    const auto check = [&](const char* what, double share, const Transformer& wider, const Shard& longer,
                           bool monotone) {
      const auto after = passes(model, wider, training, framework, longer);
      laws.holds((!monotone || before.time <= after.time * (1 + kRounding)) &&
                     after.time <= before.time * (1 + share) + after.waves,
                 [&] {
                   return fmt::format("{}, case {}: {} s, {} with one more of {}; waves {}", gpu.name, n, before.time,
                                      after.time, what, after.waves);
                 });
    };
    auto longer = shard;
    longer.sequence += 1;
    check("sequence", 3 * 256 / double(shard.sequence), m, longer, true);
    longer = shard, longer.micro_batch += 1;
    check("micro-batch", (1 + 256. / double(shard.sequence)) / double(shard.micro_batch), m, longer, true);
    auto wider = m;
    wider.ffn += 1;
    if (!m.is_moe()) check("ffn", 2 * 256 / double(m.ffn), wider, shard, true);
    wider = m, wider.vocabulary += 128;
    check("vocabulary", (128 + 256) / double(m.vocabulary), wider, shard, true);
    if (!m.is_moe()) continue;
    wider = m, wider.expert_ffn += 1;
    check("expert_ffn", 2 * 256 / double(m.expert_ffn), wider, shard, true);
    // Equally many rows on one more expert: each expert may have a row and a tile less.
    wider = m, wider.experts += 1;
    check("experts", (1 + 256. / double(m.experts)) / double(m.experts), wider, shard, false);
  }
  CHECK(laws.checked() > cases_asked() / 8);
}
