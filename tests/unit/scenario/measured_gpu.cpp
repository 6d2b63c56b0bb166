// Profiles of GPUs: written and read back, used by clusters with this GPU, refused by others and when wrong.
#include <algorithm>

#include "cost/gpu_fit.hpp"
#include "helpers.hpp"
#include "scenario/error_band.hpp"
#include "scenario/profile.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

cost::Quantiles around(double s) { return {seconds(s * .97), seconds(s), seconds(s * 1.2)}; }

// Times of no real GPU: round numbers that differ from everything in configs/.
cost::Profile example() {
  cost::Profile p;
  p.name = "lab", p.summary = "made up", p.backend = "cuda", p.ranks = 1, p.cpu = "ACME", p.cores = 8;
  p.system = "Linux 6.1", p.libraries = {{"cublas", "13.1.0"}, {"nccl", "2.28.9"}}, p.priority = "ordinary";
  p.date = "2025-01-02T03:04:05Z";
  auto& t = p.gpu.emplace();
  t.gpu = {"NVIDIA H200", "9.0", 132, Bytes(150'110'011'392), "580.95.05", "13.0", 1980, 3201, 700};
  for (const auto& [m, n, k, us] : {std::array{8192, 8192, 8192, 1700},
                                    {4096, 4096, 4096, 230},
                                    {1024, 1024, 1024, 9},
                                    {256, 4096, 4096, 21},
                                    {64, 64, 512, 5}})
    t.gemm[Precision::bf16].samples.push_back({{m, n, k, 1, Precision::bf16}, around(us * 1e-6 + 1e-12), m == 256});
  t.gemm[Precision::bf16].samples.push_back({{512, 512, 4096, 2, Precision::bf16, true}, around(21e-6), false});
  t.gemm[Precision::fp32].samples.push_back({{512, 512, 512, 1, Precision::fp32}, around(11e-6), false});
  t.attention[models::AttentionKernel::flash3].samples = {{{2, 16, 4096, 4096, 128}, around(600e-6), false},
                                                          {{2, 16, 2048, 2048, 128, false, true}, around(9e-4), true}};
  auto& memory = t.memory_bound.emplace();
  for (int i = 16; i <= 30; i += 2)
    memory.samples.push_back({Bytes(1LL << i), around(2.5e-6 + double(1LL << i) / (i > 25 ? 4e12 : 8e12)), i == 20});
  auto& link = t.host_link.emplace();
  for (const int mib : {1, 8, 64}) {
    link.to_device.samples.push_back({Bytes(mib << 20), around(9e-6 + mib * 20e-6), false});
    link.to_host.samples.push_back({Bytes(mib << 20), around(8e-6 + mib * 19e-6), mib == 8});
  }
  link.duplex = .83, link.copy_beside_gemm = 1.25, link.gemm_beside_copy = 1.0625;
  t.device_copy.emplace().samples = {{Bytes(1 << 20), around(4e-6), false}, {Bytes(1 << 28), around(130e-6), false}};
  t.launch = {around(2.1e-6), around(2.6e-6), around(1.2e-6)};
  t.partitions = {{64, {4096, 4096, 4096, 1, Precision::bf16}, around(430e-6), around(470e-6)},
                  {128, {4096, 4096, 4096, 1, Precision::fp16}, around(231e-6), around(232e-6)}};
  cluster::Gpu base;
  base.name = "h200-sxm", base.sms = 132;
  base.peak = {{Precision::bf16, FlopRate(989e12)}, {Precision::fp32, FlopRate(67e12)}};
  base.sustained_memory_bandwidth = Bandwidth(4e12);
  base.gemm_efficiency = .85, base.gemm_overhead = seconds(3e-6), base.tile_overhead = seconds(1e-6);
  base.weight_gradient_rate = .97, base.flash3_attention_rate = FlopRate(6e14);
  cost::fit_gpu(t, base);
  std::vector<cost::KernelSample> kernels;
  for (const auto precision : {Precision::fp32, Precision::bf16})
    for (const std::int64_t n : {1000, 2000, 4000})
      kernels.push_back({{KernelKind::gelu, {n * 1000}, {}, precision}, Time(n), Time(n * n), Time(n * n)});
  p.kernels = cost::fit_kernels(kernels);
  return p;
}

const std::string kOne =
    "version: 1\nmodel: llama3-8b\ncluster: {use: h200-sxm, gpus: 8, profile: lab.yaml}\nparallelism: {tensor: 8}\n"
    "batch: {global: 8, micro: 1}\n";

}  // namespace

TEST_CASE("a profile of a GPU comes back as it was written") {
  const Folder folder;
  const auto written = example();
  const auto read = load_profile_file(folder.write("lab.yaml", write_profile(written)));
  CHECK(write_profile(read) == write_profile(written));
  CHECK(read.digest == profile_digest(written));
  REQUIRE(read.gpu);
  const auto &now = *read.gpu, &then = *written.gpu;
  CHECK(now.gpu.name == "NVIDIA H200");
  CHECK(now.gpu.memory == then.gpu.memory);
  CHECK(now.gpu.driver == "580.95.05");
  CHECK(now.gpu.power_limit_w == 700);
  CHECK(now.settled_clock);
  const auto &gemm = now.gemm.at(Precision::bf16), &made = then.gemm.at(Precision::bf16);
  REQUIRE(gemm.samples.size() == 6);
  CHECK(gemm.fit.rate == made.fit.rate);  // to the last digit
  CHECK(gemm.fit.overhead == made.fit.overhead);
  CHECK(gemm.fit.kept == made.fit.kept);
  CHECK(gemm.fit.error.held_out.samples == 1);
  CHECK(gemm.fit.error.held_out.median == made.fit.error.held_out.median);
  // Held-out samples follow the others.
  CHECK(gemm.samples.back().held_out);
  CHECK(gemm.samples.back().shape == Gemm{256, 4096, 4096, 1, Precision::bf16});
  CHECK(gemm.samples[4].shape == Gemm{512, 512, 4096, 2, Precision::bf16, true});
  CHECK(gemm.samples[0].time.p50 == made.samples[0].time.p50);
  CHECK(now.gemm.count(Precision::fp32) == 1);
  const auto& attention = now.attention.at(models::AttentionKernel::flash3);
  CHECK(attention.samples[1].shape == FusedAttention{2, 16, 2048, 2048, 128, false, true});
  CHECK(attention.rate == then.attention.at(models::AttentionKernel::flash3).rate);
  CHECK(now.memory_bound->fit.byte == then.memory_bound->fit.byte);
  CHECK(now.memory_bound->fit.knee == then.memory_bound->fit.knee);
  CHECK(now.host_link->to_host.fit.call == then.host_link->to_host.fit.call);
  CHECK(now.host_link->duplex == .83);
  CHECK(now.device_copy->samples.size() == 2);
  CHECK(now.launch.graph->p90 == then.launch.graph->p90);
  REQUIRE(now.partitions.size() == 2);
  CHECK(now.partitions[1].shape.precision == Precision::fp16);
  CHECK(now.partitions[0].busy.p50 == seconds(470e-6));
  CHECK(read.kernels.size() == 2);
  CHECK(read.kernels.at({KernelKind::gelu, Precision::bf16}).samples.size() == 3);
}

TEST_CASE("what was not measured of a GPU is absent") {
  const Folder folder;
  cost::Profile p = example();
  auto& t = *p.gpu;
  t = {};
  t.gpu.name = "NVIDIA H200", t.gpu.capability = "9.0", t.gpu.multiprocessors = 132;
  const auto text = write_profile(p);
  for (const char* section : {"gemm", "attention", "memory_bound", "host_link", "device_copy", "launch", "partitions"})
    CHECK_MESSAGE(text.find(fmt::format("\n{}:", section)) == std::string::npos, section);
  const auto read = load_profile_file(folder.write("p.yaml", text));
  REQUIRE(read.gpu);
  CHECK(read.gpu->gemm.empty());
  CHECK_FALSE(read.gpu->memory_bound);
  CHECK_FALSE(read.gpu->launch.stream);
  // Nor does it change anything but the question: the GPU is the file's.
  folder.write("lab.yaml", text);
  const auto with_profile = load(folder.write("x.yaml", kOne)),
             bare = load(folder.write("y.yaml", with(kOne, ", profile: lab.yaml", "")));
  const auto &a = with_profile.concrete->cluster.gpu, &b = bare.concrete->cluster.gpu;
  CHECK(a.gemm_efficiency == b.gemm_efficiency);
  CHECK(a.kernel_gap == b.kernel_gap);
  CHECK(a.assumed == b.assumed);
  CHECK(with_profile.digest != bare.digest);
}

TEST_CASE("a cluster takes the constants measured of its GPU") {
  const Folder folder;
  const auto p = example();
  folder.write("lab.yaml", write_profile(p));
  const auto loaded = load(folder.write("x.yaml", kOne));
  const auto& gpu = loaded.concrete->cluster.gpu;
  const auto& fit = p.gpu->gemm.at(Precision::bf16).fit;
  CHECK(gpu.gemm_efficiency == fit.rate / FlopRate(989e12));
  CHECK(gpu.sustained_clock == 1);
  CHECK(gpu.kernel_gap == p.gpu->launch.stream->p50);
  CHECK(gpu.sustained_memory_bandwidth == p.gpu->memory_bound->fit.far_rate());
  CHECK(gpu.flash3_attention_rate == p.gpu->attention.at(models::AttentionKernel::flash3).rate);
  CHECK(gpu.sources.at("gemm_efficiency") == "measured: profile lab, 2025-01-02T03:04:05Z");
  CHECK(std::count(gpu.assumed.begin(), gpu.assumed.end(), "sustained_clock") == 0);
  CHECK(std::count(gpu.assumed.begin(), gpu.assumed.end(), "attention_tail") == 1);
  // No published run was predicted with these constants.
  CHECK_FALSE(error_band(loaded, .1).low);
  CHECK(error_band(loaded, .1).basis ==
        "no published run is comparable: none was predicted with GPU constants measured on a NVIDIA H200 on "
        "2025-01-02T03:04:05Z (profile lab)");
  // From the command line, and by a cluster written out.
  const auto file = fmt::format("{}/lab.yaml", folder.path());
  const auto set = load(folder.write("set/x.yaml", with(kOne, ", profile: lab.yaml", "")), {"cluster.profile=" + file});
  CHECK(set.concrete->cluster.gpu.gemm_efficiency == gpu.gemm_efficiency);
  CHECK(set.digest == loaded.digest);
  const auto inside = load(folder.write(
      "z.yaml", with(kOne, "{use: h200-sxm, gpus: 8, profile: lab.yaml}",
                     "{gpu: h200-sxm, gpus_per_node: 8, links: {scale_up: {bandwidth: 450GB/s}}, profile: lab.yaml}")));
  CHECK(inside.concrete->cluster.gpu.gemm_efficiency == gpu.gemm_efficiency);
}

TEST_CASE("what was measured is listed with the GPU") {
  // A house that holds what this one does, and one profile more.
  namespace fs = std::filesystem;
  const Folder folder;
  const auto house = folder.path() + "/house";
  fs::create_directories(house + "/configs/profiles");
  fs::create_directory_symlink(PROJECT_ROOT "/models", house + "/models");
  for (const char* part : {"clusters", "collectives", "gpus", "frameworks"})
    fs::create_directory_symlink(fmt::format("{}/configs/{}", PROJECT_ROOT, part),
                                 fmt::format("{}/configs/{}", house, part));
  folder.write("house/configs/profiles/lab.yaml", write_profile(example()));
  ::setenv("REHEARSAL_HOME", house.c_str(), 1);
  const auto value = [](const std::string& gpu, const std::string& key) {
    for (const auto& c : constants("gpus", gpu))
      if (c.key == key) return c.value + " | " + c.source;
    return std::string();
  };
  CHECK(value("h200-sxm", "sms") == "132 | NVIDIA H200 data sheet");
  const auto rate = value("h200-sxm", "measured.gemm.bf16.rate");
  CHECK_MESSAGE(
      rate.find("TFLOP/s | profile lab, measured 2025-01-02T03:04:05Z, fitted to 5 samples; 1 held out: median "
                "error ") != std::string::npos,
      rate);
  CHECK(value("h200-sxm", "measured.host_link.duplex") == "0.83 | profile lab, measured 2025-01-02T03:04:05Z");
  // 20 us a MiB is 1048576 / 20 us = 52.429 GB/s, after 9 us.
  CHECK(value("h200-sxm", "measured.host_link.to_device.bandwidth").starts_with("52.429GB/s | "));
  CHECK(value("h200-sxm", "measured.host_link.to_device.fixed").starts_with("9us | "));
  CHECK(value("h200-sxm", "measured.launch.stream").find("2.6us | ") == 0);
  CHECK(value("h200-sxm", "measured.partitions.64.busy_over_alone").starts_with("1.093 | "));  // 470 / 430
  CHECK(value("h100-80g-sxm", "measured.launch.stream").empty());
  // And it is known by what its driver says.
  CHECK(gpu_file_of(example().gpu->gpu).name == "h200-sxm");
  auto other = example().gpu->gpu;
  other.name = "NVIDIA H300";
  CHECK_THROWS_WITH_AS(gpu_file_of(other), doctest::Contains("no file of configs/gpus describes 'NVIDIA H300'"),
                       UserError);
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
}

TEST_CASE("profiles of processors are what they were") {
  const auto checked = check(PROJECT_ROOT "/configs/profiles/amd-epyc-2-cores.yaml");
  CHECK(checked.ok());
  CHECK(checked.warnings.empty());  // its digest still holds
  const auto p = load_profile_file(PROJECT_ROOT "/configs/profiles/amd-epyc-2-cores.yaml");
  CHECK_FALSE(p.gpu);
  CHECK(p.kernels.size() == std::size_t(KernelKind::adamw_rollback) + 1);  // all that there were when it was measured
}

TEST_CASE("the profile of another GPU is refused") {
  const Folder folder;
  const auto refused = [&](cost::Profile p, const std::string& cluster) {
    folder.write("lab.yaml", write_profile(p));
    const auto found = check(folder.write("x.yaml", with(kOne, "h200-sxm", cluster))).errors;
    return found.size() == 1 ? found[0].message : fmt::format("{} errors", found.size());
  };
  auto p = example();
  CHECK(refused(p, "dgx-a100-80g") ==
        "profile 'lab' was measured on GPU 'NVIDIA H200', but cluster 'dgx-a100-80g' has GPU 'a100-80g-sxm': the one "
        "measured has 132 multiprocessors, the other 108; leave 'profile' out, or measure that GPU");
  CHECK(refused(p, "dgx-h100").find("has GPU 'h100-80g-sxm': their names differ") != std::string::npos);
  p.gpu->gpu.name = "NVIDIA H100 80GB HBM3";
  CHECK(refused(p, "dgx-h100").find("150 GB of memory, the other 85") != std::string::npos);
  p.gpu->gpu.memory = Bytes(85'028'765'696);
  CHECK(refused(p, "dgx-h100") == "0 errors");
}

TEST_CASE("wrong profiles of GPUs are refused at the place") {
  const Folder folder;
  const auto good = write_profile(example());
  const auto errors = [&](const std::string& old, const std::string& now) {
    const auto found = check(folder.write("profiles/x.yaml", with(good, old, now))).errors;
    return found.empty() ? std::string() : found[0].message;
  };
  CHECK(errors("  multiprocessors: 132", "  multiprocesors: 132") ==
        "missing key 'multiprocessors' in 'gpu': a whole number from 1 to 100000");
  CHECK(errors("memory_bound:", "memory_bond:") == "unknown key 'memory_bond'; did you mean 'memory_bound'?");
  CHECK(errors("clock: settled", "clock: fast") == "'clock' must be one of settled, burst; found 'fast'");
  CHECK(errors("[[64, 64, 512, 1, 0]", "[[64, 64, 512, 1]").starts_with("'samples' must be 5 dims; found"));
  CHECK(errors("[[64, 64, 512, 1, 0]", "[[64, 0, 512, 1, 0]") ==
        "'samples': m, n, k and batch are at least 1, and what follows them is 0 or 1");
  CHECK(errors("kept: [", "kept: [gemm_overhed, ") ==
        "'kept' must name fitted constants; found 'gemm_overhed'; did you mean 'gemm_overhead'?");
  CHECK(errors("{multiprocessors: 64,", "{multiprocessors: 164,") ==
        "a partition has 164 multiprocessors, but the GPU has only 132");
  CHECK(errors("{multiprocessors: 64,", "{multiprocessors: 130,") ==
        "'partitions' must be in ascending order of 'multiprocessors'");
  CHECK(errors("duplex: 0.83", "duplex: 0").starts_with("'duplex' must be"));
  CHECK(errors("date: \"2025-01-02T03:04:05Z\"", "date: \"\"") ==
        "missing key 'date': when the GPU of this profile was measured");
  auto headless = good;
  const auto from = headless.find("\ngpu:\n"), to = headless.find("\ngemm:\n");
  headless.erase(from, to - from);
  const auto found = check(folder.write("profiles/x.yaml", headless)).errors;
  REQUIRE(found.size() == 7);
  CHECK(found[0].message == "'gemm' was measured on a GPU, but the profile has no section 'gpu' to say which");
}
