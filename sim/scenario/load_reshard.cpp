// Resharding questions: a tensor between two meshes, or tasks given directly (scenarios/reshard/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/spelling.hpp"
#include "scenario/load.hpp"
#include "scenario/reshard_file.hpp"

namespace rehearsal::scenario {
namespace {

using reshard::Strategy;

constexpr IntegerRange kMeshSide{1, 65536}, kExtent{1, 1'000'000'000'000}, kWork{1, 1'000'000'000'000};
constexpr std::int64_t kMostElements = 1'000'000'000'000, kMostWork = 1'000'000'000'000'000;
constexpr IntegerRange kNic{0, 1'000'000'000};
constexpr std::size_t kMostDimensions = 16;

// A list of whole numbers; empty after an error.
std::vector<std::int64_t> read_numbers(Diagnostics& problems, const Node* node, const std::string& what,
                                       IntegerRange range) {
  std::vector<std::int64_t> values;
  const auto form = fields::list_of(fields::whole(double(range.low), double(range.high)), "whole numbers");
  if (const auto read = node ? read_value(problems, *node, what, form) : std::nullopt)
    for (const auto& value : std::get<std::vector<fields::Value>>(*read))
      values.push_back(std::get<std::int64_t>(value));
  return values;
}

std::optional<reshard::Layout> read_layout(Diagnostics& problems, const Node* node, const std::string& name,
                                           std::size_t dimensions) {
  if (!node) return std::nullopt;
  const auto before = problems.count();
  reshard::Layout layout;
  MapReader map(problems, *node, name);
  const Node* mesh = map.require("mesh", "[rows, columns], such as [2, 4]: hosts and GPUs per host");
  const auto sides = read_numbers(problems, mesh, "'mesh'", kMeshSide);
  if (!sides.empty() && sides.size() != 2) {
    problems.error(mesh->where(), fmt::format("'mesh' must be [rows, columns]; found a list of {}", sides.size()));
  } else if (!sides.empty()) {
    if (sides[0] * sides[1] > kMeshSide.high)
      problems.error(mesh->where(), fmt::format("a mesh of {} x {} exceeds the limit of {} devices", sides[0], sides[1],
                                                kMeshSide.high));
    layout.mesh = {std::uint32_t(sides[0]), std::uint32_t(sides[1])};
  }
  if (const Node* spec = map.require("spec", "how the tensor is split, such as S0RR")) {
    if (const auto text = read_text(problems, *spec, "'spec'")) {
      try {
        layout.spec = reshard::parse_spec(*text);
      } catch (const UserError& error) {
        problems.error(spec->where(), error.diagnostics()[0].message);
      }
      if (!layout.spec.empty() && dimensions && layout.spec.size() != dimensions)
        problems.error(spec->where(), fmt::format("spec '{}' is for {} dimension{}, but 'shape' has {}", *text,
                                                  layout.spec.size(), layout.spec.size() == 1 ? "" : "s", dimensions));
    }
  }
  map.finish();
  return problems.count() == before ? std::optional(layout) : std::nullopt;
}

void read_link(Diagnostics& problems, MapReader& top, reshard::Question& question) {
  reshard::Link& link = question.method.link;
  const Node* node = top.find("link");
  MapReader map(problems, node, "link", top.place());
  if (map.given("nic"))
    link.nic = map.bandwidth("nic").value();
  else
    map.find("nic"),
        question.assumptions.push_back("link.nic = 10Gb/s is assumed (AWS p3.8xlarge, the paper's machine).");
  if (map.given("nvlink"))
    link.nvlink = map.bandwidth("nvlink").value();
  else
    map.find("nvlink"), question.assumptions.push_back("link.nvlink is not given: time inside a host is left out.");
  if (!map.given("latency")) question.assumptions.push_back("link.latency is not given: messages have none.");
  link.latency = to_seconds(map.time("latency", true, Time{}));
  map.finish();
}

std::vector<std::uint32_t> read_nics(Diagnostics& problems, MapReader& map, const char* key) {
  const Node* node = map.require(key, "a list of NIC ids");
  const auto label = fmt::format("'{}'", key);
  const auto values = read_numbers(problems, node, label, kNic);
  std::set<std::uint32_t> ids(values.begin(), values.end());
  if (ids.size() != values.size()) problems.error(node->where(), fmt::format("{} names a NIC twice", label));
  return {ids.begin(), ids.end()};
}

void read_tasks(Diagnostics& problems, const Node& node, reshard::Question& question) {
  if (node.kind != Node::Kind::sequence || node.items.empty()) {
    problems.error(node.where(), fmt::format("'tasks' must be a list of mappings; found {}",
                                             node.items.empty() && node.kind == Node::Kind::sequence ? "an empty list"
                                                                                                     : describe(node)));
    return;
  }
  std::int64_t total = 0;
  for (const Node* item : node.items) {
    MapReader map(problems, *item, "tasks");
    reshard::Transfer t;
    t.unit = std::uint32_t(question.given.size());
    t.senders = t.sender_devices = read_nics(problems, map, "senders");
    t.receivers = t.receiver_devices = read_nics(problems, map, "receivers");
    t.receiving_hosts = std::uint32_t(std::max<std::size_t>(1, t.receivers.size()));
    t.strategy = t.receivers.size() == 1 ? Strategy::send_recv : Strategy::broadcast;
    t.size = t.work = map.integer("work", kWork);
    for (const auto s : t.senders)
      if (std::binary_search(t.receivers.begin(), t.receivers.end(), s))
        problems.error(map.at("receivers"), fmt::format("NIC {} both sends and receives this task", s));
    map.finish();
    total += t.work;
    if (total > kMostWork) {
      problems.error(item->where(), fmt::format("the tasks together exceed the limit of {} elements", kMostWork));
      break;
    }
    question.given.push_back(std::move(t));
  }
}

// Splitting 3 elements into 8 parts leaves devices with empty shards: allowed, but rarely intended.
void warn_of_empty_shards(Diagnostics& problems, const reshard::Layout& layout, const char* name,
                          const std::vector<std::int64_t>& shape, const Location& where) {
  for (std::size_t d = 0; d < shape.size(); d++)
    if (const auto parts = std::int64_t(layout.parts(d)), length = (shape[d] + parts - 1) / parts;
        (shape[d] + length - 1) / length < parts)
      problems.warn(where,
                    fmt::format("dimension {} has only {} elements for {} parts, so some devices of '{}' hold none", d,
                                shape[d], parts, name));
}

void read_resharding(Diagnostics& problems, MapReader& top, reshard::Question& question, const Node* shape_node,
                     const std::vector<std::int64_t>& shape) {
  using enum Strategy;
  const auto before = problems.count();
  const char* what = "a mapping with 'mesh' and 'spec'";
  const auto source = read_layout(problems, top.require("source", what), "source", shape.size());
  const auto destination = read_layout(problems, top.require("destination", what), "destination", shape.size());
  question.method.nic = top.choice<reshard::NicSharing>(
      "nic", {{"host", reshard::NicSharing::host}, {"gpu", reshard::NicSharing::gpu}}, {}, reshard::NicSharing::host);
  std::int64_t size = 1;
  for (const auto n : shape) {
    if (size > kMostElements / n) {
      problems.error(shape_node->where(), fmt::format("the tensor exceeds the limit of {} elements", kMostElements));
      break;
    }
    size *= n;
  }
  if (!source || !destination || shape.empty() || problems.count() != before) return;
  question.resharding = reshard::Resharding{*source, *destination, shape};
  if (const auto why = reshard::too_large(*question.resharding, question.method.strategy))
    problems.error(top.place().where(), *why);
  warn_of_empty_shards(problems, *source, "source", shape, top.at("source"));
  warn_of_empty_shards(problems, *destination, "destination", shape, top.at("destination"));
}

}  // namespace

reshard::Question read_reshard(Context& context, const std::string& path, const Node& root) {
  auto& problems = context.problems;
  reshard::Question question;
  MapReader top(problems, root, "");
  question.name = top.text("name", std::filesystem::path(path).stem().string());
  const bool tasks = top.given("tasks");
  using enum Strategy;
  question.method.strategy = top.choice<Strategy>("strategy",
                                                  {{"send-recv", send_recv},
                                                   {"local-allgather", local_allgather},
                                                   {"alpa-allgather", alpa_allgather},
                                                   {"global-allgather", global_allgather},
                                                   {"broadcast", broadcast},
                                                   {"auto", automatic}},
                                                  {}, broadcast);
  if (const Node* chunks = top.find("chunks")) {
    if (chunks->kind == Node::Kind::scalar && chunks->text == "optimal")
      question.method.chunks = 0;
    else if (chunks->kind == Node::Kind::scalar && nearest(chunks->text, {"optimal"}))
      problems.error(chunks->where(), fmt::format("'chunks' must be a whole number or optimal; found {}; did you mean "
                                                  "'optimal'?",
                                                  describe(*chunks)));
    else
      question.method.chunks = read_integer(problems, *chunks, "'chunks'", kCount).value_or(100);
  }
  question.planner = top.get("planner", fields::name_of("planner"), std::optional(question.planner), question.planner);
  question.seed = std::uint64_t(top.integer("seed", {0, INT64_MAX}, 0));
  question.split = top.boolean("split", false);
  if (question.split && question.planner != "best")
    problems.error(top.at("split"), "'split' needs 'planner: best'; other planners send tasks whole");
  read_link(problems, top, question);

  const Node* tensor = tasks ? top.find("tensor") : top.require("tensor", "a mapping with 'shape' and 'dtype'");
  MapReader map(problems, tensor, "tensor", root);
  const Node* shape_node = nullptr;
  std::vector<std::int64_t> shape;
  if (!tasks && tensor) {
    shape_node = map.require("shape", "a list of whole numbers, one per dimension");
    shape = read_numbers(problems, shape_node, "'shape'", kExtent);
    if (shape.size() > kMostDimensions) {
      problems.error(shape_node->where(), fmt::format("'shape' has more than {} dimensions", kMostDimensions));
      shape.clear();
    }
  }
  question.method.element_bytes = map.choice<std::int64_t>(
      "dtype",
      {{"fp64", 8}, {"fp32", 4}, {"fp16", 2}, {"bf16", 2}, {"fp8", 1}, {"int64", 8}, {"int32", 4}, {"int8", 1}}, {}, 4);
  if (!map.given("dtype")) question.assumptions.push_back("tensor.dtype = fp32 is assumed.");
  map.finish();

  if (!tasks) {
    read_resharding(problems, top, question, shape_node, shape);
  } else {
    for (const char* key : {"source", "destination", "nic"})
      if (top.given(key)) {
        top.find(key);
        problems.error(
            top.at(key),
            fmt::format("'{}' is for tensors on meshes; leave it out, because 'tasks' name their NICs", key));
      }
    if (question.method.strategy != broadcast && question.method.strategy != automatic)
      problems.error(top.at("strategy"), "a list of 'tasks' can only be broadcast; set 'strategy' to broadcast");
    if (const Node* list = top.find("tasks")) read_tasks(problems, *list, question);
  }
  top.finish();
  return question;
}

bool is_reshard(const Node& root) {
  if (root.kind != Node::Kind::map || root.find("version")) return false;
  const Node* source = root.find("source");  // as opposed to the citation `source` of a part, which is a text
  return root.find("tasks") || root.find("destination") || (source && source->kind == Node::Kind::map);
}

reshard::Question load_reshard(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  auto question = root ? read_reshard(context, path, *root) : reshard::Question{};
  context.problems.throw_if_any();
  for (const auto& w : context.problems.warnings()) question.warnings.push_back(w.message);
  return question;
}

}  // namespace rehearsal::scenario
