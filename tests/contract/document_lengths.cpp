// Batches of documents: padded, packed, and packed under a mask.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "predicted.hpp"
#include "report/run_report.hpp"

using namespace rehearsal;
using contract::Sets;

namespace {

const std::string kModel =
    "version: 1\nmodel: {use: llama3-8b, sequence: 8192}\ncluster: {use: dgx-h100, nodes: 1}\n"
    "parallelism: {tensor: 2, sequence: true}\nbatch: {global: 16, micro: 1}\ntraining: {precision: bf16}\n"
    "framework: megatron-2025\n";

answer::Result run(const Sets& sets) { return contract::predicted(kModel, sets); }
Sets fixed(int tokens, const Sets& more) {
  return contract::with({"batch.lengths={fixed: " + std::to_string(tokens) + "}"}, more);
}
const Sets kPacked{"batch.packing=pack"}, kMasked{"batch.packing=pack", "batch.document_mask=true"};

}  // namespace

TEST_CASE("documents as long as the sequence change nothing, to the byte") {
  const auto text = [](const Sets& sets) {
    const answer::Result one[] = {run(sets)};
    return report::run_json(one);
  };
  const auto whole = text({});
  for (const Sets& how : {Sets{}, kPacked, kMasked}) {
    CHECK(text(fixed(8192, how)) == whole);
    CHECK(text(contract::with({"batch.lengths={list: [8192, 8192]}"}, how)) == whole);
  }
}

TEST_CASE("the step is monotone in the lengths: with a mask it grows with them, else it is the same") {
  Time before;
  for (const int tokens : {64, 512, 1000, 2048, 4096, 5000, 8191, 8192}) {
    const Time masked = run(fixed(tokens, kMasked)).summary.iteration;
    CHECK(masked > before);
    before = masked;
    CHECK(run(fixed(tokens, kPacked)).summary.iteration == run({}).summary.iteration);
    CHECK(run(fixed(tokens, {})).summary.iteration == run({}).summary.iteration);
  }
}

TEST_CASE("documents of one length are attention in chunks of it") {
  // Llama 3 8B: 32 layers of 32 heads; scores under the mask are n / s of those of the whole sequence.
  const auto flops = [](const Sets& sets) { return run(sets).lowered->hardware_flops.value(); };
  const double whole = flops({}), quarter = flops(fixed(2048, kMasked)), half = flops(fixed(4096, kMasked));
  CHECK((whole - quarter) / (whole - half) == doctest::Approx(1.5).epsilon(1e-9));
}

TEST_CASE("ranks wait for the replica whose documents are longest") {
  // (0.3^2 + 0.9^2 + 5^2) / 6.2 = 4.177: as documents of 4177. The more rows a replica has, the nearer it is to the
  // mean.
  const Sets both = contract::with({"batch.lengths={list: [300, 900, 5000]}"}, kMasked);
  const auto share = [&](const Sets& more) {
    const auto p = run(contract::with(both, more));
    return p.lowered->hardware_flops.value() / run(more).lowered->hardware_flops.value();
  };
  const double mean =
      run(fixed(4177, kMasked)).lowered->hardware_flops.value() / run({}).lowered->hardware_flops.value();
  const double few = share({}), many = share({"batch.global=1600"});
  CHECK(few > many);
  CHECK(many > .98 * mean);
  CHECK(many < 1.02 * mean);
  CHECK(run(both).lowered->model_flops.value() ==
        doctest::Approx(run(fixed(4177, kMasked)).lowered->model_flops.value()).epsilon(1e-4));
}

TEST_CASE("padding is computed and not counted") {
  const auto whole = run({}), padded = run(fixed(2048, {}));
  CHECK(*padded.summary.tokens_per_s == doctest::Approx(*whole.summary.tokens_per_s / 4));
  CHECK(padded.lowered->hardware_flops.value() == whole.lowered->hardware_flops.value());
  CHECK(padded.lowered->model_flops.value() < whole.lowered->model_flops.value() / 4);
}

TEST_CASE("a file and a distribution") {
  contract::settle();
  const auto file = std::filesystem::temp_directory_path() / "rehearsal-lengths.txt";
  std::ofstream(file) << "1000\n3000\n";
  const auto said = run(contract::with({"batch.lengths={list: [1000, 3000]}"}, kMasked));
  const auto read = run(contract::with({"batch.lengths={file: " + file.string() + "}"}, kMasked));
  CHECK(read.summary.iteration == said.summary.iteration);
  // Without spread all documents have exp(7.6) = 1998 tokens.
  const auto drawn = run(contract::with({"batch.lengths={lognormal: [7.6, 0]}"}, kMasked));
  CHECK(drawn.summary.iteration == run(fixed(1998, kMasked)).summary.iteration);
  CHECK(run(contract::with({"batch.lengths={lognormal: [7.6, 1]}"}, kMasked)).summary.iteration >
        drawn.summary.iteration);
}

TEST_CASE("what cannot act is refused") {
  const auto refused = [](const Sets& sets) { return contract::refusal(kModel, sets); };
  CHECK(contract::says(refused({"batch.packing=pack"}), "'packing' needs the lengths of documents"));
  CHECK(contract::says(refused(fixed(2048, {"batch.document_mask=true"})), "set 'packing' to pack"));
  CHECK(
      contract::says(refused(fixed(2048, contract::with(kMasked, {"training.attention=unfused"}))), "whatever a mask"));
  CHECK(contract::says(refused({"batch.lengths={fixed: 0}"}), "from 1"));
  CHECK(contract::says(refused({"batch.lengths=2048"}), "'lengths' must be"));
}
