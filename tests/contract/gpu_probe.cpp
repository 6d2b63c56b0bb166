// The calls of `rehearse calibrate --backend cuda`, checked against the rules of streams, events, memory and NCCL, and
// the profile made from its numbers. Nothing here runs on a GPU: times come from a recorder, or from a formula.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "../program.hpp"
#include "answer/predict.hpp"
#include "base/error.hpp"
#include "cost/gemm.hpp"
#include "dispatch/clock.hpp"
#include "perform/calibrate_gpu.hpp"
#include "recorder/recorder.hpp"
#include "scenario/profile.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal {
namespace {

using test::World;

void check_rules(const World& world) {
  CAPTURE(world.broken().empty() ? std::string() : world.broken().front());
  CHECK(world.broken().size() == 0);
  CHECK(world.waiting() == 0);
  CHECK(world.blocks() == 0);
}

// Every kind and precision of the real grid, with dimensions that a host can hold.
std::vector<gpu::ProbedKernel> small_kernels() {
  std::vector<gpu::ProbedKernel> all;
  std::set<std::pair<KernelKind, Precision>> seen;
  for (auto kernel : gpu::kernel_grid(false)) {
    for (auto& dim : kernel.kernel.dims) dim = dim > 16 ? 16 : dim;
    if (seen.insert({kernel.kernel.kind, kernel.kernel.precision}).second) all.push_back(kernel);
  }
  return all;
}

gpu::ProbeOptions small() {
  gpu::ProbeOptions options;
  options.quick = true;
  options.arena = Bytes(1 << 21), options.rotation = Bytes(1 << 16);
  options.largest_copy = Bytes(1 << 14), options.beside_copy = Bytes(1 << 14);
  options.gemm = 32;
  options.kernels = small_kernels();
  return options;
}

bool ordered(const gpu::LaunchTime& t) { return t.p10 > Time() && t.p10 <= t.p50 && t.p50 <= t.p90; }

// NCCL's answer to two ranks on one GPU.
class Refusing : public gpu::Communicators {
 public:
  std::string make_id() override { return "id"; }
  std::unique_ptr<gpu::Communicator> join(const std::string&, int members, int, gpu::Traffic, Time) override {
    CHECK(members == 2);
    throw MachineError("Duplicate GPU detected");
  }
  void begin_group() override {}
  void end_group() override {}
};

// A backend whose NCCL takes its time.
class Slow : public backend::Backend, public gpu::Prober {
 public:
  explicit Slow(Time takes) : takes_(takes) {}
  std::string name() const override { return "slow"; }
  std::string summary() const override { return ""; }
  std::vector<backend::Capability> capabilities() const override { return {}; }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph&) override { return {}; }
  gpu::DeviceFacts gpu_facts() override { return {}; }
  gpu::Probe measure_gpu(const gpu::ProbeOptions&) override { return {}; }
  std::optional<std::string> refuse_two_ranks(Time) override {
    dispatch::sleep_until(dispatch::now() + takes_);
    return "Duplicate GPU detected";
  }

 private:
  Time takes_;
};

gpu::LaunchTime around(double seconds_each) {
  return {seconds(seconds_each * .98), seconds(seconds_each), seconds(seconds_each * 1.03)};
}

// An H200 whose every time follows a formula: products as the GPU's file prices them, links 10 us + bytes / rate.
gpu::Probe invented(std::size_t parts) {
  gpu::Probe probe;
  probe.device = {.name = "NVIDIA H200",
                  .capability = "9.0",
                  .multiprocessors = 132,
                  .memory = Bytes(150'120'000'000),
                  .free = Bytes(149'000'000'000),
                  .driver = "580.65, CUDA 13.0",
                  .runtime = "13.0",
                  .libraries = {{"cuBLASLt", "13.1.0"}, {"NCCL", "2.28.9"}}};
  probe.parts = parts, probe.multiprocessors = parts > 1 ? 32 : 132, probe.settled = true;
  const auto h200 = scenario::gpu_file_of({.name = "NVIDIA H200",
                                           .capability = "9.0",
                                           .multiprocessors = 132,
                                           .memory = probe.device.memory,
                                           .driver = "",
                                           .runtime = ""});
  for (const auto& [kernel, held_out] : gpu::kernel_grid(true)) {
    const std::int64_t a = kernel.dims[0], b = kernel.dims[1], c = kernel.dims[2];
    double time = 3e-6 + double(kernel.traffic().count()) / 4e12;
    if (is_linear(kernel.kind))
      time = cost::gemm_time(h200, {a, b, c, 1, kernel.precision, kernel.kind == KernelKind::linear_weight_gradient},
                             kernel.precision, 1);
    probe.kernels.push_back({kernel, around(time), held_out});
  }
  for (std::int64_t size = 4096; size <= 1 << 26; size *= 2) {
    const auto at = [size](double rate) { return around(10e-6 + double(size) / rate); };
    const bool held_out = size == 1 << 23;
    probe.memory_bound.push_back({Bytes(size), at(4e12), held_out});
    probe.device_copy.push_back({Bytes(size), at(2e12), held_out});
    probe.to_device.push_back({Bytes(size), at(55e9), held_out});
    probe.to_host.push_back({Bytes(size), at(50e9), held_out});
    if (parts > 1) probe.message.push_back({Bytes(size), at(1e12), false});
    if (parts > 1) probe.rings.push_back({parts, CollectiveKind::all_reduce, Bytes(size), at(5e11)});
  }
  probe.duplex = .9;
  probe.with_host_copy = {.gemm = 1.02, .copy = 1.1};
  probe.launch_host = around(2e-6), probe.launch_stream = around(1.5e-6), probe.launch_graph = around(1e-6);
  probe.between_tasks = around(.5e-6), probe.between_tasks_graph = around(.4e-6);
  const Kernel product{KernelKind::linear, {4096, 4096, 4096}, {}, Precision::bf16};
  for (const std::size_t count : {2, 4, 8})
    probe.partitions.push_back({count, int(132 / count / 8 * 8), product, around(4e-4), around(5e-4)});
  return probe;
}

}  // namespace

TEST_CASE("a whole GPU is measured by the rules, and every row has its numbers") {
  World world({.seed = 3});
  const auto options = small();
  const auto probe = gpu::measure(test::recording_platform(world), options);
  check_rules(world);
  CAPTURE(probe.left_out.empty() ? std::string() : probe.left_out.front());
  CHECK(probe.left_out.empty());
  CHECK(probe.multiprocessors == 132);
  REQUIRE(probe.kernels.size() == options.kernels.size());
  std::set<KernelKind> kinds;
  for (const auto& k : probe.kernels) {
    CHECK(ordered(k.time));
    kinds.insert(k.kernel.kind);
  }
  CHECK(kinds.size() == kKernelKinds);
  for (const auto* sizes : {&probe.memory_bound, &probe.device_copy, &probe.to_device, &probe.to_host}) {
    CHECK(sizes->size() >= 3);
    for (const auto& s : *sizes) CHECK(ordered(s.time));
  }
  CHECK(probe.duplex > 0);
  CHECK(probe.with_host_copy.gemm > 0);
  CHECK(probe.with_host_copy.copy > 0);
  CHECK(probe.with_device_copy.gemm > 0);
  CHECK(probe.with_device_copy.copy > 0);
  for (const auto& time :
       {probe.launch_host, probe.launch_stream, probe.launch_graph, probe.between_tasks, probe.between_tasks_graph}) {
    REQUIRE(time);
    CHECK(ordered(*time));
  }
  REQUIRE(probe.partitions.size() == 3);
  CHECK(probe.partitions[0].multiprocessors == 64);
  CHECK(probe.partitions[2].multiprocessors == 16);
  for (const auto& p : probe.partitions) CHECK((ordered(p.alone) && ordered(p.busy)));
  REQUIRE(!probe.nccl.empty());
  for (const auto& n : probe.nccl)
    CHECK((ordered(n.out_of_place) && ordered(n.in_place) && ordered(n.to_itself) && ordered(n.called)));
  REQUIRE(!probe.pairs.empty());
  for (const auto& p : probe.pairs) CHECK((ordered(p.first) && ordered(p.second) && ordered(p.both)));
  CHECK(world.calls["replay"] > 0);  // copies from pinned memory
}

TEST_CASE("of every kernel some shapes are fitted, and about a third is held out") {
  for (const bool quick : {false, true}) {
    std::map<std::pair<KernelKind, Precision>, std::pair<int, int>> counts;  // all, held out
    std::set<Kernel> distinct;
    for (const auto& [kernel, held_out] : gpu::kernel_grid(quick)) {
      auto& [all, out] = counts[{kernel.kind, kernel.precision}];
      ++all, out += held_out;
      CHECK(distinct.insert(kernel).second);
    }
    for (const auto& [kind, count] : counts) {
      CAPTURE(name(kind.first));
      CHECK(count.first >= 2);
      CHECK(count.second >= 1);
      CHECK(2 * count.second <= count.first);
    }
    CHECK(counts.size() == 2 * (kKernelKinds - 3) + 3 * 2 + 2);  // both precisions; and products in tf32 and fp8
  }
}

TEST_CASE("virtual stages are measured while all of them are busy") {
  World world({.seed = 5});
  auto options = small();
  options.parts = 4;
  const auto probe = gpu::measure(test::recording_platform(world), options);
  check_rules(world);
  CHECK(probe.multiprocessors == 32);
  CHECK(probe.kernels.size() == options.kernels.size());
  CHECK(probe.message.size() >= 2);
  CHECK(probe.message.size() == probe.device_copy.size());
  std::set<std::pair<std::size_t, CollectiveKind>> rings;
  for (const auto& r : probe.rings) {
    CHECK(ordered(r.time));
    rings.insert({r.members, r.kind});
  }
  CHECK(rings.size() == 2 * 3);  // of 2 and of 4, three collectives
  CHECK(probe.nccl.empty());
}

TEST_CASE("what does not fit and what there is no time for is named, not measured") {
  World world({.seed = 7});
  auto options = small();
  const Kernel large{KernelKind::add, {1 << 20}, {}, Precision::fp32};  // 8 MiB of operands, 2 MiB of room
  options.kernels = {{large}};
  auto probe = gpu::measure(test::recording_platform(world), options);
  CHECK(probe.kernels.empty());
  REQUIRE(probe.left_out.size() == 1);
  CHECK(contains(probe.left_out.front(), "add [1048576"));
  options.budget = Time();
  options.kernels = small_kernels();
  probe = gpu::measure(test::recording_platform(world), options);
  REQUIRE(probe.left_out.size() == 1);
  CHECK(contains(probe.left_out.front(), "more shapes"));
  check_rules(world);
}

TEST_CASE("what NCCL says to two ranks on one GPU comes back as words") {
  World world({.seed = 1});
  auto platform = test::recording_platform(world);
  platform.communicators = [](gpu::Device&) { return std::make_unique<Refusing>(); };
  const auto refusal = gpu::two_ranks_on_one_gpu(platform, seconds(1));
  REQUIRE(refusal);
  CHECK(*refusal == "Duplicate GPU detected");
  check_rules(world);
}

TEST_CASE("a NCCL that hangs is left behind, and said so") {
  const auto answered = perform::refusal(std::make_shared<Slow>(Time()), seconds(20), seconds(20));
  CHECK(answered.words == "Duplicate GPU detected");
  CHECK_FALSE(answered.hangs);
  const auto hung = perform::refusal(std::make_shared<Slow>(seconds(1)), Time(), seconds(10e-3));
  CHECK(hung.hangs);
  CHECK_MESSAGE(contains(hung.words, "hangs"), hung.words);
  dispatch::sleep_until(dispatch::now() + seconds(1.5));  // the thread must not outlive this program's statics
}

TEST_CASE("a measured GPU becomes a profile, which comes back from its file and predicts") {
  const Scratch scratch;
  std::vector<cost::Judged> held_out;
  const auto profile = perform::profile_of(invented(1), held_out);
  CHECK(profile.name == "nvidia-h200");
  REQUIRE(profile.gpu);
  // Sizes were 10 us + bytes / rate, which the fits find again; products keep the goal of the ladder's first row.
  CHECK(profile.gpu->host_link->to_device.fit.far_rate().value() == doctest::Approx(55e9).epsilon(.01));
  CHECK(profile.gpu->host_link->to_host.fit.error.held_out.median < .01);
  CHECK(profile.gpu->gemm.at(Precision::bf16).fit.error.held_out.samples > 0);
  CHECK(profile.gpu->gemm.at(Precision::bf16).fit.error.held_out.median < .1);
  CHECK(profile.gpu->gemm.count(Precision::fp8) == 1);
  CHECK(profile.gpu->partitions.front().multiprocessors == 16);
  CHECK(!held_out.empty());
  for (const auto& [kernel, times] : profile.kernels) CHECK_FALSE(is_linear(kernel.kind));

  const auto file = scratch.folder / "nvidia-h200.yaml";
  std::ofstream(file) << scenario::write_profile(profile);
  CHECK(scenario::load_profile_file(file.string()).digest == profile.digest);
  // As a user would write it, and as tools/gpu-check does, which knows the GPU's type but no cluster with it.
  for (const std::string cluster : {"use: h200-sxm, gpus: 1",
                                    "gpu: h200-sxm, gpus: 1, gpus_per_node: 1, links: {scale_up: "
                                    "{bandwidth: 450GB/s}}"}) {
    CAPTURE(cluster);
    const auto s = scenario::load(PROJECT_ROOT "/scenarios/gpu/block-bf16.yaml",
                                  {"cluster={" + cluster + ", profile: " + file.string() + "}"});
    REQUIRE(s.concrete->profile);
    CHECK(s.concrete->profile->digest == profile.digest);
    CHECK(answer::predict(s).timeline.makespan() > Time());
  }
}

TEST_CASE("a GPU measured as virtual stages becomes a profile of ranks") {
  const Scratch scratch;
  std::vector<cost::Judged> held_out;
  const auto profile = perform::profile_of(invented(4), held_out);
  CHECK(profile.name == "nvidia-h200-4-stages");
  CHECK(profile.ranks == 4);
  CHECK_FALSE(profile.gpu);
  CHECK(profile.has_messages());
  CHECK(profile.has_collectives());
  CHECK(profile.kernels.count({KernelKind::linear, Precision::bf16}) == 1);
  const auto file = scratch.folder / "stages.yaml";
  std::ofstream(file) << scenario::write_profile(profile);
  CHECK(scenario::load_profile_file(file.string()).digest == profile.digest);
}

TEST_CASE("without a GPU calibrate says what is missing, writes nothing and ends with 3") {
  const Scratch scratch;
  const auto file = scratch.folder / "gpu.yaml";
  const auto run = shell("CUDA_VISIBLE_DEVICES= '" REHEARSE_BINARY "' calibrate --backend cuda --quick --output '" +
                         file.string() + "' 2>&1");
  CHECK_MESSAGE(run.status == 3, run.out);
  CHECK_MESSAGE(contains(run.out, "backend cuda unavailable: "), run.out);
  CHECK_FALSE(std::filesystem::exists(file));
}

// Through the program and the boundary of a module, on a stand-in that computes on the host.
TEST_CASE("a scenario's virtual stages are measured, predicted from that, performed and compared") {
  const Scratch scratch;
  const auto on_standin = [&](const std::string& arguments) {
    return shell("cd '" PROJECT_ROOT "' && REHEARSAL_PROFILES=/nowhere REHEARSAL_MODULES='" STANDIN_FOLDER
                 "' REHEARSAL_STANDIN_FOLDER='" +
                 scratch.folder.string() + "' '" REHEARSE_BINARY "' " + arguments + " 2>&1");
  };
  const std::string scenario =
      "scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --backend cuda --format json "
      "--set 'parallelism={pipeline: 2}' --set model.hidden=32 --set model.vocabulary=64 --set batch.global=4 ";
  const auto file = (scratch.folder / "stages.yaml").string();
  const auto calibrated = on_standin("calibrate " + scenario + "--quick --output '" + file + "'");
  REQUIRE_MESSAGE(calibrated.status == 0, calibrated.out);
  const auto report = nlohmann::json::parse(calibrated.out);
  CHECK(report["gpu"]["parts"] == 2);
  CHECK(report["left_out"].empty());
  const auto profile = scenario::load_profile_file(file);
  CHECK(profile.digest == report["digest"]);
  CHECK(profile.has_messages());
  const auto validated = on_standin("validate " + scenario + "--iterations 2 --replay --set 'cluster={use: " +
                                    "this-machine, profile: " + file + "}' --prediction '" + file + ".json'");
  REQUIRE_MESSAGE(validated.status == 0, validated.out);
  const auto compared = nlohmann::json::parse(validated.out);
  CHECK(compared["validate"]["iteration"]["predicted_s"] > 0);
  CHECK(compared["memory"]["equal"] == true);
  CHECK(compared["memory"]["allocator"].size() == 2);
  for (const auto& c : compared["validate"]["classes"])
    if (c["in_sample"].is_boolean()) CHECK(c["in_sample"] == true);  // every kernel was measured in its own shape

  const auto unknown = on_standin("calibrate --backend cuda --quick --output '" + file + "'");
  CHECK(unknown.status == 2);  // of a stand-in there is no file to start a fit from
  CHECK_MESSAGE(contains(unknown.out, "a stand-in for a GPU"), unknown.out);
}

TEST_CASE("a replay is refused where nothing can be recorded") {
  const auto run = shell("cd '" PROJECT_ROOT "' && '" REHEARSE_BINARY
                         "' measure scenarios/teaching-1f1b-8-stages.yaml --backend loopback --replay 2>&1");
  CHECK(run.status == 2);
  CHECK_MESSAGE(contains(run.out, "--replay"), run.out);
}

}  // namespace rehearsal
