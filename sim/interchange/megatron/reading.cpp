#include "interchange/megatron/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

constexpr std::int64_t kMostMegatronLayers = 100'000;

std::string last_of_path(const std::string& text) { return text.substr(text.rfind('.') + 1); }

// Lists of whole numbers, joined by + and repeated by *, in brackets of any depth.
class FrequencyExpression {
 public:
  FrequencyExpression(const Node& node, const std::string& word) : node_(node), word_(word), text_(node.text) {}

  std::vector<int> read() {
    auto all = sum(0);
    skip();
    if (at_ < text_.size()) refuse();
    return all;
  }

 private:
  [[noreturn]] void refuse() const {
    wrong(node_, fmt::format("'{}' must be a list for all layers, such as [0,1,1] or ([0]*3+[1]*58); found '{}', which "
                             "is not understood at character {}",
                             word_, text_, at_ + 1));
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t number() {
    skip();
    std::int64_t value = 0;
    const auto first = at_;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) && value < kMostMegatronLayers;
         ++at_)
      value = 10 * value + (text_[at_] - '0');
    if (at_ == first) refuse();
    return value;
  }
  std::vector<int> sum(int depth) {
    auto all = product(depth);
    while (take('+')) {
      const auto more = product(depth);
      all.insert(all.end(), more.begin(), more.end());
      if (std::int64_t(all.size()) > kMostMegatronLayers) refuse();
    }
    return all;
  }
  std::vector<int> product(int depth) {
    if (depth > 20) refuse();
    std::vector<int> once;
    if (take('(')) {
      once = sum(depth + 1);
      if (!take(')')) refuse();
    } else if (take('[')) {
      do once.push_back(int(number()));
      while (take(','));
      if (!take(']')) refuse();
    } else {
      refuse();
    }
    while (take('*')) {
      const auto times = number();
      if (std::int64_t(once.size()) * times > kMostMegatronLayers) refuse();
      std::vector<int> all;
      for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
      once = std::move(all);
    }
    return once;
  }

  const Node& node_;
  const std::string& word_;
  const std::string& text_;
  std::size_t at_ = 0;
};

// AttnBackend of megatron/core/transformer/enums.py, whose values configurations hold as a call.
constexpr std::array<const char*, 6> kAttentionBackends{"", "flash", "fused", "unfused", "local", "auto"};

}  // namespace

std::optional<Said<std::string>> MegatronReading::word(std::string_view name) {
  const auto found = keys.node({name});
  if (!found) return {};
  const Node* node = found->value;
  if (node->kind == Node::Kind::sequence && !node->items.empty()) node = node->items.front();
  if (node->kind == Node::Kind::map) {
    const Node* target = node->find("_target_");
    const Node* call = node->find("_args_");
    if (target && call && call->kind == Node::Kind::sequence && call->items.size() == 1 &&
        target->text.ends_with("AttnBackend")) {
      const auto index = integer_of(call->items.front()->text);
      if (index && *index > 0 && *index < std::int64_t(kAttentionBackends.size()))
        return Said<std::string>{kAttentionBackends[std::size_t(*index)], found->at, found->word};
    }
    if (target) return Said<std::string>{last_of_path(target->text), found->at, found->word};
  }
  if (node->kind != Node::Kind::scalar)
    wrong(*node, fmt::format("'{}' must be a word; found {}", found->word, scenario::flow_text(*found->value)));
  const bool path =
      node->text.starts_with("torch.") || node->text.starts_with("AttnBackend.") || node->text.starts_with("CudaGraph");
  return Said<std::string>{path ? last_of_path(node->text) : node->text, found->at, found->word};
}

std::optional<Said<std::vector<std::string>>> MegatronReading::words(std::string_view name) {
  const auto found = keys.list({name});
  if (!found) return {};
  Said<std::vector<std::string>> all{{}, found->at, found->word};
  for (const Node* item : found->value) {
    std::string one;
    for (const char c : item->text + " ")
      if (std::isspace(static_cast<unsigned char>(c)) || std::string_view(",[]'\"").find(c) != std::string_view::npos) {
        if (!one.empty()) all.value.push_back(one.starts_with("CudaGraph") ? last_of_path(one) : one);
        one.clear();
      } else {
        one += c;
      }
  }
  return all;
}

Location MegatronReading::place(std::string_view name) const {
  const Node* value = arguments.find(name);
  return value ? value->where() : arguments.values()->where();
}

void MegatronReading::no_word(std::string_view name, const std::string& why, Keys::Names harmless) {
  const auto found = keys.node({name});
  if (!found) return;
  const bool scalar = found->value->kind == Node::Kind::scalar;
  const auto text = scalar ? found->value->text : scenario::flow_text(*found->value);
  if (text.empty() || boolean_of(text) == false || text == "[]" || number_of(text) == 0.) return;
  for (const auto one : harmless)
    if (text == one) return;
  draft.no_word(found->at->where(), found->word + (boolean_of(text) == true ? "" : " " + text), why);
}

void MegatronReading::contradict(std::string_view name, const std::string& message) const {
  throw UserError({{place(name), printable(message)}});
}

std::optional<std::vector<int>> layers_of_frequency(const Said<const Node*>& said) {
  const Node& node = *said.value;
  std::vector<int> all;
  if (node.kind == Node::Kind::sequence) {
    for (const Node* item : node.items) {
      const auto number = integer_of(item->text);
      if (!number)
        wrong(*item, fmt::format("'{}' is made of 0 and 1; found {}", said.word, scenario::flow_text(*item)));
      all.push_back(int(*number));
    }
    return all;
  }
  if (node.kind == Node::Kind::scalar && integer_of(node.text)) return {};
  return FrequencyExpression(node, said.word).read();
}

namespace {

bool period_repeats(const std::vector<Json>& layers, std::size_t at, std::size_t period) {
  if (at + 2 * period > layers.size()) return false;
  for (std::size_t i = 0; i < period; ++i)
    if (layers[at + i].dump() != layers[at + period + i].dump()) return false;
  return true;
}

}  // namespace

Json runs_of_layers(const std::vector<Json>& layers) {
  constexpr std::size_t kLongest = 16;
  auto all = Json::array();
  for (std::size_t at = 0; at < layers.size();) {
    // The period that covers most layers from here on; of equals the shortest.
    std::size_t best = 1, covered = 1;
    for (std::size_t period = 1; period <= kLongest; ++period) {
      std::size_t end = at;
      while (period_repeats(layers, end, period)) end += period;
      if (end > at && end + period - at > covered) best = period, covered = end + period - at;
    }
    const auto times = std::int64_t(covered / best);
    if (best == 1) {
      Json run = Json::object();
      if (times > 1) run["repeat"] = times;
      for (const auto& [key, value] : layers[at].members()) run[key] = value;
      all.push_back(std::move(run));
    } else {
      const auto begin = layers.begin() + std::ptrdiff_t(at);
      all.push_back(
          Json{{"repeat", times}, {"layers", runs_of_layers(std::vector<Json>(begin, begin + std::ptrdiff_t(best)))}});
    }
    at += covered;
  }
  return all;
}

namespace {

// Wide enough for what anybody trains, and narrow enough for arithmetic.
struct ArgumentRange {
  std::string_view name;
  std::int64_t low, high;
};
constexpr std::array kArgumentRanges{
    ArgumentRange{"tensor_model_parallel_size", 1, 1'000'000},
    ArgumentRange{"pipeline_model_parallel_size", 1, 65'535},
    ArgumentRange{"context_parallel_size", 1, 1'000'000},
    ArgumentRange{"expert_model_parallel_size", 1, 1'000'000},
    ArgumentRange{"expert_tensor_parallel_size", 1, 1'000'000},
    ArgumentRange{"virtual_pipeline_model_parallel_size", 1, 65'535},
    ArgumentRange{"num_virtual_stages_per_pipeline_rank", 1, 65'535},
    ArgumentRange{"num_layers_per_virtual_pipeline_stage", 1, 100'000},
    ArgumentRange{"decoder_first_pipeline_num_layers", 0, 100'000},
    ArgumentRange{"decoder_last_pipeline_num_layers", 0, 100'000},
    ArgumentRange{"num_distributed_optimizer_instances", 1, 1'000'000},
    ArgumentRange{"micro_batch_size", 1, 1'000'000'000},
    ArgumentRange{"global_batch_size", 1, 1'000'000'000},
    ArgumentRange{"num_layers", 1, 100'000},
    ArgumentRange{"encoder_num_layers", 1, 100'000},
    ArgumentRange{"hidden_size", 1, 10'000'000},
    ArgumentRange{"num_attention_heads", 1, 1'000'000},
    ArgumentRange{"num_query_groups", 1, 1'000'000},
    ArgumentRange{"kv_channels", 1, 10'000'000},
    ArgumentRange{"ffn_hidden_size", 1, 10'000'000},
    ArgumentRange{"mamba_head_dim", 1, 10'000'000},
    ArgumentRange{"make_vocab_size_divisible_by", 1, 1'000'000'000},
    ArgumentRange{"vocab_size", 1, 1'000'000'000},
    ArgumentRange{"padded_vocab_size", 1, 1'000'000'000},
    ArgumentRange{"moe_router_num_groups", 1, 1'000'000},
    ArgumentRange{"moe_router_group_topk", 1, 1'000'000},
    ArgumentRange{"world_size", 1, 10'000'000},
    ArgumentRange{"data_parallel_size", 1, 10'000'000},
};
constexpr std::array kVariableRanges{
    ArgumentRange{"GPUS_PER_NODE", 1, 1024},         ArgumentRange{"NPROC_PER_NODE", 1, 1024},
    ArgumentRange{"SLURM_NTASKS_PER_NODE", 1, 1024}, ArgumentRange{"NNODES", 1, 1'000'000},
    ArgumentRange{"NUM_NODES", 1, 1'000'000},        ArgumentRange{"SLURM_NNODES", 1, 1'000'000},
    ArgumentRange{"WORLD_SIZE", 1, 10'000'000},      ArgumentRange{"SLURM_NTASKS", 1, 10'000'000}};

template <class Ranges>
void check_ranges(Keys& keys, const Ranges& ranges) {
  for (const auto& [name, low, high] : ranges)
    if (const auto said = keys.integer({name}); said && (said->value < low || said->value > high))
      wrong(*said->at, fmt::format("'{}' must be from {} to {}; found {}", said->word, low, high, said->value));
}

}  // namespace

void read_megatron(const MegatronArguments& arguments, ScenarioDraft& draft) {
  MegatronReading run(arguments, draft);
  Keys around(draft, arguments.environment());
  check_ranges(run.keys, kArgumentRanges), check_ranges(around, kVariableRanges);
  read_megatron_model(run);
  read_megatron_layout(run);
  read_megatron_training(run);
  read_megatron_framework(run);
  ignore_megatron_rest(run);
  run.keys.finish(arguments.listed);
}

}  // namespace rehearsal::interchange
