// Scenarios of our own kernels: what they may ask for, and how everything else is refused.
#include <algorithm>

#include "helpers.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

const std::string kTiny =
    "version: 1\n"
    "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocabulary: 101, sequence: 32}\n"
    "cluster: this-machine\n"
    "parallelism: {tensor: 2, pipeline: 2, data: 2}\n"
    "batch: {global: 16, micro: 2}\n"
    "training: {precision: fp32}\n";
const std::string kMlp =
    "version: 1\n"
    "model: {family: mlp, layers: 2, hidden: 512}\n"
    "cluster: this-machine\n"
    "parallelism: {pipeline: 2}\n"
    "batch: {global: 16}\n"
    "training: {precision: fp32, optimizer: sgd}\n";

// Errors as one text, a line each.
std::string joined(const std::string& text) { return fmt::format("{}", fmt::join(errors_of(text), "\n")); }
std::string errors(const std::string& text, const std::string& old, const std::string& now) {
  return joined(with(text, old, now));
}

}  // namespace

TEST_CASE("this machine has as many ranks as are asked for, and kernels of its own") {
  const auto s = load_text(kTiny);
  const auto& c = *s.concrete;
  CHECK(c.framework.name == "native");
  CHECK(c.framework.native_kernels);
  CHECK_FALSE(c.framework.dropout);
  CHECK(c.framework.host_seconds_per_kernel == 0);
  CHECK(c.cluster.gpus() == 8);
  CHECK(c.cluster.nodes == 1);
  CHECK(c.cluster.topology.name == "nvswitch");
  CHECK(c.cluster.gpu.name == "assumed-cpu");
  CHECK(c.training.learning_rate == 1e-3);
  CHECK(c.training.weight_decay == .01);
  // 5 ranks are no round number of anything, but a host has them.
  CHECK(load_text(with(kMlp, "{pipeline: 2}", "{data: 5}"), {"batch.global=5"}).concrete->cluster.gpus() == 5);
}

TEST_CASE("an MLP has rows and neither heads nor tokens") {
  const auto m = load_text(kMlp).concrete->model;
  CHECK(m.family == models::Family::mlp);
  CHECK(m.ffn == 2048);
  CHECK(m.sequence == 1);
  CHECK(m.heads == 0);
  CHECK(m.vocabulary == 0);
  CHECK_FALSE(m.tie_embeddings);
  CHECK(load_text(with(kMlp, "hidden: 512", "hidden: 512, sequence: 32")).batch.sequence == 32);
  CHECK(load_text(kMlp).concrete->training.learning_rate == .1);
  CHECK(load_text(kMlp).concrete->training.weight_decay == 0);
  CHECK(errors(kMlp, "hidden: 512", "hidden: 512, heads: 4, vocabulary: 7, ffn_kind: swiglu") ==
        "2:53: 'heads' does not apply to family 'mlp', which has neither attention nor tokens; leave it out\n"
        "2:68: 'vocabulary' does not apply to family 'mlp', which has neither attention nor tokens; leave it out\n"
        "2:81: 'ffn_kind' of family 'mlp' is always gelu; leave it out");
  // Nothing but layers: 3 stages for 2 of them cannot be.
  CHECK(errors(kMlp, "pipeline: 2", "pipeline: 3") ==
        "4:25: pipeline 3 x chunks 1 = 3 stages are too many for 2 layers; at most 2");
}

TEST_CASE("what own kernels cannot do is refused by name, with the way out") {
  for (const char* precision : {"fp16", "fp8"})
    CHECK(errors(kTiny, "precision: fp32", fmt::format("precision: {}, gradient_precision: fp32", precision)) ==
          fmt::format("6:23: framework 'native' computes in fp32 and bf16, not in {}; set 'training.precision' to one "
                      "of them",
                      precision));
  CHECK(errors(kTiny, "precision: fp32", "precision: tf32") ==
        "6:23: 'precision' must be one of fp32, fp16, bf16, fp8, fp4; found 'tf32'");
  CHECK(errors(kTiny, "precision: fp32", "precision: bf16").empty());
  CHECK(errors(kTiny, "precision: fp32", "precision: fp32, gradient_precision: bf16") ==
        "6:49: framework 'native' keeps gradients in fp32; leave 'gradient_precision' out");
  CHECK(joined(with(kTiny, "precision: fp32", "precision: fp32, attention: unfused") + "framework: native\n") ==
        "6:40: framework 'native' never stores attention scores; set 'training.attention' to flash");
  CHECK(errors(kTiny, "family: gpt", "family: llama, ffn: 64").empty());
  CHECK(errors(kTiny, "family: gpt", "family: llama, ffn_kind: gelu") ==
        "2:34: framework 'native' supports family 'llama' with swiglu only; leave 'ffn_kind' out");
  CHECK(errors(kTiny, "family: gpt", "family: gpt, ffn_kind: swiglu") ==
        "2:32: framework 'native' supports 'swiglu' in family 'llama' only; set 'ffn_kind' to gelu");
  CHECK(errors(kTiny, "tensor: 2", "tensor: 2, sequence: true").empty());
  CHECK(errors(kMlp, "pipeline: 2", "tensor: 2, sequence: true") ==
        "4:36: framework 'native' has no sequence parallelism for family 'mlp', which has no sequence; leave "
        "'sequence' out or set it to false");
  CHECK(errors(kTiny, "fp32}", "fp32, overlap: {gradients: true}}") ==
        "6:50: framework 'native' reduces gradients after the backward pass; leave 'overlap.gradients' out or "
        "set it to false");
  CHECK(errors(kTiny, "fp32}", "fp32, kernels: unfused}") ==
        "6:38: framework 'native' has kernels of its own; leave 'kernels' out or set it to fused");
  CHECK(errors(kTiny, "fp32}", "fp32, recompute: {mode: full, every: 2}}") ==
        "6:40: framework 'native' recomputes all layers or none; leave 'every' and 'layers' out of 'recompute'");
  CHECK(errors(kTiny, "fp32}", "fp32, overlap: {tensor: true}}") ==
        "6:47: framework 'native' does not overlap tensor-parallel communication with its matrix products; leave "
        "'overlap.tensor' out or set it to false");
  CHECK(errors(kMlp, "sgd}", "sgd, optimizer_sync: post-validation}") ==
        "6:61: framework 'native' cannot roll back a step of sgd; use adamw, or 'optimizer_sync: barrier'");
  CHECK(joined(kTiny + "framework: {use: native, dropout: true}\n") ==
        "7:35: framework 'native' has 'native_kernels', which do not support 'dropout'; leave it out");
}

TEST_CASE("of mixtures of experts what own kernels cannot do is refused by name") {
  const std::string mixture = with(with(kTiny, "family: gpt", "family: moe, experts: 8, experts_per_token: 2, ffn: 64"),
                                   "{tensor: 2, pipeline: 2, data: 2}", "{pipeline: 2, data: 4, expert: 2}");
  CHECK(joined(mixture).empty());
  CHECK(joined(mixture + "experts: {capacity: 1.25, skew: uniform}\n").empty());
  CHECK(errors(mixture, "data: 4,", "data: 4, tensor: 2, expert_tensor: 2,").empty());
  CHECK(errors(mixture, "family: moe", "family: moe, ffn_kind: gelu")
            .find("framework 'native' supports experts with swiglu only; leave 'ffn_kind' out") != std::string::npos);
  CHECK(errors(mixture, "family: moe", "family: moe, mtp_layers: 1")
            .find("framework 'native' does not support multi-token prediction; leave 'mtp_layers' out") !=
        std::string::npos);
  CHECK(joined(mixture + "experts: {skew: {zipf: 1}, balance: eplb, limit_nodes: 1, dispatch: two-hop}\n") ==
        "7:17: framework 'native' routes tokens by its own router, not by given loads; leave 'skew' out\n"
        "7:37: framework 'native' never moves experts; leave 'balance' out\n"
        "7:56: framework 'native' may send a token to any node; leave 'limit_nodes' out\n"
        "7:69: framework 'native' dispatches tokens in a single all-to-all; leave 'dispatch' out");
}

TEST_CASE("what only own kernels can do names them") {
  const auto other = kGood + "framework: megatron-2021\n";
  CHECK(errors(other + "training: {optimizer_sync: post-validation}\n", "data: 16", "data: 16, zero: 3") ==
        "8:28: 'post-validation' is not supported with 'zero' 3, where the next step gathers the parameters that this "
        "one updates; use barrier, or zero 0 to 2");
  CHECK(joined(with(kMlp, "sgd}", "sgd}\nframework: titan-2024")) ==
        "2:17: family 'mlp' is not supported by framework 'titan-2024'; set 'framework: native' (this program's own "
        "kernels)");
  for (const int zero : {0, 1, 2, 3})
    CHECK(load_text(kTiny, {fmt::format("parallelism.zero={}", zero), "training.optimizer=lomo"}).parallelism.zero ==
          zero);
}

TEST_CASE("rates of learning") {
  const auto t = load_text(with(kTiny, "fp32}", "fp32, learning_rate: 0.01, weight_decay: 0}")).concrete->training;
  CHECK(t.learning_rate == .01);
  CHECK(t.weight_decay == 0);
  CHECK(load_text(with(kTiny, "fp32}", "fp32, optimizer: lomo}")).concrete->training.learning_rate == .1);
  CHECK(errors(kTiny, "fp32}", "fp32, learning_rate: 0}") != "");
  CHECK(errors(kMlp, "sgd}", "sgd, weight_decay: 0.1}") ==
        "6:59: sgd has no weight decay; leave 'weight_decay' out, or set 'optimizer' to adamw");
  // What is learned depends on them; what the other framework predicts does not.
  const Folder folder;
  const auto digest = [&](const std::string& text) { return load(folder.write("x.yaml", text)).digest; };
  CHECK(digest(kTiny) == digest(with(kTiny, "fp32}", "fp32, learning_rate: 0.001}")));
  CHECK(digest(kTiny) != digest(with(kTiny, "fp32}", "fp32, learning_rate: 0.002}")));
  CHECK(digest(kTiny) != digest(with(kTiny, "fp32}", "fp32, optimizer: lomo}")));
  CHECK(digest(kTiny) != digest(with(kTiny, "data: 2", "data: 2, zero: 2")));
}
