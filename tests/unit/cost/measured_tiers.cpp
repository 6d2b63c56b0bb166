#include "cost/measured_tiers.hpp"

#include <doctest/doctest.h>

#include "cost/cost_model.hpp"

namespace rehearsal::cost {
namespace {

Quantiles all(double s) { return {seconds(s), seconds(s), seconds(s)}; }

// A line each: copies 1 ms and 1 ms a MB, writes 2 ms and 4 ms a MB, reads 3 ms and 2 ms a MB; 2 ns a parameter.
TierTimes times() {
  TierTimes t;
  t.threads = 2;
  t.copies = {{Bytes(1'000'000), all(2e-3)}, {Bytes(3'000'000), all(4e-3)}};
  t.direct_disk = DiskTimes{
      "io_uring", false, {{Bytes(1'000'000), all(6e-3), all(5e-3)}, {Bytes(5'000'000), all(22e-3), all(13e-3)}}};
  t.adam[Precision::fp32] = {1'000'000, Bytes(28), all(2e-3)};
  t.adam[Precision::bf16] = {1'000'000, Bytes(30), all(3e-3)};
  return t;
}

double copied(const TierTimes& t, std::int64_t bytes, Tier from, Tier to) {
  return measured_copy(t, graph::Copy{Bytes(bytes), from, to}).value();
}

}  // namespace

TEST_CASE("copies take straight lines between and beyond what was measured, disks their own") {
  const auto t = times();
  CHECK(copied(t, 2'000'000, Tier::device, Tier::host) == doctest::Approx(3e-3));
  CHECK(copied(t, 2'000'000, Tier::host, Tier::device) == doctest::Approx(3e-3));
  CHECK(copied(t, 10'000'000, Tier::host, Tier::device) == doctest::Approx(11e-3));
  CHECK(copied(t, 1'000, Tier::host, Tier::device) == doctest::Approx(1.001e-3));
  CHECK(copied(t, 2'000'000, Tier::host, Tier::nvme) == doctest::Approx(10e-3));
  CHECK(copied(t, 2'000'000, Tier::nvme, Tier::host) == doctest::Approx(7e-3));
}

TEST_CASE("what was not measured is left to formulas") {
  TierTimes none;
  CHECK_FALSE(measured_copy(none, graph::Copy{Bytes(1), Tier::device, Tier::host}));
  CHECK_FALSE(measured_step(none, graph::HostStep{1, Bytes(28)}));
  auto cached = times();
  cached.cached_disk = cached.direct_disk, cached.direct_disk.reset();  // the page cache is better than nothing
  CHECK(copied(cached, 2'000'000, Tier::nvme, Tier::host) == doctest::Approx(7e-3));
}

TEST_CASE("a step of the host takes what a parameter does, by what is stored") {
  CHECK(measured_step(times(), graph::HostStep{500, Bytes(14'000)}).value() == doctest::Approx(1e-6));
  CHECK(measured_step(times(), graph::HostStep{500, Bytes(15'000), Precision::bf16}).value() ==
        doctest::Approx(1.5e-6));
}

TEST_CASE("the cluster has the rates that were measured, and assumes them no more") {
  cluster::ClusterSpec spec;
  spec.assumed = {"host.memory_bandwidth", "host.pcie.bandwidth", "host.memory"};
  Profile profile;
  profile.name = "mine", profile.cores = 4, profile.tiers = times();
  const auto measured = with_tiers(spec, profile);
  CHECK(measured.assumed == std::vector<std::string>{"host.memory"});
  CHECK(measured.host.cores == 4);
  CHECK(measured.host.memory_bandwidth->value() == doctest::Approx(28e6 / 2e-3));
  CHECK(measured.host.pcie->value() == doctest::Approx(3e6 / 4e-3));
  CHECK(measured.host.nvme_write->value() == doctest::Approx(5e6 / 22e-3));
  CHECK(measured.host.nvme_read->value() == doctest::Approx(5e6 / 13e-3));
}

}  // namespace rehearsal::cost
