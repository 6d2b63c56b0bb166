#include "traces/gpu_profile.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>

#include "base/quantity_text.hpp"
#include "cost/gpu_fit.hpp"
#include "cost/measured_gpu.hpp"
#include "scenario/profile.hpp"
#include "traces/analysis.hpp"
#include "traces/collective_times.hpp"
#include "traces/refuse.hpp"
#include "traces/samples.hpp"

namespace rehearsal::traces {
namespace {

constexpr std::uint64_t kFewestPauses = 10;  // of which a median says something
constexpr std::size_t kFewestSizes = 4;      // of memory-bound kernels: a fit has three terms
constexpr std::size_t kHeldOutFrom = 10;     // shapes of a section from which on every fifth is held out
constexpr std::int64_t kSmallestSide = 32;   // of a product: narrower ones move bytes
constexpr double kLeastFlops = 1e9;
constexpr std::int64_t kShortest = 1'000'000;  // 1 us: shorter kernels are all latency, and of no rate

class Maker {
 public:
  Maker(std::span<const Trace> traces, const KernelClasses& classes, const scenario::Files& files)
      : traces_(traces), classes_(classes), files_(files) {}

  FromTraces run() {
    identity();
    for (const auto& trace : traces_) add(trace);
    collectives_ = collective_times(traces_);
    for (auto& text : collectives_.notes) note(std::move(text));
    // One small product says nothing of a rate.
    std::erase_if(times_.gemm, [&](const auto& gemm) {
      const bool told = std::any_of(gemm.second.samples.begin(), gemm.second.samples.end(),
                                    [](const auto& s) { return s.shape.flops().value() >= kLeastFlops; });
      if (!told) no_rate_ += gemm.second.samples.size();
      return !told;
    });
    hold_out();
    if (!sizes_.empty()) memory_bound();
    if (times_.gemm.empty() && times_.attention.empty() && !times_.memory_bound)
      refuse(traces_.front().file,
             "no kernel whose shapes are known: profile with record_shapes=True, and without CUDA graphs");
    cost::fit_gpu(times_, scenario::gpu_file_of(times_.gpu, files_));
    for (const auto& [precision, gemm] : times_.gemm)
      error(fmt::format("matrix products in {}", name(precision)), gemm.fit.error);
    for (const auto& [kernel, attention] : times_.attention)
      error(fmt::format("attention of {}", cost::name(kernel)), attention.error);
    if (times_.memory_bound) error("memory-bound kernels", times_.memory_bound->fit.error);
    if (no_rate_)
      note(fmt::format("{} shapes of matrix products left out: too narrow or too small to tell a rate, or in 4 bits",
                       no_rate_));
    if (no_mask_)
      note(fmt::format("{} shapes of attention left out: whether they are causal was not recorded", no_mask_));
    if (no_kernel_)
      note(fmt::format("{} shapes of attention left out: no kernel of FlashAttention or cuDNN", no_kernel_));
    return {profile(), std::move(notes_)};
  }

 private:
  void note(std::string text) { notes_.push_back(std::move(text)); }

  static cost::Quantiles quantiles_of(const Spread& spread) { return {spread.p10, spread.median, spread.p90}; }

  // What a framework profile calls host_time_per_kernel, which says nothing where launches are in time.
  static std::string host_words(const Launching& launching) {
    std::string words;
    for (const auto pass : {Pass::forward, Pass::backward})
      if (const auto& each = launching.each[index(pass)]; each.count >= kFewestPauses)
        words += fmt::format("{} {} in the {} pass", words.empty() ? "; from one late launch to the next" : " and",
                             show(each.mean), traces::name(pass));
    return words.empty() ? words : words + ", with the profiler's own part (framework.host_time_per_kernel)";
  }

  void error(const std::string& section, const cost::FitErrors& of) {
    const auto part = [](const cost::SampleErrors& e) {
      return fmt::format("{} shape{}, median {:.1f} %, p90 {:.1f} %", e.samples, e.samples == 1 ? "" : "s",
                         e.median * 100, e.p90 * 100);
    };
    note(fmt::format("{}: the fit is off by {}{}", section, part(of.fitted),
                     of.held_out.samples ? fmt::format("; held out: {}", part(of.held_out)) : ""));
  }

  void identity() {
    for (const auto& trace : traces_) {
      if (trace.gpu.name.empty() || trace.gpu.multiprocessors == 0)
        refuse(trace.file, "does not say which GPU it is of (deviceProperties), so no profile can be made of it");
      const auto& first = traces_.front().gpu;
      if (trace.gpu.name != first.name || trace.gpu.multiprocessors != first.multiprocessors)
        refuse(trace.file, fmt::format("is of '{}', and '{}' of '{}': one profile is of one type of GPU",
                                       trace.gpu.name, traces_.front().file, first.name));
    }
    const auto& gpu = traces_.front().gpu;
    times_.gpu.name = gpu.name, times_.gpu.capability = fmt::format("{}.{}", gpu.major, gpu.minor);
    times_.gpu.multiprocessors = gpu.multiprocessors, times_.gpu.memory = Bytes(gpu.memory);
  }

  void add(const Trace& trace) {
    const auto analysis = analyse(std::span(&trace, 1), classes_).front();
    const auto& launching = analysis.launching;
    const bool in_time = launching.pause.count >= kFewestPauses;  // else the host may be the reason of pauses
    const Time pause = in_time                                ? launching.pause.median
                       : analysis.gaps.count >= kFewestPauses ? analysis.gaps.median
                                                              : Time{};
    if (in_time && launching.pause.count > pauses_) {
      pauses_ = launching.pause.count;
      times_.launch.stream = quantiles_of(launching.pause), times_.launch.host = quantiles_of(launching.call);
    }
    if (launching.kernels > 0 && launching.idle > Time{})
      note(fmt::format("{}: {} of a step idle before kernels, {:.0f} % of it because the host launched late{}",
                       trace.file, show(launching.idle), 100 * (launching.late / launching.idle),
                       host_words(launching)));
    note(pause > Time{}
             ? fmt::format("{}: the median pause between kernels, {}, is part of every time", trace.file, show(pause))
             : fmt::format("{}: too few pauses between kernels to know their length: none is added", trace.file));
    const auto quantiles = [&](const Sample& s) {
      return cost::Quantiles{s.p10 + pause, s.median + pause, s.p90 + pause};
    };
    const auto all = samples(trace);
    for (const auto& s : all.gemms) {
      const auto& g = s.gemm;
      if (g.precision == Precision::fp4 || std::min({g.m, g.n, g.k}) < kSmallestSide) {  // profiles have no fp4
        ++no_rate_;
        continue;
      }
      put(times_.gemm[g.precision].samples, {g, quantiles(s), false});
    }
    for (const auto& s : all.attention) {
      const auto which = attention_kernel(trace.names[s.kernel].text);
      if (!s.mask_known)
        ++no_mask_;
      else if (!which)
        ++no_kernel_;
      else
        put(times_.attention[*which].samples, {s.attention, quantiles(s), false});
    }
    for (const auto& s : all.memory_bound)
      if (s.median.count() >= kShortest) {
        const auto [at, fresh] = sizes_.try_emplace(s.traffic, quantiles(s));
        if (!fresh && quantiles(s).p50 < at->second.p50) at->second = quantiles(s);
      }
  }

  // Of one shape in several traces, or by several operators, the faster.
  template <class S>
  static void put(std::vector<S>& known, S sample) {
    const auto same = std::find_if(known.begin(), known.end(), [&](const S& s) { return s.shape == sample.shape; });
    if (same == known.end())
      known.push_back(std::move(sample));
    else if (sample.time.p50 < same->time.p50)
      *same = std::move(sample);
  }

  template <class S>
  static void hold_out(std::vector<S>& samples) {
    if (samples.size() < kHeldOutFrom) return;
    for (std::size_t i = 4; i < samples.size(); i += 5) samples[i].held_out = true;  // the longest are prices
  }
  void hold_out() {
    for (auto& [_, gemm] : times_.gemm) hold_out(gemm.samples);
    for (auto& [_, attention] : times_.attention) hold_out(attention.samples);
  }

  void memory_bound() {
    if (sizes_.size() < kFewestSizes)
      return note(fmt::format("memory-bound kernels of {} sizes alone: too few for a fit", sizes_.size()));
    auto& section = times_.memory_bound.emplace();
    for (const auto& [size, time] : sizes_) section.samples.push_back({size, time, false});
    hold_out(section.samples);
  }

  cost::Profile profile() {
    cost::Profile profile;
    std::string slug;
    for (const char c : times_.gpu.name)
      if (std::isalnum(static_cast<unsigned char>(c)))
        slug += char(std::tolower(static_cast<unsigned char>(c)));
      else if (!slug.empty() && slug.back() != '-')
        slug += '-';
    profile.name = slug + "-traced";
    profile.backend = "trace", profile.ranks = 1;
    profile.cpu = profile.system = profile.compiler = "not known", profile.cores = 1;
    profile.priority = "ordinary";
    profile.date = "not known";
    if (const auto base = traces_.front().base; base && *base > 0)
      profile.date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time_t(*base / 1'000'000'000)));
    profile.summary = fmt::format("{}, from {} trace{}, {}", times_.gpu.name, traces_.size(),
                                  traces_.size() == 1 ? "" : "s", profile.date);
    profile.collectives = std::move(collectives_.curves);
    profile.gpu = std::move(times_);
    profile.digest = scenario::profile_digest(profile);
    return profile;
  }

  std::span<const Trace> traces_;
  const KernelClasses& classes_;
  const scenario::Files& files_;
  cost::GpuTimes times_;
  CollectiveTimes collectives_;
  std::uint64_t pauses_ = 0;                // that the gap between kernels is of
  std::map<Bytes, cost::Quantiles> sizes_;  // of memory-bound kernels, the fastest of each
  std::size_t no_mask_ = 0, no_kernel_ = 0, no_rate_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

FromTraces gpu_profile(std::span<const Trace> traces, const KernelClasses& classes, const scenario::Files& files) {
  return Maker(traces, classes, files).run();
}

}  // namespace rehearsal::traces
