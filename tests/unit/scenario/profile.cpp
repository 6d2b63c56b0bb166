// Profiles of this machine: written and read back, found where `rehearse calibrate` puts them, refused when wrong.
#include "scenario/profile.hpp"

#include "base/sha256.hpp"
#include "helpers.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

cost::Profile example() {
  cost::Profile p;
  p.name = "this-machine-loopback";
  p.summary = "two cores: a \"test\" # 1";
  p.backend = "loopback", p.ranks = 2, p.cpu = "ACME: 3000", p.cores = 2, p.system = "Linux 6.1";
  p.compiler = "GCC 12.2", p.libraries = {{"openmpi", "4.1.4"}}, p.date = "2025-01-02T03:04:05Z";
  p.priority = "ordinary", p.copy = "single copy", p.own_collectives = true;
  std::vector<cost::KernelSample> samples;
  for (std::int64_t i = 1; i <= 6; i++) {
    const Time t(1'234'567 * i * i + 1);  // odd picoseconds: nothing may be rounded
    samples.push_back({{KernelKind::linear, {8 * i, 16, 40 - i}, {}}, t - Time(1), t, t + Time(999'999'999'999)});
    samples.push_back({{KernelKind::adamw, {1000 * i, 0, 1}, {}}, t, t, t});
    samples.push_back({{KernelKind::attention, {1, 8, 16 * i, 4, 1, 2}, {}}, t, t, t});
  }
  p.kernels = cost::fit_kernels(samples);
  const Bytes sizes[] = {Bytes(64), Bytes(4096), Bytes(3 << 20)};
  for (int i = 0; i < 3; i++) {
    p.messages.send.push_back({sizes[i], Time(1001 + i)});
    p.messages.receive.push_back({sizes[i], Time(2'000'002 + i)});
    p.messages.latency.push_back({sizes[i], Time(3'000'000'000 + i)});
  }
  p.collectives.measured[{CollectiveKind::all_reduce, 2}] = {{Bytes(64), Time(77)}, {Bytes(1 << 20), Time(123'456)}};
  p.collectives.measured[{CollectiveKind::all_gather, 4}] = {{Bytes(100), Time(5)}};
  p.between_tasks = {Time(300'000), Time(400'000), Time(500'000)};
  p.timer_overshoot = {Time(1), Time(2), Time(3)};
  p.noise = {Time(10), Time(10), Time(20)};
  p.tiers.emplace();
  p.tiers->threads = 2;
  p.tiers->copies = {{Bytes(64 << 10), {Time(1'001), Time(1'002), Time(1'003)}},
                     {Bytes(1 << 20), {Time(5), Time(6), Time(7)}}};
  p.tiers->adam[Precision::fp32] = {1 << 20, Bytes(28), {Time(11), Time(12), Time(13)}};
  p.tiers->adam[Precision::bf16] = {1 << 20, Bytes(30), {Time(21), Time(22), Time(23)}};
  p.tiers->direct_disk = {
      "io_uring, O_DIRECT", false, {{Bytes(4097), {Time(1), Time(2), Time(3)}, {Time(4), Time(5), Time(6)}}}};
  p.tiers->cached_disk = {
      "pread: \"through\" # it", true, {{Bytes(1), {Time(7), Time(7), Time(7)}, {Time(8), Time(8), Time(8)}}}};
  return p;
}

const std::string kHere =
    "version: 1\nmodel: {family: mlp, layers: 2, hidden: 64}\ncluster: this-machine\nparallelism: {pipeline: 2}\n"
    "batch: {global: 16}\ntraining: {precision: fp32}\n";

// Sets $REHEARSAL_PROFILES during its lifetime.
struct Place {
  explicit Place(const std::string& folder) { ::setenv("REHEARSAL_PROFILES", folder.c_str(), 1); }
  ~Place() { ::unsetenv("REHEARSAL_PROFILES"); }
};

}  // namespace

TEST_CASE("a profile comes back as it was written") {
  const Folder folder;
  const auto written = example();
  const auto file = folder.write("this-machine-loopback.yaml", write_profile(written));
  const auto read = load_profile_file(file);
  CHECK(write_profile(read) == write_profile(written));
  CHECK(read.summary == written.summary);
  CHECK(read.cpu == written.cpu);
  CHECK(read.libraries == written.libraries);
  CHECK(read.digest == profile_digest(written));
  const auto& linear = read.kernels.at(KernelKind::linear);
  const auto& original = written.kernels.at(KernelKind::linear);
  REQUIRE(linear.samples.size() == 6);
  CHECK(linear.samples[3].kernel == original.samples[3].kernel);
  CHECK(linear.samples[3].p10 == original.samples[3].p10);
  CHECK(linear.samples[3].p90 == original.samples[3].p90);
  // Five dims at least, as in profiles of old; more where they say something.
  CHECK(write_profile(written).find("[[8, 16, 39, 0, 0], ") != std::string::npos);
  CHECK(write_profile(written).find("[[1, 8, 32, 4, 1, 2], ") != std::string::npos);
  CHECK(read.kernels.at(KernelKind::attention).samples[1].kernel ==
        Kernel{KernelKind::attention, {1, 8, 32, 4, 1, 2}, {}});
  CHECK(linear.fit.seconds == original.fit.seconds);
  CHECK(read.kernels.at(KernelKind::adamw).fit.knee == written.kernels.at(KernelKind::adamw).fit.knee);
  CHECK(read.messages.latency[2].size == Bytes(3 << 20));
  CHECK(read.messages.latency[2].time == Time(3'000'000'002));
  CHECK(read.messages.send[0].time == Time(1001));
  CHECK(read.collectives.measured.at({CollectiveKind::all_reduce, 2})[1].time == Time(123'456));
  CHECK(read.collectives.measured.size() == 2);
  CHECK(read.own_collectives);
  CHECK(read.noise->p90 == Time(20));
  CHECK(read.between_tasks->p50 == Time(400'000));
  REQUIRE(read.tiers);
  CHECK(read.tiers->threads == 2);
  CHECK(read.tiers->copies[0].time.p90 == Time(1'003));
  CHECK(read.tiers->adam.at(Precision::bf16).each == Bytes(30));
  CHECK(read.tiers->adam.at(Precision::fp32).time.p10 == Time(11));
  CHECK_FALSE(read.tiers->direct_disk->page_cache);
  CHECK(read.tiers->direct_disk->samples[0].read.p90 == Time(6));
  CHECK(read.tiers->cached_disk->page_cache);
  CHECK(read.tiers->cached_disk->means == written.tiers->cached_disk->means);
  CHECK(check(folder.write("profiles/x.yaml", write_profile(written))).ok());
}

TEST_CASE("what was not measured says so, and is empty when read") {
  const Folder folder;
  cost::Profile p;
  p.backend = "loopback", p.ranks = 1, p.cores = 1, p.priority = "raised";
  const auto text = write_profile(p);
  for (const char* section : {"kernels", "messages", "collectives", "between_tasks", "timer_overshoot", "noise"})
    CHECK_MESSAGE(text.find(fmt::format("\n{}: {{source: assumed}}\n", section)) != std::string::npos, section);
  CHECK(text.find("collectives_by") == std::string::npos);  // as in profiles of old, a library
  const auto read = load_profile_file(folder.write("p.yaml", text));
  CHECK_FALSE(read.own_collectives);
  CHECK(read.kernels.empty());
  CHECK_FALSE(read.has_messages());
  CHECK_FALSE(read.has_collectives());
  CHECK_FALSE(read.noise);
  CHECK(read.digest == profile_digest(p));
}

TEST_CASE("this machine is the one that was measured") {
  const Folder folder;
  const Place place(folder.path());
  const auto assumed = load_text(kHere);
  CHECK_FALSE(assumed.concrete->profile);
  CHECK(assumed.concrete->cluster.profile.empty());
  CHECK(assumed.concrete->curves.name == "assumed-shared-memory");

  auto p = example();
  folder.write("this-machine-loopback.yaml", write_profile(p));
  const auto loopback = load_text(kHere);
  REQUIRE(loopback.concrete->profile);
  CHECK(loopback.concrete->cluster.profile == "this-machine-loopback");
  CHECK(loopback.concrete->profile->digest == profile_digest(p));
  CHECK(loopback.concrete->curves.measured.size() == 2);
  CHECK(loopback.concrete->curves.fitted.empty());
  CHECK(loopback.digest != assumed.digest);                         // another machine is another question
  CHECK(loopback.assumptions.size() < assumed.assumptions.size());  // of collectives

  // By default the messages are those between processes; another backend must be asked for.
  p.backend = "mpi";
  folder.write("this-machine-mpi.yaml", write_profile(p));
  CHECK(load_text(kHere).concrete->profile->backend == "mpi");
  const auto scenario = folder.write("x.yaml", kHere);
  CHECK(load(scenario, {}, "loopback").concrete->profile->backend == "loopback");
  CHECK(load(scenario, {}, "mpi").concrete->profile->backend == "mpi");
  CHECK_FALSE(load(scenario, {}, "cuda").concrete->profile);

  // Other clusters were not measured.
  CHECK_FALSE(load_text(kGood).concrete->profile);
  // A file of one's own, relative to the scenario, wins.
  p.cpu = "another";
  folder.write("mine/elsewhere.yaml", write_profile(p));
  const auto mine = load(folder.write(
      "mine/x.yaml", with(kHere, "cluster: this-machine", "cluster: {use: this-machine, profile: elsewhere.yaml}")));
  CHECK(mine.concrete->profile->cpu == "another");
  CHECK(mine.concrete->profile->name == "elsewhere");
}

TEST_CASE("where profiles lie") {
  ::unsetenv("REHEARSAL_PROFILES");
  ::setenv("XDG_CONFIG_HOME", "/config", 1);
  CHECK(profile_file("mpi") == "/config/rehearsal/this-machine-mpi.yaml");
  {
    const Place place("/elsewhere");
    CHECK(profile_file("loopback") == "/elsewhere/this-machine-loopback.yaml");
  }
  ::unsetenv("XDG_CONFIG_HOME");
  const std::string home = ::getenv("HOME") ? ::getenv("HOME") : "";
  ::setenv("HOME", "/user", 1);
  CHECK(disk().profiles() == "/user/.config/rehearsal");
  home.empty() ? ::unsetenv("HOME") : ::setenv("HOME", home.c_str(), 1);
}

TEST_CASE("wrong profiles are refused at the place") {
  const Folder folder;
  const auto good = write_profile(example());
  const auto errors = [&](const std::string& old, const std::string& now) {
    const auto found = check(folder.write("profiles/x.yaml", with(good, old, now))).errors;
    return found.empty() ? std::string() : found[0].message;
  };
  CHECK(errors("version: 1", "version: 2") == "'version' is unknown; this program reads version 1 of profiles");
  CHECK(errors("  linear:", "  linaer:") == "unknown key 'linaer' in 'kernels'; did you mean 'linear'?");
  CHECK(errors("priority: ordinary", "priority: high") == "'priority' must be one of raised, ordinary; found 'high'");
  CHECK(errors("[3MiB, 1.003ns,", "[1KiB, 1.003ns,") == "'times': sizes must be above 0 and in ascending order");
  CHECK(errors("timer_overshoot: [1ps", "timer_overshoot: [3ps") ==
        "'timer_overshoot': p10, p50 and p90 must be in ascending order");
  CHECK(errors("timer_overshoot: [1ps", "timer_overshoot: [0") == "'timer_overshoot': times must be above zero");
  CHECK(errors("timer_overshoot: [1ps, 2ps, 3ps]", "timer_overshoot: {source: guess}") ==
        "'source' of 'timer_overshoot' can only be 'assumed'; a measured section gives its times instead");
  CHECK(errors("[1MiB, [5ps,", "[1KiB, [5ps,") == "'copies': sizes must be above 0 and in ascending order");
  CHECK(errors("bytes_each: 28", "bytes_each: 0").find("bytes_each") != std::string::npos);
  CHECK(errors("page_cache: false", "page_cash: false").find("page_cache") != std::string::npos);
  CHECK(errors("call: ", "cal: ").find("missing key 'call' in 'fit'") == 0);

  // A number changed by hand is used, with a warning.
  const auto changed = folder.write("profiles/x.yaml", with(good, "ranks: 2", "ranks: 3"));
  const auto checked = check(changed);
  CHECK(checked.ok());
  REQUIRE(checked.warnings.size() == 1);
  CHECK(checked.warnings[0].message == "the profile does not match its digest: it was edited after it was measured");

  const auto missing = errors_of(with(kHere, "this-machine", "{use: this-machine, profile: nowhere.yaml}"));
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].starts_with("3:39: profile 'nowhere.yaml' is neither a file nor a name in configs/profiles"));
}
