#include "collective/fields.hpp"

#include <fmt/format.h>

#include "cluster/fields.hpp"

namespace rehearsal::collective {

using namespace fields;

namespace {

const Description& point_fields() {
  using P = Point;
  static const Description all =
      describe<P>({}, field<&P::size>("size", fields::size(), kRequired, "of the array"),
                  field<&P::time>("time", {Form::Kind::time, 0, 0, true}, kRequired, "as measured"));
  return all;
}

// A mapping for each kind that has a curve.
Member<&SizeCurves::fitted> fitted() {
  Member<&SizeCurves::fitted> member;
  for (const auto& [name, kind] : kCurveKinds) {
    const auto of = [kind = kind](auto* curves) {
      const auto found = curves->fitted.find(kind);
      return found == curves->fitted.end() ? nullptr : &found->second;
    };
    const auto key = fmt::format("fitted.{}", name);
    auto one = inside(
        fitted_fields(), key, [of](const void* s) -> const void* { return of(static_cast<const SizeCurves*>(s)); },
        [of](void* s) -> void* { return of(static_cast<SizeCurves*>(s)); });
    for (auto& f : one.fields) member.adds.fields.push_back(std::move(f));
    member.adds.groups.push_back({.key = key, .help = "curve for rank counts without a table"});
  }
  return member;
}

}  // namespace

Form point_list() { return entries<Point>(point_fields(), "[size, time], such as [1MiB, 44us]", true); }

const Description& fitted_fields() {
  using F = FittedCurve;
  static const Description all = describe<F>(
      {}, field<&F::fixed>("fixed", time(), kRequired, "a of T = a + S/B (1 + sqrt(Sg/S))"),
      field<&F::rate>("rate", bandwidth(), kRequired, "B"), field<&F::half_size>("half_size", size(), kDefault, "Sg"));
  return all;
}

const Description& measured_on_fields() {
  using O = MeasuredOn;
  static const Description all =
      describe<O>({}, field<&O::topology>("topology", name_of("topology"), kDefault, "inside the node"),
                  field<&O::gpus>("gpus", whole(1, 4096), kDefault, "of the node"),
                  field<&O::nvlink>("nvlink", bandwidth(), kRequired, "per GPU, one way"),
                  nested<&O::interconnect>("interconnect", cluster::interconnect_fields()),
                  field<&O::latency>("latency", time(),
                                     {[](const O& o) { return o.interconnect.step; }, "the interconnect's `step`"},
                                     "between two GPUs"),
                  field<&O::nccl>("nccl", version(), kDefault, "NCCL version: which algorithms it had"),
                  field<&O::nics>("nics", whole(1, 4096), std::nullopt, "NICs per node, for curves over several nodes"),
                  field<&O::nic>("nic", bandwidth(), std::nullopt, "per NIC, one way"),
                  field<&O::nic_latency>("nic_latency", time(), std::nullopt, "latency of one hop between nodes"));
  return all;
}

const Description& curve_fields() {
  using C = SizeCurves;
  static const Description all = describe<C>(
      {.groups = {{.key = "fitted", .help = "fitted curves"},
                  {.key = "measured_on", .help = "links that the times were measured on", .required = true}}},
      settled(field<&C::name>("name", text(), kDefault, "")),
      opaque<&C::measured>(
          "measured", "by kind and number of ranks lists of [size, time]",
          [](const auto& tables) {
            std::string text;
            for (const auto& [key, points] : tables) {
              text += fmt::format("{} {}:", int(key.first), key.second);
              for (const auto& p : points) text += fmt::format(" {}@{}", p.size.count(), p.time.count());
              text += "; ";
            }
            return text;
          },
          "measured times"),
      field<&C::time_factor>("time_factor", number_above(0, 100), kDefault,
                             "factor on all measured times, and on the links that they were measured on"),
      field<&C::fitted_ranks>("fitted.ranks", whole(2, 100'000), kRequired, "number of ranks that the curves describe"),
      fitted(), nested<&C::measured_on>("measured_on", measured_on_fields()),
      aside<&C::source>("citations move no answer"));
  return all;
}

}  // namespace rehearsal::collective
