// Reads measured GPU times from the top level of a profile.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/spelling.hpp"
#include "cost/measured_gpu.hpp"
#include "scenario/profile_parts.hpp"

namespace rehearsal::scenario {
namespace {

using cost::GpuTimes;

constexpr std::int64_t kMostMultiprocessors = 100'000;
constexpr NumberRange kFactor{0, 1000, true};
// Constants that a fit may leave out, to be taken from the GPU's file.
const std::vector<std::string> kFitted{"gemm_overhead", "tile_overhead", "small_tile_loss", "weight_gradient_rate"};
constexpr std::array kSections{"gemm", "attention", "memory_bound", "host_link", "device_copy", "launch", "partitions"};

void read_error(MapReader& map, cost::FitErrors& error) {
  auto& problems = map.problems();
  const Node* node = map.find("error");
  if (!node) return;
  MapReader both(problems, *node, "error");
  for (const auto& [key, part] : {std::pair{"fitted", &error.fitted}, std::pair{"held_out", &error.held_out}}) {
    const Node* list = both.find(key);
    const auto what = fmt::format("'{}'", key);
    if (!list || !is_list(problems, *list, 3, what, "[samples, median, p90]")) continue;
    part->samples = read_integer(problems, *list->items[0], what, {0, INT64_MAX}).value_or(0);
    part->median = read_number(problems, *list->items[1], what, {0, 1e9}).value_or(0);
    part->p90 = read_number(problems, *list->items[2], what, {0, 1e9}).value_or(0);
  }
  both.finish();
}

// Both lists of samples. `add` takes the node with the columns before the times, and the times; it may report errors.
template <class Add>
void read_samples(MapReader& map, std::string_view example, Add&& add) {
  auto& problems = map.problems();
  for (const bool held_out : {false, true}) {
    const char* key = held_out ? "held_out" : "samples";
    const auto what = fmt::format("'{}'", key);
    const Node* list = held_out ? map.find(key) : map.require(key, example);
    if (!list || !is_list(problems, *list, 0, what, example)) continue;
    for (const Node* item : list->items) {
      if (!is_list(problems, *item, 2, what, example)) continue;
      if (const auto times = read_quantiles(problems, *item->items[1], what))
        add(*item->items[0], *times, held_out, what);
    }
  }
}

void read_sizes(Diagnostics& problems, const Node& node, const char* name, cost::SizeTimes& times) {
  MapReader map(problems, node, name);
  if (const Node* fit = map.require("fit", "seconds for each call, byte and far_byte")) {
    MapReader terms(problems, *fit, "fit");
    times.fit.call = terms.number("call", {0, 1e6}), times.fit.byte = terms.number("byte", {0, 1e6});
    times.fit.far_byte = terms.number("far_byte", {0, 1e6}, 0.);
    terms.finish();
  }
  times.fit.knee = map.given("knee") ? map.bytes("knee") : (map.find("knee"), Bytes());
  read_error(map, times.fit.error);
  read_samples(map, "a list of [size, [p10, p50, p90]]",
               [&](const Node& size, const cost::Quantiles& q, bool held_out, const std::string& what) {
                 const auto read = read_bytes(problems, size, what);
                 if (read && *read <= Bytes()) problems.error(size.where(), what + ": sizes must be above 0");
                 if (read) times.samples.push_back({*read, q, held_out});
               });
  map.finish();
}

void read_identity(Diagnostics& problems, const Node& node, cost::GpuIdentity& gpu) {
  MapReader map(problems, node, "gpu");
  gpu.name = map.text("name"), gpu.capability = map.text("capability");
  gpu.multiprocessors = map.integer("multiprocessors", {1, kMostMultiprocessors});
  gpu.memory = map.given("memory") ? map.bytes("memory") : (map.find("memory"), Bytes());
  gpu.driver = map.text("driver", ""), gpu.runtime = map.text("runtime", "");
  gpu.sm_clock_mhz = map.number("sm_clock_mhz", {0, 1e6}, 0.);
  gpu.memory_clock_mhz = map.number("memory_clock_mhz", {0, 1e6}, 0.);
  gpu.power_limit_w = map.number("power_limit_w", {0, 1e6}, 0.);
  map.finish();
}

void read_gemm(Diagnostics& problems, const Node& node, Precision precision, cost::GemmTimes& times) {
  MapReader map(problems, node, name(precision));
  auto& fit = times.fit;
  if (const Node* constants = map.require("fit", "the constants of matrix products")) {
    MapReader m(problems, *constants, "fit");
    fit.rate = m.flop_rate("rate");
    if (fit.rate.value() <= 0) problems.error(m.at("rate"), "'rate' must be above zero");
    fit.small_tile_loss = m.number("small_tile_loss", {0, 10});
    fit.overhead = m.time("gemm_overhead", true), fit.tile_overhead = m.time("tile_overhead", true);
    fit.weight_gradient_rate = m.number("weight_gradient_rate", {0, 10, true});
    m.finish();
  }
  if (const Node* kept = map.find("kept"); kept && is_list(problems, *kept, 0, "'kept'", "a list of keys of a GPU"))
    for (const Node* key : kept->items) {
      fit.kept.push_back(read_text(problems, *key, "'kept'").value_or(""));
      if (std::find(kFitted.begin(), kFitted.end(), fit.kept.back()) == kFitted.end())
        problems.error(key->where(), fmt::format("'kept' must name fitted constants; found {}{}",
                                                 in_quotes(fit.kept.back()), suggestion(fit.kept.back(), kFitted)));
    }
  read_error(map, fit.error);
  read_samples(map, "a list of [[m, n, k, batch, 1 for a weight gradient], [p10, p50, p90]]",
               [&](const Node& shape, const cost::Quantiles& q, bool held_out, const std::string& what) {
                 const auto d = read_dims(problems, shape, 5, 0, what);
                 if (!d) return;
                 if (std::min({(*d)[0], (*d)[1], (*d)[2], (*d)[3]}) < 1 || (*d)[4] > 1)
                   return problems.error(shape.where(), what +
                                                            ": m, n, k and batch are at least 1, and what follows "
                                                            "them is 0 or 1");
                 times.samples.push_back({{(*d)[0], (*d)[1], (*d)[2], (*d)[3], precision, (*d)[4] == 1}, q, held_out});
               });
  map.finish();
}

void read_gemms(Diagnostics& problems, const Node& node, GpuTimes& times) {
  MapReader map(problems, node, "gemm");
  times.settled_clock = map.choice<bool>("clock", {{"settled", true}, {"burst", false}}, {});
  for (const auto p : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8})
    if (const Node* one = map.find(name(p))) read_gemm(problems, *one, p, times.gemm[p]);
  map.finish();
}

void read_attention(Diagnostics& problems, const Node& node, GpuTimes& times) {
  using models::AttentionKernel;
  MapReader map(problems, node, "attention");
  for (const auto kernel : {AttentionKernel::flash2, AttentionKernel::flash3, AttentionKernel::cudnn}) {
    const Node* one = map.find(cost::name(kernel));
    if (!one) continue;
    auto& attention = times.attention[kernel];
    MapReader m(problems, *one, cost::name(kernel));
    attention.rate = m.flop_rate("rate");
    if (attention.rate.value() <= 0) problems.error(m.at("rate"), "'rate' must be above zero");
    read_error(m, attention.error);
    read_samples(m, "a list of [[batch, heads, queries, keys, head size, causal, backward], [p10, p50, p90]]",
                 [&](const Node& shape, const cost::Quantiles& q, bool held_out, const std::string& what) {
                   const auto d = read_dims(problems, shape, 7, 0, what);
                   if (!d) return;
                   if (*std::min_element(d->begin(), d->begin() + 5) < 1 || (*d)[5] > 1 || (*d)[6] > 1)
                     return problems.error(shape.where(), what +
                                                              ": the first five are at least 1, and the last two 0 "
                                                              "or 1");
                   attention.samples.push_back(
                       {{(*d)[0], (*d)[1], (*d)[2], (*d)[3], (*d)[4], (*d)[5] == 1, (*d)[6] == 1}, q, held_out});
                 });
    m.finish();
  }
  map.finish();
}

void read_host_link(Diagnostics& problems, const Node& node, cost::HostLink& link) {
  MapReader map(problems, node, "host_link");
  for (const auto& [key, part] : {std::pair{"to_device", &link.to_device}, std::pair{"to_host", &link.to_host}})
    if (const Node* one = map.require(key, "copies in this direction")) read_sizes(problems, *one, key, *part);
  for (const auto& [key, value] :
       {std::pair{"duplex", &link.duplex}, std::pair{"copy_beside_gemm", &link.copy_beside_gemm},
        std::pair{"gemm_beside_copy", &link.gemm_beside_copy}})
    if (const Node* given = map.find(key))
      *value = read_number(problems, *given, fmt::format("'{}'", key), kFactor).value_or(0);
  map.finish();
}

void read_partitions(Diagnostics& problems, const Node& node, GpuTimes& times) {
  if (!is_list(problems, node, 0, "'partitions'", "a list of mappings")) return;
  for (const Node* item : node.items) {
    MapReader map(problems, *item, "partitions");
    cost::PartitionTime p;
    p.multiprocessors = map.integer("multiprocessors", {1, kMostMultiprocessors});
    p.shape.precision = map.choice<Precision>("precision",
                                              {{"fp32", Precision::fp32},
                                               {"tf32", Precision::tf32},
                                               {"fp16", Precision::fp16},
                                               {"bf16", Precision::bf16},
                                               {"fp8", Precision::fp8}},
                                              {});
    if (const Node* shape = map.require("shape", "[m, n, k]"))
      if (const auto d = read_dims(problems, *shape, 3, 1, "'shape'"))
        p.shape.m = (*d)[0], p.shape.n = (*d)[1], p.shape.k = (*d)[2];
    for (const auto& [key, value] : {std::pair{"alone", &p.alone}, std::pair{"busy", &p.busy}})
      if (const Node* list = map.require(key, "[p10, p50, p90]"))
        if (const auto q = read_quantiles(problems, *list, fmt::format("'{}'", key))) *value = *q;
    map.finish();
    if (p.multiprocessors > times.gpu.multiprocessors)
      problems.error(map.at("multiprocessors"),
                     fmt::format("a partition has {} multiprocessors, but the GPU has only {}", p.multiprocessors,
                                 times.gpu.multiprocessors));
    if (!times.partitions.empty() && times.partitions.back().multiprocessors > p.multiprocessors)
      problems.error(item->where(), "'partitions' must be in ascending order of 'multiprocessors'");
    times.partitions.push_back(p);
  }
}

}  // namespace

std::optional<GpuTimes> read_gpu_times(MapReader& map) {
  auto& problems = map.problems();
  const Node* gpu = measured_section(map, "gpu");
  std::array<const Node*, kSections.size()> sections{};
  for (std::size_t i = 0; i < sections.size(); i++) sections[i] = measured_section(map, kSections[i]);
  if (!gpu) {
    for (std::size_t i = 0; i < sections.size(); i++)
      if (sections[i])
        problems.error(
            sections[i]->where(),
            fmt::format("'{}' was measured on a GPU, but the profile has no section 'gpu' to say which", kSections[i]));
    return std::nullopt;
  }
  GpuTimes times;
  read_identity(problems, *gpu, times.gpu);
  const auto& [gemm, attention, memory_bound, host_link, device_copy, launch, partitions] = sections;
  if (gemm) read_gemms(problems, *gemm, times);
  if (attention) read_attention(problems, *attention, times);
  if (memory_bound) read_sizes(problems, *memory_bound, "memory_bound", times.memory_bound.emplace());
  if (host_link) read_host_link(problems, *host_link, times.host_link.emplace());
  if (device_copy) read_sizes(problems, *device_copy, "device_copy", times.device_copy.emplace());
  if (launch) {
    MapReader m(problems, *launch, "launch");
    for (const auto& [key, value] : {std::pair{"host", &times.launch.host}, std::pair{"stream", &times.launch.stream},
                                     std::pair{"graph", &times.launch.graph}})
      if (const Node* list = m.find(key)) *value = read_quantiles(problems, *list, fmt::format("'{}'", key));
    m.finish();
  }
  if (partitions) read_partitions(problems, *partitions, times);
  return times;
}

}  // namespace rehearsal::scenario
