// Writes a profile as YAML, which load_profile.cpp reads back.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/sha256.hpp"
#include "scenario/profile.hpp"
#include "scenario/profile_parts.hpp"

namespace rehearsal::scenario {

// Whole picoseconds in the largest unit with at most three decimals: exact, and readable.
std::string text_of(Time time) {
  const std::pair<std::int64_t, const char*> units[] = {
      {1'000'000'000'000, "s"}, {1'000'000'000, "ms"}, {1'000'000, "us"}, {1'000, "ns"}};
  for (const auto& [factor, unit] : units) {
    const auto thousandth = factor / 1000;
    if (time.count() < factor || time.count() % thousandth != 0) continue;
    return fmt::format("{}.{:03}{}", time.count() / factor, time.count() % factor / thousandth, unit);
  }
  return fmt::format("{}ps", time.count());
}

std::string text_of(Bytes size) {
  if (size.count() >= 1 << 20 && size.count() % (1 << 20) == 0) return fmt::format("{}MiB", size.count() >> 20);
  if (size.count() >= 1 << 10 && size.count() % (1 << 10) == 0) return fmt::format("{}KiB", size.count() >> 10);
  return fmt::format("{}B", size.count());
}

std::string text_of(const cost::Quantiles& q) {
  return fmt::format("[{}, {}, {}]", text_of(q.p10), text_of(q.p50), text_of(q.p90));
}

std::string quoted(const std::string& words) {
  std::string out = "\"";
  for (const char c : words) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

namespace {

using cost::Profile;

std::span<const std::int64_t> written_dims(const KernelDims& dims) {
  std::size_t count = dims.size();
  while (count > kLeastDims && dims[count - 1] == 0) --count;
  return std::span(dims).first(count);
}

std::string kernel_text(KernelKind kind, const cost::KernelTimes& times) {
  std::string out = fmt::format("  {}:\n", name(kind));
  const auto& fit = times.fit;
  std::vector<std::string> fitted;
  const auto names = cost::terms(kind);
  for (std::size_t i = 0; i < names.size(); i++) fitted.push_back(fmt::format("{}: {}", names[i], fit.seconds[i]));
  out += fmt::format("    fit: {{{}}}  # seconds for each\n", fmt::join(fitted, ", "));
  if (fit.knee != Bytes()) out += fmt::format("    knee: {}\n", text_of(fit.knee));
  out += fmt::format("    error: {{median: {:.4f}, worst: {:.4f}, left_out_median: {:.4f}, left_out_worst: {:.4f}}}\n",
                     fit.error, fit.worst, fit.left_out, fit.left_out_worst);
  out += "    samples:\n";
  for (const auto& s : times.samples)
    out += fmt::format("      - [[{}], {}]\n", fmt::join(written_dims(s.kernel.dims), ", "),
                       text_of(cost::Quantiles{s.p10, s.p50, s.p90}));
  return out;
}

std::string curves_text(const collective::SizeCurves& curves) {
  std::string out = "  measured:\n";
  const std::pair<const char*, CollectiveKind> kinds[] = {{"all_reduce", CollectiveKind::all_reduce},
                                                          {"reduce_scatter", CollectiveKind::reduce_scatter},
                                                          {"all_gather", CollectiveKind::all_gather}};
  for (const auto& [kind_name, kind] : kinds) {
    std::string lists;
    for (const auto& [key, points] : curves.measured) {
      if (key.first != kind) continue;
      std::vector<std::string> pairs;
      for (const auto& p : points) pairs.push_back(fmt::format("[{}, {}]", text_of(p.size), text_of(p.time)));
      lists += fmt::format("      {}: [{}]\n", key.second, fmt::join(pairs, ", "));
    }
    if (!lists.empty()) out += fmt::format("    {}:\n{}", kind_name, lists);
  }
  return out;
}

std::string body(const Profile& p) {
  std::string out = fmt::format("backend: {}\nranks: {}  # computing at the same time\n", p.backend, p.ranks);
  out += fmt::format("machine: {{cpu: {}, cores: {}, system: {}}}\n", quoted(p.cpu), p.cores, quoted(p.system));
  out += fmt::format("compiler: {}\n", quoted(p.compiler));
  if (!p.libraries.empty()) {
    std::vector<std::string> versions;
    for (const auto& [library, version] : p.libraries)
      versions.push_back(fmt::format("{}: {}", library, quoted(version)));
    out += fmt::format("libraries: {{{}}}\n", fmt::join(versions, ", "));
  }
  out += fmt::format("date: {}\npriority: {}\n", quoted(p.date), p.priority);
  std::map<Precision, std::string> kernels;
  for (const auto& [kernel, times] : p.kernels) kernels[kernel.precision] += kernel_text(kernel.kind, times);
  constexpr const char* kTitle = "  # [p10, p50, p90] by dims; base/kernels.hpp\n";
  if (kernels.empty()) out += "kernels: {source: assumed}\n";
  for (const auto& [precision, texts] : kernels)
    out += fmt::format("kernels{}{}:{}{}", precision == Precision::fp32 ? "" : "_",
                       precision == Precision::fp32 ? "" : name(precision), kTitle, texts);
  if (p.has_messages()) {
    out += fmt::format("messages:\n  copy: {}\n  times:  # size, o_s, o_r, L\n", quoted(p.copy));
    const auto& m = p.messages;
    for (std::size_t i = 0; i < m.latency.size(); i++)
      out += fmt::format("    - [{}, {}, {}, {}]\n", text_of(m.latency[i].size), text_of(m.send[i].time),
                         text_of(m.receive[i].time), text_of(m.latency[i].time));
  } else {
    out += "messages: {source: assumed}\n";
  }
  if (p.own_collectives) out += "collectives_by: own  # steps, not a library\n";
  out += p.has_collectives() ? "collectives:\n" + curves_text(p.collectives) : "collectives: {source: assumed}\n";
  out += fmt::format("between_tasks: {}\n", p.between_tasks ? text_of(*p.between_tasks) : "{source: assumed}");
  out += fmt::format("timer_overshoot: {}\n", p.timer_overshoot ? text_of(*p.timer_overshoot) : "{source: assumed}");
  out += fmt::format("noise: {}\n", p.noise ? text_of(*p.noise) : "{source: assumed}");
  if (p.tiers) out += tier_times_text(*p.tiers);
  if (p.gpu) out += gpu_times_text(*p.gpu);
  return out;
}

}  // namespace

std::string profile_digest(const Profile& profile) { return sha256(body(profile)); }

std::string write_profile(const Profile& profile) {
  return fmt::format(
      "# Written by `rehearse calibrate`. Edited by hand, it no longer matches its digest, and a warning says so.\n"
      "version: 1\nsummary: {}\n{}digest: {}\n",
      quoted(profile.summary), body(profile), profile_digest(profile));
}

}  // namespace rehearsal::scenario
