// Experts, expert parallelism and context parallelism: what is read, and every rule with its message and place.
#include <fmt/ranges.h>

#include "helpers.hpp"

namespace doctest {
template <>
struct StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& lines) {
    return fmt::format("{}", fmt::join(lines, "\n")).c_str();
  }
};
}  // namespace doctest

namespace rehearsal::scenario {
namespace {

using Lines = std::vector<std::string>;

// 32 GPUs; 8 experts in every layer.
const std::string kExperts =
    "version: 1\n"
    "model: mixtral-8x7b\n"
    "cluster: {use: dgx-h100, nodes: 4}\n"
    "parallelism: {tensor: 2, context: 2, expert: 8, pipeline: 2}\n"
    "batch: {global: 64, sequence: 8192}\n";

Lines now(const std::string& old, const std::string& text) { return errors_of(with(kExperts, old, text)); }
Lines layout(const std::string& degrees) { return now("tensor: 2, context: 2, expert: 8, pipeline: 2", degrees); }
Lines more(const std::string& lines) { return errors_of(kExperts + lines); }
Lines model(const std::string& keys) {
  return now("mixtral-8x7b", "{family: moe, layers: 4, hidden: 64, heads: 8, " + keys + "}");
}

}  // namespace

TEST_CASE("context is a factor, experts are none") {
  const auto s = load_text(kExperts +
                           "experts: {capacity: 1.25, skew: {zipf: 0.5}, limit_nodes: 2, dispatch: two-hop,\n"
                           "  balance: eplb, redundant: 8, every: 100}\n"
                           "training: {context: all-gather, context_balance: false, causal: false}\n");
  CHECK(s.parallelism.context == 2);
  CHECK(s.parallelism.data == 4);  // 32 / (2 x 2 x 2)
  CHECK(s.parallelism.gpus() == 32);
  CHECK(s.parallelism.expert == 8);
  CHECK(s.parallelism.expert_tensor == 1);
  const auto& c = *s.concrete;
  CHECK(c.training.context == models::ContextKind::all_gather);
  CHECK_FALSE(c.training.context_balance);
  CHECK(c.experts.capacity == 1.25);
  CHECK(c.experts.skew.kind == models::Skew::Kind::zipf);
  CHECK(c.experts.skew.zipf == .5);
  CHECK(c.experts.limit_nodes == 2);
  CHECK(c.experts.dispatch == models::Dispatch::two_hop);
  CHECK(c.experts.balance == models::ExpertBalance::eplb);
  CHECK(c.experts.redundant == 8);
  CHECK(c.experts.every == 100);
}

TEST_CASE("natural routing is a word") {
  const auto s = scenario::load_text(
      "version: 1\nmodel: {use: qwen3-30b-a3b, layers: 2}\ncluster: {use: dgx-h100, gpus: 8}\n"
      "parallelism: {expert: 8}\nbatch: {global: 8, micro: 1}\nexperts: {skew: natural}\n",
      "test");
  CHECK(s.concrete->experts.skew.kind == models::Skew::Kind::natural);
}

TEST_CASE("what is said of experts and means nothing else is the same scenario") {
  const auto usual = load_text(kExperts).digest;
  CHECK(load_text(kExperts + "experts: {capacity: dropless, skew: uniform, balance: none}\n").digest == usual);
  CHECK(load_text(kExperts + "experts: {skew: {zipf: 0}}\n").digest == usual);
  CHECK(load_text(kExperts + "training: {context: ring}\n").digest == usual);
  CHECK(load_text(kExperts + "experts: {skew: [1, 1, 1, 1, 1, 1, 1, 2]}\n").digest != usual);
  CHECK(load_text(kExperts + "training: {recompute: {modules: [moe_act, layernorm]}}\n").digest ==
        load_text(kExperts + "training: {recompute: {mode: selective, modules: [layernorm, moe_act]}}\n").digest);
}

TEST_CASE("experts fold tensor x context x data") {
  CHECK(layout("tensor: 2, expert: 3, pipeline: 2") ==
        Lines{"4:34: 'expert' 3 does not divide the 8 experts of model 'mixtral-8x7b'; nearest: 2 or 4"});
  CHECK(layout("tensor: 2, expert: 16, pipeline: 2") ==
        Lines{"4:34: 'expert' 16 does not divide the 8 experts of model 'mixtral-8x7b'; nearest: 8"});
  CHECK(layout("pipeline: 8, expert: 8") ==
        Lines{"4:36: 'expert' 8 x 'expert_tensor' 1 does not divide tensor x context x data = 1 x 1 x 4 = 4 GPUs; "
              "nearest: 4"});
  CHECK(layout("tensor: 2, pipeline: 2, expert: 8, expert_tensor: 4") ==
        Lines{"4:47: 'expert' 8 x 'expert_tensor' 4 does not divide tensor x context x data = 2 x 1 x 8 = 16 GPUs; "
              "nearest: 4"});
  CHECK(
      layout("expert_tensor: 3") ==
      Lines{"4:30: 'expert_tensor' 3 does not divide the 14336 columns of an expert of model 'mixtral-8x7b'; "
            "nearest: 2 or 4",
            "4:30: 'expert_tensor' 3 does not divide tensor x context x data = 1 x 1 x 32 = 32 GPUs; nearest: 2 or 4"});
  CHECK(errors_of(with(kGood, "tensor: 8", "expert: 8, expert_tensor: 2, tensor: 8")) ==
        Lines{"4:23: 'expert' 8 needs experts, and model 'gpt3-175b' has none; leave it out",
              "4:41: 'expert_tensor' 2 needs experts, and model 'gpt3-175b' has none; leave it out"});
}

TEST_CASE("context cuts the sequence") {
  const auto tokens = [](const std::string& more, const std::string& training = "") {
    return errors_of(with(kExperts, "context: 2, expert: 8, pipeline: 2}\nbatch: {global: 64, sequence: 8192}",
                          "context: 4}\nbatch: {global: 64, " + more + "}") +
                     training);
  };
  CHECK(tokens("sequence: 8192") == Lines{});
  CHECK(
      tokens("sequence: 8196") ==
      Lines{"4:35: 2 x 'context' 4 = 8 does not divide the 8196 tokens of a sequence, as 'training.context_balance' of "
            "causal attention needs; nearest: 3 or 6"});
  CHECK(tokens("sequence: 8200", "training: {context_balance: false}\n") == Lines{});
  CHECK(tokens("sequence: 8200", "training: {causal: false}\n") == Lines{});
  CHECK(tokens("sequence: 8190", "training: {causal: false}\n") ==
        Lines{"4:35: 'context' 4 does not divide the 8190 tokens of a sequence; nearest: 3 or 5"});
  CHECK(
      errors_of(with(with(kExperts, "tensor: 2, context: 2, expert: 8, pipeline: 2", "tensor: 8, sequence: true"),
                     "sequence: 8192", "sequence: 8196")) ==
      Lines{"5:31: 'sequence' 8196 tokens do not divide over tensor 8, as sequence parallelism needs; nearest: 8192 or "
            "8200"});
  CHECK(
      errors_of(with(with(kExperts, "tensor: 2, context: 2, expert: 8, pipeline: 2", "tensor: 8"), "sequence: 8192",
                     "sequence: 8196")) ==
      Lines{"5:31: the 8196 tokens of a micro-batch on a GPU do not divide over tensor 8, whose ranks send each their "
            "own to the experts; nearest: 6 or 12"});
  CHECK(errors_of("version: 1\nmodel: {family: mlp, layers: 2, hidden: 8}\nparallelism: {context: 2}\n"
                  "cluster: {use: dgx-h100}\nbatch: {global: 2}\nframework: native\n"
                  "training: {precision: fp32, optimizer: sgd}\n") ==
        Lines{"3:24: 'context' 2 splits sequences, and family 'mlp' has none; leave it out"});
}

TEST_CASE("all-to-all deals out the heads of a GPU") {
  const auto ulysses = [](const std::string& degrees) {
    return errors_of(with(kExperts, "tensor: 2, context: 2, expert: 8, pipeline: 2", degrees) +
                     "training: {context: all-to-all}\n");
  };
  // 32 heads and 8 of keys and values.
  CHECK(ulysses("context: 8") == Lines{});
  CHECK(ulysses("context: 16") == Lines{});  // each of the 8 twice
  CHECK(ulysses("tensor: 4, context: 8") == Lines{});
  CHECK(ulysses("tensor: 8, context: 4") == Lines{});
  CHECK(
      errors_of(with(with(kExperts, "tensor: 2, context: 2, expert: 8, pipeline: 2", "tensor: 4, context: 16"),
                     "nodes: 4", "nodes: 8") +
                "training: {context: all-to-all}\n") ==
      Lines{"4:35: 'context' 16 does not divide the 8 heads and 2 kv_heads of a GPU (model 'mixtral-8x7b' over tensor "
            "4), which 'all-to-all' of 'training.context' distributes; nearest: 8"});
}

TEST_CASE("experts: capacity, skew, placement") {
  CHECK(
      more("experts: {capacity: 0.0001}\n") ==
      Lines{
          "6:21: 'capacity' 0.0001 leaves an expert 0.051 of the 512 tokens of a micro-batch that it gets on average; "
          "at least 0.002"});
  CHECK(more("experts: {capacity: none}\n") ==
        Lines{"6:21: 'capacity' must be a number above 0, or dropless; found the text 'none'"});
  CHECK(more("experts: {capacity: 0}\n") ==
        Lines{"6:21: 'capacity' must be a number above 0 and at most 1e+18; found the number '0'"});
  CHECK(more("experts: {skew: [1, 2, 3]}\n") ==
        Lines{"6:17: 'skew' has 3 loads, but a layer of model 'mixtral-8x7b' has 8 experts"});
  CHECK(more("experts: {skew: {zipf: -1}}\n").size() == 1);
  CHECK(
      more("experts: {skew: even}\n") ==
      Lines{
          "6:17: 'skew' must be uniform, natural, {zipf: A}, a list of loads or {trace: FILE}; found the text 'even'"});
  CHECK(more("experts: {redundant: 8}\n") ==
        Lines{"6:22: 'redundant' needs 'balance': eplb or best, which choose the experts to replicate"});
  CHECK(more("experts: {balance: eplb, redundant: 3}\n") ==
        Lines{"6:37: 'redundant' 3: 8 experts and 3 replicas do not divide over 'expert' 8; nearest: 0 or 8"});
  CHECK(more("experts: {every: 10}\n") ==
        Lines{"6:18: 'every' needs 'balance': eplb or best, which place the experts again"});
  CHECK(errors_of(kGood + "experts: {capacity: 1}\n") ==
        Lines{"7:10: 'experts' says how tokens are routed to experts, but model 'gpt3-175b' has none; leave it out"});
}

TEST_CASE("a trace of loads is a file of `rehearse balance`") {
  const Folder folder;
  folder.write("loads.yaml",
               "trace:\n- [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]]\n"
               "- [[1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 9]]\n");
  const auto s = load(folder.write("x.yaml", kExperts + "experts: {skew: {trace: loads.yaml}}\n"));
  const auto& trace = s.concrete->experts.skew.trace;
  REQUIRE(trace.size() == 2);
  CHECK(trace[1][1][7] == 9);
  folder.write("loads.yaml", "weights: [[1, 2, 3]]\n");
  CHECK(format(check(folder.path() + "/x.yaml").errors)
            .ends_with("x.yaml:6:17: error: the trace has 3 loads, but a layer of model 'mixtral-8x7b' has 8 experts"));
  folder.write("loads.yaml", "weights: [[1, 2, 3, 4, 5, 6, 7, -8]]\n");
  CHECK(format(check(folder.path() + "/x.yaml").errors).ends_with("a load of -8 tokens is negative; give 0 or more"));
}

TEST_CASE("modules of selective recomputation") {
  CHECK(more("training: {recompute: {modules: [moe, mlp]}}\n") ==
        Lines{"6:33: 'mlp' of 'modules' needs dense layers, and model 'mixtral-8x7b' has none"});
  CHECK(more("training: {recompute: {modules: [mla_up_proj, shared_experts]}}\n") ==
        Lines{"6:33: 'mla_up_proj' of 'modules' needs latent attention ('mla'), and model 'mixtral-8x7b' has none",
              "6:33: 'shared_experts' of 'modules' needs shared experts, and model 'mixtral-8x7b' has none"});
  CHECK(errors_of(kGood + "training: {recompute: {modules: [moe_act]}}\n") ==
        Lines{"7:33: 'moe_act' of 'modules' needs experts, and model 'gpt3-175b' has none"});
  CHECK(
      more("training: {recompute: {mode: full, modules: [moe]}}\n") ==
      Lines{"6:45: 'modules' lists what selective recomputation recomputes; leave 'mode' out or set it to selective"});
  CHECK(
      more("training: {recompute: {modules: [moe, moe]}}\n") ==
      Lines{"6:39: 'modules' names 'moe' twice; it takes each of core_attn, layernorm, mla_up_proj, moe_act, mlp, moe, "
            "shared_experts, mlp_act once at most"});
  CHECK(more("training: {recompute: {modules: moe}}\n").size() == 1);
  CHECK(load_text(kExperts + "training: {recompute: {modules: [moe]}}\n").concrete->training.recompute ==
        models::Recompute::selective);
  CHECK(load_text(kExperts + "training: {recompute: {modules: []}}\n").concrete->training.recompute ==
        models::Recompute::none);
}

TEST_CASE("models with experts") {
  CHECK(model("experts: 8, experts_per_token: 2") == Lines{});
  CHECK(model("experts: 8") ==
        Lines{"2:8: missing key 'experts_per_token' in 'model': a whole number from 1 to 100000"});
  CHECK(model("experts: 8, experts_per_token: 9") ==
        Lines{"2:86: 'experts_per_token' 9 exceeds the number of 'experts', 8; set it to at most 8"});
  CHECK(model("experts: 8, experts_per_token: 2, dense_layers: 4") ==
        Lines{"2:103: 'dense_layers' 4 leaves none of the 4 layers to experts; set it to at most 3"});
  CHECK(model("experts: 8, experts_per_token: 2, kv_heads: 2, mla: {kv_rank: 8, rotary_dim: 4, head_dim: 8}").size() ==
        2);
  const auto latent = load_text(with(kExperts, "mixtral-8x7b",
                                     "{family: moe, layers: 4, hidden: 60, heads: 8, experts: 8, experts_per_token: 2, "
                                     "mla: {kv_rank: 8, rotary_dim: 4, head_dim: 8, value_dim: 6}}"))
                          .concrete->model;
  REQUIRE(latent.mla);
  CHECK(latent.mla->query_rank == 0);
  CHECK(latent.head_dim == 12);
  CHECK(latent.kv_heads == 8);
  CHECK(latent.expert_ffn == 240);
  const auto shared = load_text(with(kExperts, "mixtral-8x7b", "deepseek-v2")).concrete->model;
  CHECK(shared.shared_ffn == 3072);
  CHECK(shared.ffn_kind == models::FfnKind::swiglu);
  CHECK_FALSE(shared.tie_embeddings);
  CHECK(errors_of(with(kGood, "gpt3-175b", "{use: gpt3-175b, mtp_layers: 1}")) ==
        Lines{"2:37: 'mtp_layers' is a key of families llama and moe; leave it out"});
}

}  // namespace rehearsal::scenario
