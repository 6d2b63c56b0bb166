// Every kernel on the device, with the trials that the host build of the same source must pass (tests/unit/kernels).
#include <bit>
#include <cstdio>
#include <map>

#include "../unit/kernels/trials.hpp"
#include "e4m3.hpp"
#include "machine.hpp"

namespace rehearsal::kernels {
namespace {

using test::Machine;

// Brings the pieces of a Call to the device, runs it there and brings them back.
class OnDevice {
 public:
  OnDevice() : pool_(device().make_pool()), stream_(device().make_stream()) {}

  void operator()(const Call& given, const Pieces& pieces) {
    std::vector<gpu::Address> blocks;
    std::size_t total = 0;
    for (const auto piece : pieces) total += piece.size();
    if (staging_.size() < total) staging_ = device().pinned(Bytes(std::int64_t(2 * total)));
    for (const auto piece : pieces) {
      blocks.push_back(device().allocate(pool_, size(piece), stream_));
      if (!piece.empty()) device().copy(blocks.back(), piece.data(), size(piece), gpu::Direction::to_device, stream_);
    }
    const auto moved = [&]<class T>(T*& pointer) {
      const auto* at = reinterpret_cast<const std::byte*>(pointer);
      for (std::size_t i = 0; i < pieces.size(); ++i)
        if (!pieces[i].empty() && at >= pieces[i].data() && at < pieces[i].data() + pieces[i].size()) {
          pointer = reinterpret_cast<T*>(blocks[i] + (at - pieces[i].data()));
          return;
        }
      pointer = nullptr;  // no host pointer may reach the device
    };
    Call call = given;
    for (void*& operand : call.operands) {
      auto* bytes = static_cast<std::byte*>(operand);
      moved(bytes), operand = bytes;
    }
    moved(call.tokens), moved(call.targets), moved(call.rows), moved(call.row_targets), moved(call.documents);
    moved(call.steps), moved(call.squared_gradients), moved(call.counted), moved(call.scratch);
    device().perform(call, stream_);
    std::size_t offset = 0;
    for (std::size_t i = 0; i < pieces.size(); offset += pieces[i++].size())
      if (!pieces[i].empty())
        device().copy(staging_.data() + offset, blocks[i], size(pieces[i]), gpu::Direction::to_host, stream_);
    for (const gpu::Address block : blocks) device().free(block, stream_);
    machine_.finish(stream_);
    offset = 0;
    for (const auto piece : pieces) {
      std::copy_n(staging_.begin() + std::ptrdiff_t(offset), piece.size(), piece.begin());
      offset += piece.size();
    }
  }
  Operands run(Trial& t, std::size_t shift) {
    return t.by(shift, [this](const Call& call, const Pieces& pieces) { (*this)(call, pieces); });
  }

  gpu::Device& device() { return machine_.device(); }

 private:
  static Bytes size(std::span<std::byte> piece) { return Bytes(std::int64_t(piece.size())); }
  Machine machine_;
  gpu::PoolId pool_;
  gpu::StreamId stream_;
  std::span<std::byte> staging_;
};

// A few trials of each kind, neither the smallest nor the largest.
std::vector<Trial> chosen(std::vector<Trial> all) {
  if (!test::options().quick) return all;
  std::vector<Trial> few;
  std::map<KernelKind, int> taken;
  for (Trial& t : all) {
    std::size_t elements = 0;
    for (const Values& operand : t.operands) elements += operand.size();
    if (elements >= 100 && elements <= 20000 && taken[t.kernel.kind]++ < 2) few.push_back(std::move(t));
  }
  return few;
}

// Device and host build of one source: the largest difference by kind, reported but not judged. Both add in the same
// order, but a compiler may fuse products and sums, and the two math libraries differ in the last bit.
class Differences {
 public:
  void add(const Trial& t, const Operands& device, const Operands& host) {
    for (std::size_t o = 0; o < host.size(); ++o) {
      if (is_loss(t.kernel.kind, o)) continue;
      double& largest = largest_[{t.kernel.kind, t.kernel.precision}];
      if (!same_bits(device[o], host[o])) largest = std::max(largest, distance(device[o], host[o], Precision::fp32));
    }
  }
  ~Differences() {
    for (const auto& [what, difference] : largest_)
      std::printf("%-24s %s  device to host build, largest difference / largest entry: %.2e\n", name(what.first),
                  name(what.second), difference);
  }

 private:
  std::map<std::pair<KernelKind, Precision>, double> largest_;
};

void compare(OnDevice& gpu, Trial& t, std::size_t shift, Differences& differences) {
  CAPTURE(name(t.kernel.kind));
  CAPTURE(name(t.kernel.precision));
  CAPTURE(t.kernel.dims);
  CAPTURE(shift);
  const Operands found = gpu.run(t, shift);
  check_against_cpu(t, t.by_cpu(), found);
  CHECK(same_bits(gpu.run(t, shift), found));
  differences.add(t, found, t.by_host(shift));
}

float random_tf32(std::mt19937& bits) {  // 10 bits of mantissa behind the point
  std::normal_distribution<float> draw(0, 1);
  const float x = draw(bits);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u);
}

}  // namespace

TEST_CASE("every kind on the device does what hw/cpu does, on any shape and alignment, twice the same") {
  OnDevice gpu;
  Differences differences;
  std::size_t trials = 0;
  std::map<KernelKind, int> met;
  for (Trial& t : chosen(plain_trials()))
    for (const std::size_t shift : {0, 1}) {
      compare(gpu, t, shift, differences);
      Trial narrow = t.in_bf16();
      compare(gpu, narrow, shift, differences);
      trials += 2, ++met[t.kernel.kind];
    }
  std::vector<Trial> others = expert_trials();
  for (Trial& t : context_trials()) others.push_back(std::move(t));
  for (Trial& t : state_space_trials()) others.push_back(std::move(t));
  for (Trial& t : document_trials()) others.push_back(std::move(t));
  for (Trial& t : chosen(std::move(others)))
    for (const std::size_t shift : {0, 1}) {
      compare(gpu, t, shift, differences);
      Trial narrow = t.in_bf16();
      compare(gpu, narrow, shift, differences);
      trials += 2, ++met[t.kernel.kind];
    }
  for (Trial& t : chosen(attention_trials()))
    for (const std::size_t shift : {0, 1}) {
      compare(gpu, t, shift, differences);
      ++trials, ++met[t.kernel.kind];
    }
  CHECK(met.size() == kKernelKinds - 7);  // without the five optimizers, and momentum and step of Muon
  std::printf("%zu trials\n", trials);
}

TEST_CASE("optimizers on the device do what hw/cpu does, and so does the master copy of parameters in bf16") {
  OnDevice gpu;
  Differences differences;
  for (Trial& t : chosen(optimizer_trials()))
    for (const std::size_t shift : {0, 1}) {
      CAPTURE(name(t.kernel.kind));
      CAPTURE(t.kernel.dims);
      CAPTURE(shift);
      const Operands expected = t.by_cpu();
      const double squares = t.squares;
      const Operands found = gpu.run(t, shift);
      for (std::size_t o = 0; o < found.size(); ++o) CHECK(distance(found[o], expected[o], Precision::fp32) <= 1e-6);
      CHECK(t.squares == doctest::Approx(squares).epsilon(1e-12));
      const double on_device = t.squares;
      CHECK(same_bits(gpu.run(t, shift), found));
      CHECK(t.squares == on_device);
      differences.add(t, found, t.by_host(shift));

      Trial narrow = with_master(t);
      check_master(narrow, gpu.run(narrow, shift), found);
      CHECK(narrow.squares == on_device);
    }
}

TEST_CASE("the chunks of a token's gradient, and sums over a grid that fill the scratch") {
  OnDevice gpu;
  Trial embedding = trial(KernelKind::embed_gradient, {9000, 3, 4}, 0, 0, 3, 5);
  CHECK(same_bits(gpu.run(embedding, 0), embedding.by_cpu()));
  if (test::options().quick) return;
  Trial loss = trial(KernelKind::squared_error, {3000, 1001, 1}, 0, 0, 4);
  set_loss(loss.operands[1], 0);
  CHECK(double_in(gpu.run(loss, 0)[1]) == doctest::Approx(double_in(loss.by_cpu()[1])).epsilon(1e-12));
}

TEST_CASE("tf32: products of inputs that it holds exactly are those of fp32, up to the order of the sum") {
  OnDevice gpu;
  std::mt19937 bits(3);
  for (const KernelKind kind :
       {KernelKind::linear, KernelKind::linear_input_gradient, KernelKind::linear_weight_gradient})
    for (const KernelDims dims : {KernelDims{32, 48, 64}, {7, 12, 20}}) {
      CAPTURE(name(kind));
      CAPTURE(dims);
      Trial t = trial(kind, dims);
      for (std::size_t o = 0; o < 2; ++o)
        for (float& v : t.operands[o]) v = random_tf32(bits);
      const Values expected = t.by_cpu()[2];
      Trial sizes = t;  // of the same numbers' sizes: what the rounding of each sum is relative to
      for (Values& operand : sizes.operands)
        for (float& v : operand) v = std::abs(v);
      const Values size = sizes.by_cpu()[2];
      t.kernel.precision = Precision::tf32;
      const Values found = gpu.run(t, 0)[2];
      // A product of two numbers of 11 bits has 22 and is exact in fp32; each of the k additions on either side,
      // rounded or cut off, errs by at most 2^-23 of the sum of sizes.
      const auto terms = double(kind == KernelKind::linear                  ? dims[2]
                                : kind == KernelKind::linear_input_gradient ? dims[1]
                                                                            : dims[0]);
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(std::abs(double(found[i]) - double(expected[i])) <= 2 * (terms + 1) * std::ldexp(double(size[i]), -23));
    }
}

TEST_CASE("fp8: sums of small whole numbers are exact, whatever the width of the sum") {
  // Codes of 0, +-1, +-2; at most k = 64 products of size up to 4: every sum is a whole number up to 256 and has no
  // more than 8 bits, which the matrix unit's sum (14 bits or more) and bf16 hold.
  OnDevice gpu;
  if (test::is_real() && std::stod(gpu.device().facts().capability) < 8.9) {
    MESSAGE("this GPU has no fp8");
    return;
  }
  const std::array<std::uint8_t, 5> codes = {0x00, 0x38, 0xb8, 0x40, 0xc0};
  REQUIRE(test::from_e4m3(0x38) == 1);
  REQUIRE(test::from_e4m3(0xc0) == -2);
  REQUIRE(test::from_e4m3(0x7e) == 448);  // the largest
  std::mt19937 bits(5);
  for (const std::array<std::int64_t, 3> dims : {std::array<std::int64_t, 3>{16, 32, 64}, {48, 16, 16}}) {
    const auto [t, n, k] = dims;
    std::vector<std::uint8_t> x(std::size_t(t * k)), weight(std::size_t(n * k));
    std::vector<std::uint16_t> y(std::size_t(t * n), 0x7fff);
    for (auto* operand : {&x, &weight})
      for (auto& code : *operand) code = codes[bits() % codes.size()];
    Call call;
    call.kernel = {KernelKind::linear, {t, n, k}, {}, Precision::fp8};
    call.operands = {x.data(), weight.data(), y.data()};
    const auto piece = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
    gpu(call, {piece(x), piece(weight), piece(y)});
    int other_than_zero = 0;
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t c = 0; c < k; ++c)
          sum += test::from_e4m3(x[std::size_t(i * k + c)]) * test::from_e4m3(weight[std::size_t(j * k + c)]);
        CHECK(from_bf16(y[std::size_t(i * n + j)]) == sum);
        other_than_zero += sum != 0;
      }
    CHECK(other_than_zero > 0);
  }
}

}  // namespace rehearsal::kernels
