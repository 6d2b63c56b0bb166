#include "cost/gpu_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cost/attention.hpp"
#include "cost/gemm.hpp"
#include "cost/measured_gpu.hpp"

namespace rehearsal::cost {
namespace {

// --- matrix products

// The constants of the search: efficiency (of the peak), t0 and t_pro in seconds, q.
constexpr std::size_t kConstants = 4;
using Point = std::array<double, kConstants>;
constexpr std::array<const char*, kConstants> kKeys{"gemm_efficiency", "gemm_overhead", "tile_overhead",
                                                    "small_tile_loss"};
// Wider than any GPU file; if a search ends at a bound, the samples show some other effect.
constexpr Point kLeast{.05, 0, 0, 0}, kMost{1.1, 20e-6, 20e-6, 2};
constexpr std::size_t kSamplesAConstant = 3;
constexpr double kSquared = .1;  // relative error up to which it counts by its square

double huber(double error) {
  const double size = std::abs(error);
  return size < kSquared ? size * size / 2 : kSquared * (size - kSquared / 2);
}

class GemmSearch {
 public:
  GemmSearch(const std::vector<GemmSample>& samples, Precision precision, cluster::Gpu base)
      : precision_(precision), gpu_(std::move(base)) {
    double fastest = 0;
    for (const auto& s : samples) {
      if (s.held_out || s.shape.weight_gradient) continue;
      samples_.push_back(&s);
      fastest = std::max(fastest, s.shape.flops().value() / to_seconds(s.time.p50));
    }
    if (!gpu_.peak.count(precision)) gpu_.peak[precision] = FlopRate(1.25 * fastest);  // only its product with e counts
    base_ = {gpu_.gemm_efficiency, to_seconds(gpu_.gemm_overhead), to_seconds(gpu_.tile_overhead),
             gpu_.small_tile_loss};
  }

  bool empty() const { return samples_.empty(); }

  // Fits the constants; those that the samples do not determine are listed by key: a constant must earn a twentieth.
  GemmFit solve() {
    std::array<bool, kConstants> free{};
    const std::size_t affordable = std::max<std::size_t>(1, samples_.size() / kSamplesAConstant);
    for (std::size_t i = 0; i < std::min(affordable, kConstants); i++) free[i] = true;
    auto best = descend(free);
    for (bool dropped = true; dropped;) {
      dropped = false;
      Found without;
      std::size_t which = 0;
      for (std::size_t i = 1; i < kConstants; i++) {
        if (!free[i]) continue;
        auto fewer = free;
        fewer[i] = false;
        if (const auto found = descend(fewer); found.loss < without.loss) without = found, which = i;
      }
      if (which > 0 && without.loss * kMustEarn <= best.loss) free[which] = false, best = without, dropped = true;
    }
    GemmFit fit;
    fit.rate = gpu_.peak.at(precision_) * best.at[0];
    fit.overhead = seconds(best.at[1]), fit.tile_overhead = seconds(best.at[2]), fit.small_tile_loss = best.at[3];
    for (std::size_t i = 1; i < kConstants; i++)
      if (!free[i]) fit.kept.emplace_back(kKeys[i]);
    return fit;
  }

 private:
  struct Found {
    Point at{};
    double loss = std::numeric_limits<double>::infinity();
  };

  double loss(const Point& p) {
    gpu_.gemm_efficiency = p[0], gpu_.small_tile_loss = p[3];
    gpu_.gemm_overhead = seconds(p[1]), gpu_.tile_overhead = seconds(p[2]);
    double sum = 0;
    for (const auto* s : samples_)
      sum += huber(std::log(gemm_time(gpu_, s->shape, precision_, 1) / to_seconds(s->time.p50)));
    return sum / double(samples_.size());
  }

  // One constant after the other within bounds that close in: the loss has steps (waves), so no gradient is used.
  Found descend(const std::array<bool, kConstants>& free) {
    constexpr int kRounds = 14, kLeastRounds = 4;
    constexpr double kFirstShare = .25, kShrink = .6, kWorthwhile = 5e-4;
    Found best{base_, 0};
    best.loss = loss(best.at);
    double share = 2;  // of the whole range: the first round sees all of it
    for (int round = 0; round < kRounds; round++) {
      const double before = best.loss;
      for (std::size_t i = 0; i < kConstants; i++) {
        if (!free[i]) continue;
        const double reach = share * (kMost[i] - kLeast[i]);
        line_search(best, i, std::max(kLeast[i], best.at[i] - reach), std::min(kMost[i], best.at[i] + reach));
      }
      share = round == 0 ? kFirstShare : share * kShrink;
      if (round >= kLeastRounds && best.loss > before * (1 - kWorthwhile)) break;
    }
    return best;
  }

  // The best of a row of points, then a golden section between its neighbours.
  void line_search(Found& best, std::size_t i, double low, double high) {
    constexpr int kPoints = 9, kSections = 14;
    const auto at = [&](double x) {
      Point p = best.at;
      p[i] = x;
      return p;
    };
    const double step = (high - low) / (kPoints - 1);
    int least = 0;
    double least_loss = std::numeric_limits<double>::infinity();
    for (int n = 0; n < kPoints; n++)
      if (const double l = loss(at(low + step * n)); l < least_loss) least_loss = l, least = n;
    double a = low + step * std::max(0, least - 1), b = low + step * std::min(kPoints - 1, least + 1);
    const double golden = (std::sqrt(5.) - 1) / 2;
    double c = b - golden * (b - a), d = a + golden * (b - a), at_c = loss(at(c)), at_d = loss(at(d));
    for (int n = 0; n < kSections; n++) {
      if (at_c < at_d)
        b = d, d = c, at_d = at_c, c = b - golden * (b - a), at_c = loss(at(c));
      else
        a = c, c = d, at_c = at_d, d = a + golden * (b - a), at_d = loss(at(d));
    }
    for (const double x : {c, d, low + step * least})
      if (const double l = loss(at(x)); l < best.loss) best = {at(x), l};
  }

  Precision precision_;
  cluster::Gpu gpu_;
  Point base_{};
  std::vector<const GemmSample*> samples_;
};

void fit_gemm(GpuTimes& times, Precision precision, const cluster::Gpu& base) {
  auto& gemm = times.gemm.at(precision);
  GemmSearch search(gemm.samples, precision, base);
  if (search.empty())
    throw UserError(
        fmt::format("GPU '{}': of the matrix products in {} none but weight gradients and held-out ones "
                    "were measured: nothing can be fitted to them",
                    times.gpu.name, name(precision)));
  gemm.fit = search.solve();
  // Their rate is relative to forward products: the median of the ratio of times.
  std::vector<double> ratios;
  const auto gpu = with_gemm(base, times, precision);
  for (const auto& s : gemm.samples) {
    if (s.held_out || !s.shape.weight_gradient) continue;
    auto forward = s.shape;
    forward.weight_gradient = false;
    ratios.push_back(gemm_time(gpu, forward, precision, 1) / to_seconds(s.time.p50));
  }
  gemm.fit.weight_gradient_rate = ratios.empty() ? base.weight_gradient_rate : median(ratios);
  if (ratios.empty()) gemm.fit.kept.emplace_back("weight_gradient_rate");
}

// --- the others

// t = work / rate: the median of the rates of all samples.
void fit_attention(AttentionTimes& times, models::AttentionKernel kernel, const cluster::Gpu& base) {
  std::vector<double> rates;
  for (const auto& s : times.samples)
    if (!s.held_out)
      rates.push_back(attention_time(with_attention(base, kernel, FlopRate(1)), s.shape, kernel) /
                      to_seconds(s.time.p50));
  if (rates.empty()) throw UserError("attention: all samples are held out: nothing can be fitted to them");
  times.rate = FlopRate(median(rates));
}

void fit_sizes(SizeTimes& times, bool knee, Bytes from, const char* what) {
  std::vector<const SizeSample*> all;
  for (const auto& s : times.samples)
    if (!s.held_out && s.size >= from) all.push_back(&s);
  if (all.empty())
    throw UserError(fmt::format("{}: no sample of {} or more that is not held out: nothing can be fitted", what,
                                show(std::max(from, Bytes(1)))));
  std::vector<Bytes> sizes;
  for (const auto* s : all) sizes.push_back(s->size);
  NonNegative best;
  for (const Bytes at : knee ? knees(sizes) : std::vector{Bytes()}) {
    std::vector<Counts> rows;
    for (const auto* s : all) {
      const double t = to_seconds(s->time.p50),
                   far = at > Bytes() ? double(std::max(Bytes(), s->size - at).count()) : 0;
      rows.push_back({1 / t, double(s->size.count()) / t, far / t});
    }
    const auto found = non_negative_least_squares(rows, knee ? 3 : 2);
    if (found.loss < best.loss * (at == Bytes() ? 1 : kMustEarn)) best = found, times.fit.knee = at;
  }
  INVARIANT(std::isfinite(best.loss), "no term explains the samples");
  times.fit.call = best.factors[0], times.fit.byte = best.factors[1], times.fit.far_byte = best.factors[2];
}

// --- judgement

SampleErrors errors(const std::vector<Judged>& all, const std::string& section, bool held_out) {
  std::vector<double> sizes;
  for (const auto& j : all)
    if (j.section == section && j.held_out == held_out) sizes.push_back(std::abs(j.predicted / j.measured - 1));
  if (sizes.empty()) return {};
  std::sort(sizes.begin(), sizes.end());
  const auto n = sizes.size();
  return {std::int64_t(n), median(sizes), sizes[std::min(n - 1, n * 9 / 10)]};
}

// Every section with sizes: its name, and the size from which on it is fitted.
template <class Times, class Use>
void each_size_section(Times& times, Use&& use) {
  if (times.memory_bound) use("memory_bound", *times.memory_bound, true, Bytes());
  if (times.device_copy) use("device_copy", *times.device_copy, true, Bytes());
  if (times.host_link) {
    use("host_link to_device", times.host_link->to_device, false, kLinkFitFrom);
    use("host_link to_host", times.host_link->to_host, false, kLinkFitFrom);
  }
}

std::string gemm_section(Precision p) { return fmt::format("gemm {}", name(p)); }

// The GPU that a fit starts from, with all other measured values in place.
cluster::Gpu start(const GpuTimes& times, cluster::Gpu base) {
  base.sms = times.gpu.multiprocessors;
  if (times.memory_bound && times.memory_bound->fit.far_rate().value() > 0)
    base.sustained_memory_bandwidth = times.memory_bound->fit.far_rate();
  return base;
}

}  // namespace

double SizeFit::time(Bytes size) const {
  const double far = knee > Bytes() ? double(std::max(Bytes(), size - knee).count()) : 0;
  return call + byte * double(size.count()) + far_byte * far;
}
Bandwidth SizeFit::far_rate() const {
  const double each = byte + far_byte;
  return Bandwidth(each > 0 ? 1 / each : 0);
}

std::vector<Judged> judge(const GpuTimes& times, const cluster::Gpu& base) {
  std::vector<Judged> all;
  const auto from = start(times, base);
  for (const auto& [precision, gemm] : times.gemm) {
    const auto gpu = with_gemm(from, times, precision);
    for (const auto& s : gemm.samples)
      all.push_back({gemm_section(precision),
                     fmt::format("{} x {} x {}{}{}", s.shape.m, s.shape.n, s.shape.k,
                                 s.shape.batch > 1 ? fmt::format(" x {}", s.shape.batch) : "",
                                 s.shape.weight_gradient ? ", weight gradient" : ""),
                     gemm_time(gpu, s.shape, precision, 1), to_seconds(s.time.p50), s.held_out});
  }
  for (const auto& [kernel, attention] : times.attention) {
    const auto gpu = with_attention(from, kernel, attention.rate);
    for (const auto& s : attention.samples)
      all.push_back(
          {fmt::format("attention {}", name(kernel)),
           fmt::format("{} x {} heads, {} x {}, {}{}{}", s.shape.batch, s.shape.heads, s.shape.queries, s.shape.keys,
                       s.shape.head_dim, s.shape.causal ? ", causal" : "", s.shape.backward ? ", backward" : ""),
           attention_time(gpu, s.shape, kernel), to_seconds(s.time.p50), s.held_out});
  }
  each_size_section(times, [&](const char* section, const SizeTimes& sizes, bool, Bytes least) {
    for (const auto& s : sizes.samples)
      if (s.size >= least)
        all.push_back({section, show(s.size), sizes.fit.time(s.size), to_seconds(s.time.p50), s.held_out});
  });
  return all;
}

void fit_gpu(GpuTimes& times, const cluster::Gpu& base) {
  each_size_section(times, [](const char* section, SizeTimes& sizes, bool knee, Bytes from) {
    fit_sizes(sizes, knee, from, section);
  });
  const auto from = start(times, base);
  for (auto& [precision, gemm] : times.gemm) fit_gemm(times, precision, from);
  for (auto& [kernel, attention] : times.attention) fit_attention(attention, kernel, from);

  const auto all = judge(times, base);
  const auto both = [&](const std::string& section) {
    return FitErrors{errors(all, section, false), errors(all, section, true)};
  };
  for (auto& [precision, gemm] : times.gemm) gemm.fit.error = both(gemm_section(precision));
  for (auto& [kernel, attention] : times.attention) attention.error = both(fmt::format("attention {}", name(kernel)));
  each_size_section(times,
                    [&](const char* section, SizeTimes& sizes, bool, Bytes) { sizes.fit.error = both(section); });
}

}  // namespace rehearsal::cost
