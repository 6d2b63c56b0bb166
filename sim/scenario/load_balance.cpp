// Expert-balance questions: expert loads, and GPUs with slots for replicas (scenarios/balance/README.md).
#include <fmt/format.h>

#include <filesystem>

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
      problems.error(item->where(),
                     fmt::format("{} has rows of {} and of {} numbers", what, rows.front().size(), row.size()));
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
                     "'weights' and 'trace' exclude each other: a trace holds the weights of every step");
    top.find("weights");
    if (trace && trace->kind == Node::Kind::sequence && !trace->items.empty()) {
      for (const Node* step : trace->items) question.trace.push_back(read_loads(context, step, "a step of 'trace'"));
    } else if (trace) {
      problems.error(trace->where(), "'trace' must be a list of the weights of every step");
    }
    if (!question.trace.empty()) p.weights = question.trace.front();
    question.every = static_cast<std::uint32_t>(top.integer("every", kExpert, 0));
  } else {
    p.weights =
        read_loads(context, top.require("weights", "a list of layers, each a load per expert, or a .npy file of them"),
                   "'weights'");
    if (top.given("every")) problems.error(top.at("every"), "'every' needs a 'trace'");
    top.find("every");
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
