// Every model of the zoo has its published number of parameters; a model without a published count has at least the
// size in its name.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "scenario/scenario.hpp"

using namespace rehearsal;
namespace fs = std::filesystem;

namespace {

struct Published {
  double parameters, tolerance;
};
// Llama: counts of the released weights, including biases and norms, so exact. BLOOM: model card, also exact. MPT: 12 l
// h^2 + V h, the rest without biases and learned positions (1.4 % of the smallest). NeMo prints whole billions
// (Nemotron-3 8B has 8.5 with both embedding matrices of 1.05). Mixtures of experts: counts of the released weights
// (`safetensors` of huggingface.co/api/models), exact. Not modelled, and subtracted: DeepSeek-V3's bias of each router
// output (its files hold 684 489 845 504: 671 026 419 200 and a multi-token prediction module with copies of both
// ends), the norms of queries and keys of Qwen3's mixtures, GPT-OSS's biases of attention, router and experts. Grok-1:
// README.md, rounded down; its code gives 315.7. Of the rest, what the card says, within its last digit.
constexpr double kBiasesOfAttention = (64 + 2 * 8) * 64 + 2880;  // q, k, v; out
constexpr double kBiases20b = kBiasesOfAttention + 32 * (1 + 3 * 2880),
                 kBiases120b = kBiasesOfAttention + 128 * (1 + 3 * 2880);
const std::map<std::string, Published> kPublished = {{"llama2-7b", {6'738'415'616., 0}},
                                                     {"llama2-13b", {13'015'864'320., 0}},
                                                     {"llama2-70b", {68'976'648'192., 0}},
                                                     {"llama3-8b", {8'030'261'248., 0}},
                                                     {"llama3-70b", {70'553'706'496., 0}},
                                                     {"llama3-405b", {405'853'388'800., 0}},
                                                     {"bloom-176b", {176'247'271'424., 0}},
                                                     {"gpt3-175b", {174.6e9, 5e-3}},  // GPT-3 Table 2.1
                                                     {"gpt3-5b", {5e9, .02}},
                                                     {"gpt3-20b", {20e9, .02}},
                                                     {"nemotron-8b", {6'442.5e6 + 2 * 1048.6e6, 1e-3}},
                                                     {"nemotron-22b", {22e9, .04}},
                                                     {"nemotron-340b", {340e9, .005}},
                                                     {"mpt-125m", {123.6e6, .014}},
                                                     {"mpt-350m", {353.6e6, .01}},
                                                     {"mpt-760m", {756.9e6, .01}},
                                                     {"mpt-1b", {1.311e9, .01}},
                                                     {"mpt-3b", {2.646e9, .01}},
                                                     {"mpt-7b", {6.649e9, .01}},
                                                     {"mpt-13b", {12.84e9, .01}},
                                                     {"mpt-30b", {29.96e9, .01}},
                                                     {"mpt-70b", {64.84e9, .01}},
                                                     {"mixtral-8x7b", {46'702'792'704., 0}},
                                                     {"mixtral-8x22b", {140'620'634'112., 0}},
                                                     {"mistral-7b", {7'241'732'096., 0}},
                                                     {"granite-3.0-3b-a800m", {3.3e9, .005}},
                                                     {"deepseek-v2", {235'741'434'880., 0}},
                                                     {"deepseek-v3", {671'026'419'200. - 58 * 256, 0}},
                                                     {"qwen3-30b-a3b", {30'532'122'624., 0}},
                                                     {"qwen3-235b-a22b", {235'093'634'560., 0}},
                                                     {"gpt-oss-20b", {20'914'757'184. - 24 * kBiases20b, 0}},
                                                     {"gpt-oss-120b", {116'829'156'672. - 36 * kBiases120b, 0}},
                                                     {"grok-1", {314e9, .006}},
                                                     {"qwen3-0.6b", {.596e9, .002}},
                                                     {"qwen3-32b", {32.76e9, .001}},
                                                     {"qwen3-coder", {480.2e9, .001}},
                                                     {"qwen3.5-35b-a3b", {35e9, .015}},
                                                     {"qwen3.5-122b-a10b", {122e9, .005}},
                                                     {"qwen3.5-397b-a17b", {397e9, .005}},
                                                     {"nemotron3-nano", {31.6e9, .002}},
                                                     {"nemotron3-super", {120.6e9, .001}},
                                                     {"nemotron3-ultra", {550e9, .005}},
                                                     {"llama4-maverick", {400e9, .005}},
                                                     {"glm-5", {744e9, .001}},
                                                     {"deepseek-v3.2", {671.9e9, .001}},
                                                     {"kimi-k2", {1026.4e9, .001}},
                                                     {"minimax-m2.5", {229e9, .005}},
                                                     // With their towers: cards of Gemma 4 (25.2 and 30.7, about .55 in
                                                     // front), MoonViT-SO-400M (.417) and the projector of Kimi K2.5.
                                                     {"gemma4-26b-a4b", {25.75e9, .005}},
                                                     {"gemma4-31b", {31.25e9, .005}},
                                                     {"kimi-k2.5", {1026.4e9 + .471e9, .001}},
                                                     {"qwen3-vl-2b", {2.13e9, .002}},
                                                     {"qwen3-vl-4b", {4.44e9, .002}},
                                                     // Its name, a tower of .45 and a module of .9.
                                                     {"qwen3.6-35b-a3b", {36.3e9, .015}},
                                                     // README of Step-3.5-Flash, whose layers these are.
                                                     {"step-3.7-flash", {196.81e9, .005}},
                                                     {"mimo-7b", {7.83e9, .002}},
                                                     {"bert-large", {335.1e6, .005}}};

// Published active parameters per token, with half of the last digit or the comment's tolerance. Mixtral: 2401.04088,
// section 2, and mistral.ai/news/mixtral-8x22b. DeepSeek: abstracts of 2405.04434 and 2412.19437; the latter excludes
// the looked-up embedding (README_WEIGHTS.md: 36.6), as does OpenAI (model card, table 1), unlike the others. Qwen3's
// names and abstract (2505.09388) truncate digits, as the names of Granite 3.0, Qwen3.5 and Nemotron 3 do. Grok-1: xAI
// says 25 % of the weights (78), others 86.
struct Active {
  double billions, tolerance;
  bool embedding = true;
};
const std::map<std::string, Active> kActive = {{"mixtral-8x7b", {12.9, .05}},
                                               {"mixtral-8x22b", {39, .5}},
                                               {"granite-3.0-3b-a800m", {.85, .05}},
                                               {"deepseek-v2", {21, .5}},
                                               {"deepseek-v3", {36.6, .05, false}},
                                               {"qwen3-30b-a3b", {3.3, .06}},
                                               {"qwen3-235b-a22b", {22, .5}},
                                               {"gpt-oss-20b", {3.61, .005, false}},
                                               {"gpt-oss-120b", {5.13, .005, false}},
                                               {"grok-1", {86, 2.5}},
                                               {"qwen3-coder", {35, .5}},
                                               {"qwen3.5-35b-a3b", {3, .5}},
                                               {"qwen3.5-122b-a10b", {10, .5}},
                                               {"qwen3.5-397b-a17b", {17, .5}},
                                               {"nemotron3-nano", {3.6, .05}},
                                               {"nemotron3-super", {12.7, .1}},
                                               {"nemotron3-ultra", {55, 1.2}},
                                               {"llama4-maverick", {17, .5}},
                                               {"glm-5", {40, 1, false}},
                                               {"deepseek-v3.2", {37, .5, false}},
                                               {"kimi-k2", {32, .5, false}},
                                               {"minimax-m2.5", {10, .5, false}},
                                               {"gemma4-26b-a4b", {3.8 + .57, .06}},
                                               {"kimi-k2.5", {32 + .47, .5, false}},
                                               {"qwen3.6-35b-a3b", {3 + .45, .6}},
                                               {"step-3.7-flash", {11, .5}}};

// "llama3-8b" -> 8e9
double named_size(const std::string& name) {
  const auto size = name.substr(name.rfind('-') + 1);
  return std::stod(size) * (size.ends_with('t') ? 1e12 : size.ends_with('m') ? 1e6 : 1e9);
}

}  // namespace

TEST_CASE("every model has the size that was published, or that its name says") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);  // tests must not use this machine's profiles
  const auto text = fs::temp_directory_path() / fmt::format("every-model-{}.yaml", ::getpid());
  std::size_t published = 0;
  for (const auto& part : scenario::list("models")) {
    INFO(part.name);
    std::ofstream(text) << fmt::format("version: 1\nmodel: {}\ncluster: dgx-a100-80g\nbatch: {{global: 1}}\n",
                                       part.name);
    const auto model = scenario::load(text.string()).concrete->model;
    if (const auto active = kActive.find(part.name); active != kActive.end()) {
      const auto [billions, tolerance, embedding] = active->second;
      const double table = double(model.vocabulary) * double(model.hidden);
      CHECK(std::abs(models::active_parameters(model) - (embedding ? 0 : table) - billions * 1e9) <= tolerance * 1e9);
    }
    CHECK((kActive.count(part.name) == 1) == model.is_moe());
    const auto known = kPublished.find(part.name);
    if (known == kPublished.end()) {
      CHECK(models::parameters(model) == doctest::Approx(named_size(part.name)).epsilon(.05));
      continue;
    }
    ++published;
    const auto [parameters, tolerance] = known->second;
    CHECK(std::abs(models::parameters(model) - parameters) <= tolerance * parameters);
  }
  CHECK(published == kPublished.size());
  fs::remove(text);
}

TEST_CASE("DeepSeek-V3's files hold its module of multi-token prediction, with copies of both ends") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  const auto model = scenario::load_text(
                         "version: 1\nmodel: {use: deepseek-v3, mtp_layers: 1}\nbatch: {global: 1}\n"
                         "cluster: h800-roce\n",
                         "file.yaml")
                         .concrete->model;
  const double router_biases = 59 * 256, copies = 2. * 129'280 * 7'168;
  CHECK(models::parameters(model) + router_biases + copies == 684'489'845'504.);
}
