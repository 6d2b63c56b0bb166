#include "cost/profile.hpp"

#include <algorithm>

namespace rehearsal::cost {
namespace {

bool before(const KernelSample& a, const KernelSample& b) { return a.kernel.dims < b.kernel.dims; }

}  // namespace

std::string name(const KernelClass& kernels) {
  const std::string kind = rehearsal::name(kernels.kind);
  return kernels.precision == Precision::fp32 ? kind : kind + " in " + rehearsal::name(kernels.precision);
}

std::optional<FlopRate> Profile::peak(Precision precision) const {
  double most = 0;
  for (const auto& [of, times] : kernels)
    for (const auto& sample : times.samples)
      if (of.precision == precision && sample.p10 > Time{})
        most = std::max(most, sample.kernel.flops().value() / to_seconds(sample.p10));
  return most > 0 ? std::optional(FlopRate(most)) : std::nullopt;
}

std::optional<Profile::Priced> Profile::time(const Kernel& kernel) const {
  const auto known = kernels.find(KernelClass(kernel));
  if (known == kernels.end()) return std::nullopt;
  const auto& samples = known->second.samples;
  const auto found = std::lower_bound(samples.begin(), samples.end(), KernelSample{kernel, {}, {}, {}}, before);
  if (found != samples.end() && found->kernel.dims == kernel.dims) return Priced{to_seconds(found->p50), true};
  return Priced{known->second.fit.time(kernel), false};
}

std::map<KernelClass, KernelTimes> fit_kernels(std::vector<KernelSample> samples) {
  std::map<KernelClass, KernelTimes> all;
  for (auto& s : samples) {
    s.kernel.offsets = {};
    auto& list = all[KernelClass(s.kernel)].samples;
    const auto at = std::lower_bound(list.begin(), list.end(), s, before);
    if (at != list.end() && at->kernel.dims == s.kernel.dims)
      *at = s;
    else
      list.insert(at, s);
  }
  for (auto& [kernel, times] : all) times.fit = fit(times.samples);
  return all;
}

}  // namespace rehearsal::cost
