// Expert-balance questions: expert loads, and GPUs with slots for replicas (scenarios/balance/README.md).
#include <fmt/format.h>

#include <filesystem>

#include "models/transformer.hpp"
#include "scenario/balance_file.hpp"
#include "scenario/load.hpp"
#include "scenario/npy.hpp"

namespace rehearsal::scenario {
namespace {

using balance::Loads;
using balance::Policy;

constexpr IntegerRange kMany{1, 1'000'000}, kExpert{0, 1'000'000};
constexpr NumberRange kAny{-1e300, 1e300};

// A list of lists of numbers of one type; empty after an error.
template <class T, class Read>
std::vector<std::vector<T>> read_rows(Diagnostics& problems, const Node* node, const std::string& what, Read&& read) {
  std::vector<std::vector<T>> rows;
  if (!node) return rows;
  const auto before = problems.count();
  const auto is_list = [&](const Node& list, const std::string& name) {
    if (list.kind == Node::Kind::sequence && !list.items.empty()) return true;
    problems.error(list.where(), fmt::format("{} must be a list of {}", name, name == what ? "lists" : "numbers"));
    return false;
  };
  if (!is_list(*node, what)) return rows;
  for (const Node* item : node->items) {
    if (!is_list(*item, "an entry of " + what)) continue;
    auto& row = rows.emplace_back();
    for (const Node* value : item->items)
      if (const auto number = read(*value)) row.push_back(static_cast<T>(*number));
    if (row.size() != rows.front().size())
      problems.error(item->where(), fmt::format("{} must have rows of the same length; found {} and {} numbers", what,
                                                rows.front().size(), row.size()));
  }
  return problems.count() == before ? rows : std::vector<std::vector<T>>{};
}

void read_previous(Diagnostics& problems, const Node* node, balance::Question& question, const Node& root) {
  if (!node) return;
  MapReader map(problems, node, "previous", root);
  const Node* phy2log = map.require("phy2log", "the expert in every slot of every layer");
  for (const auto& layer : read_rows<std::int32_t>(problems, phy2log, "'phy2log'", [&](const Node& value) {
         return read_integer(problems, value, "an entry of 'phy2log'", kExpert);
       }))
    question.previous.insert(question.previous.end(), layer.begin(), layer.end());
  if (const Node* bytes = map.find("bytes_per_expert")) {
    // A bare number is in bytes.
    const bool bare = bytes->text.find_first_not_of("0123456789") == std::string::npos && !bytes->text.empty();
    if (bare)
      question.bytes_per_expert =
          Bytes(read_integer(problems, *bytes, "'bytes_per_expert'", {0, INT64_MAX / 1'000'000}).value_or(0));
    else
      question.bytes_per_expert = read_bytes(problems, *bytes, "'bytes_per_expert'").value_or(Bytes{});
  }
  map.finish();
}

// One number for each token: the keys and values that its layers keep.
double cached(const models::Transformer& model) {
  double all = 0;
  for (const auto& row : models::layer_table(model).rows) {
    const auto& m = row.spec.mixer;
    if (m.kind != models::MixerKind::attention) continue;
    const auto values = m.keys_as_values ? 0 : m.value_dim();
    all +=
        double(row.count) * double((m.mla ? m.mla->kv_rank + m.mla->rotary_dim : m.kv_heads * (m.head_dim + values)) +
                                   (m.sparse > 0 ? m.index_dim : 0));
  }
  return all;
}

void read_serving(Context& context, const Node* node, balance::Question& question, const Node& root) {
  if (!node) return;
  auto& problems = context.problems;
  MapReader map(problems, node, "serving", root);
  const Node* named = map.require("model", "the model that is served, as in a scenario");
  const auto model = named ? load_model(context, *named) : std::nullopt;
  const double width = map.choice<double>("precision", {{"bf16", 2.}, {"fp8", 1.}, {"fp4", .5}}, {}, 2.);
  const double cache = map.choice<double>("cache_precision", {{"bf16", 2.}, {"fp8", 1.}}, {}, 2.);
  balance::Serving serving;
  serving.tokens = double(map.integer("tokens", {0, INT64_MAX / 1'000'000}, 0));
  if (const Node* memory = map.find("memory")) serving.memory = read_bytes(problems, *memory, "'memory'");
  map.finish();
  if (!model) return;
  std::int64_t layers = 0;
  double experts = 0, one = 0;
  for (const auto& row : models::layer_table(*model).rows) {
    const auto& f = row.spec.ffn;
    if (!f.has_experts()) continue;
    layers += row.count;
    one = double((f.latent > 0 ? f.latent : model->hidden) * f.expert_width * (f.up_projections() + 1));
    experts += one * double(f.experts * row.count);
    if (std::uint32_t(f.experts) != question.problem.experts() && question.problem.experts() > 0)
      problems.error(named->where(), fmt::format("'model' has {} experts per layer, but the loads are for {}",
                                                 f.experts, question.problem.experts()));
  }
  if (layers == 0) problems.error(named->where(), "'model' has no experts; name a mixture-of-experts model");
  serving.expert = one * width;
  auto alone = *model;
  alone.mtp_layers = 0;  // modules of multi-token prediction are for training
  serving.others = (models::parameters(alone) - experts) * width;
  serving.cache = cached(*model) * cache;
  if (question.bytes_per_expert == Bytes{}) question.bytes_per_expert = Bytes(std::int64_t(serving.expert));
  question.serving = serving;
}

}  // namespace

std::vector<Loads> read_loads(Context& context, const Node* node, const std::string& what) {
  auto& problems = context.problems;
  if (node && node->kind == Node::Kind::scalar && node->text.ends_with(".npy")) {
    try {
      return read_npy_rows(beside(*node, node->text), context.files);
    } catch (const UserError& e) {
      for (const auto& d : e.diagnostics())
        problems.error(node->where(),
                       fmt::format("{}: {}{}", what, d.where.file.empty() ? "" : d.where.file + ": ", d.message));
      return {};
    }
  }
  return read_rows<double>(problems, node, what, [&](const Node& value) {
    return read_number(problems, value, "an entry of " + what, kAny);
  });
}

balance::Question read_balance(Context& context, const std::string& path, const Node& root) {
  auto& problems = context.problems;
  const auto before = problems.count();
  balance::Question question;
  MapReader top(problems, root, "");
  question.name = top.text("name", std::filesystem::path(path).stem().string());
  auto& p = question.problem;
  const bool traced = top.given("trace");
  if (traced) {
    const Node* trace = top.find("trace");
    if (top.given("weights"))
      problems.error(top.at("weights"),
                     "give either 'weights' or 'trace', not both: a trace holds the weights of every step");
    top.find("weights");
    if (trace && trace->kind == Node::Kind::sequence && !trace->items.empty()) {
      for (const Node* step : trace->items) question.trace.push_back(read_loads(context, step, "a step of 'trace'"));
    } else if (trace) {
      problems.error(trace->where(), "'trace' must be a list of the weights of every step");
    }
    if (!question.trace.empty()) p.weights = question.trace.front();
    question.every = static_cast<std::uint32_t>(top.integer("every", kExpert, 0));
    question.window = static_cast<std::uint32_t>(top.integer("window", kExpert, 0));
    question.threshold = top.number("threshold", {1, 1e9}, 1.);
    question.layer_time = top.time("layer_time", true, Time{});
  } else {
    p.weights =
        read_loads(context, top.require("weights", "a list of layers, each a load per expert, or a .npy file of them"),
                   "'weights'");
    for (const char* key : {"every", "window", "threshold", "layer_time"}) {
      if (top.given(key)) problems.error(top.at(key), fmt::format("'{}' needs a 'trace'", key));
      top.find(key);
    }
  }
  const auto count = [&](const char* key, std::optional<std::int64_t> fallback = {}) {
    return static_cast<std::uint32_t>(top.integer(key, kMany, fallback));
  };
  p.replicas = count("replicas"), p.groups = count("groups", 1), p.nodes = count("nodes", 1), p.gpus = count("gpus");
  p.policy = top.choice<Policy>(
      "policy", {{"auto", Policy::automatic}, {"hierarchical", Policy::hierarchical}, {"global", Policy::global}}, {},
      Policy::automatic);
  question.method = top.get("method", fields::name_of("method"), std::optional(question.method), question.method);
  question.time_limit = top.time("time_limit", false, seconds(1));
  read_previous(problems, top.find("previous"), question, root);
  if (const Node* links = top.find("links")) {
    MapReader map(problems, links, "links", root);
    question.in_node = map.bandwidth("in_node"),
    question.between_nodes = map.bandwidth("between_nodes", question.in_node);
    map.finish();
  }
  read_serving(context, top.find("serving"), question, root);
  question.move_cost = top.number("move_cost", {0, 1e9}, 0.);
  top.finish();
  if (problems.count() != before) return question;
  for (const auto& fault : balance::faults(question)) problems.error(top.at(fault.key), fault.rule);
  return question;
}

bool is_balance(const Node& root) {
  return root.kind == Node::Kind::map && !root.find("version") && root.find("replicas");
}

balance::Question load_balance(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  auto question = root ? read_balance(context, path, *root) : balance::Question{};
  context.problems.throw_if_any();
  return question;
}

}  // namespace rehearsal::scenario
