// The interconnect inside a node (configs/interconnects), and the library that runs collectives over it
// (configs/libraries).
#include <fmt/format.h>

#include "base/spelling.hpp"
#include "cluster/fields.hpp"
#include "collective/registry.hpp"
#include "scenario/cluster_file.hpp"
#include "scenario/format.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kInterconnects = "configs/interconnects";
constexpr const char* kLibraries = "configs/libraries";

// Completes an inline mapping with the defaults of its kind.
const Node* over_assumed(Context& context, const Node& inline_mapping) {
  const Node* kind = inline_mapping.find("kind");
  if (!kind || kind->kind != Node::Kind::scalar) return &inline_mapping;  // the reader of `kind` reports it
  const auto path = fmt::format("{}/{}/assumed-{}.yaml", context.home, kInterconnects, kind->text);
  if (kind->text.find('/') != std::string::npos || !context.files.exists(path)) return &inline_mapping;
  const Node* base = context.documents.read_file(path);
  return base ? context.documents.overlay(base, &inline_mapping) : &inline_mapping;
}

}  // namespace

std::optional<cluster::Interconnect> load_interconnect(Context& context, const Node& node) {
  const auto before = context.problems.count();
  Part part = resolve(context, node, kInterconnects, "interconnect");
  if (!part.node) return std::nullopt;
  if (node.kind == Node::Kind::map && !part.base) part.node = over_assumed(context, node);
  Citations citations;
  MapReader map(context.problems, part.node, "interconnect", node);
  map.cite(citations, "");
  cluster::Interconnect links;
  links.name = part.name;
  for (const char* key : kAbout) map.find(key);
  map.fill(cluster::interconnect_fields(), &links);
  links.title = map.text("title", cluster::name(links.kind));
  links.basis = map.text("basis", "as it says itself");
  map.finish();
  if (context.problems.count() != before) return std::nullopt;
  links.sources = std::move(citations.sources);
  links.assumed = std::move(citations.assumed);
  return links;
}

const Node* said_interconnect(Context& context, const Node* links, MapReader* asked) {
  if (asked)
    for (const char* key : {"interconnect", "generation", "kind"}) asked->find(key);
  if (!links || links->kind != Node::Kind::map) return nullptr;
  const Node* generation = links->find("generation");
  if (generation && generation->kind == Node::Kind::map) generation = generation->find("value");
  if (generation && generation->kind == Node::Kind::scalar) {
    context.problems.warn(generation->where(),
                          fmt::format("'generation: {0}' is now 'interconnect: nvlink-{0}'", generation->text));
    return name_at(context, *generation, "nvlink-" + generation->text);
  }
  const Node* named = links->find("interconnect");
  const bool given = named && named->kind != Node::Kind::null;
  if (const Node* kind = links->find("kind")) {
    if (given) context.problems.error(kind->where(), "give either 'kind' or 'interconnect', not both");
    const auto which = read_value(context.problems, *kind, "'kind'", assumed_kinds());
    return which ? name_at(context, *kind, "assumed-" + std::get<std::string>(*which)) : nullptr;
  }
  return given ? named : nullptr;
}

std::optional<cluster::Interconnect> assumed_interconnect(Context& context, cluster::LinkKind kind, const Node& place) {
  return load_interconnect(context, *name_at(context, place, fmt::format("assumed-{}", cluster::name(kind))));
}

std::optional<cluster::Library> load_library(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, kLibraries, "collective library");
  if (!part.node) return std::nullopt;
  cluster::Library library;
  library.name = part.name;
  MapReader map(problems, part.node, "library", node);
  for (const char* key : kAbout) map.find(key);
  library.title = map.text("title", library.name);
  library.nccl_protocols = map.choice<bool>("protocols", {{"nccl", true}, {"none", false}}, {}, true);
  if (const Node* list =
          map.require("algorithms", "which algorithms it runs, such as {ring-all-reduce: {since: 2.0}}")) {
    MapReader algorithms(problems, *list, "algorithms");
    for (const auto& [algorithm, plugin] : collective::registry()) {
      const Node* said = algorithms.find(algorithm);
      if (!said) continue;
      MapReader entry(problems, *said, algorithm);
      const auto version = [&](std::string_view key, Version usual) {
        const Node* text = entry.find(key);
        return text ? read_version(problems, *text, in_quotes(key)).value_or(usual) : usual;
      };
      auto& into = library.algorithms[algorithm];
      entry.require("since", "a version such as 2.18");
      into.since = version("since", {});
      into.on_two_nodes = version("on_two_nodes", into.since);
      entry.finish();
    }
    algorithms.finish();
  }
  map.finish();
  if (problems.count() != before) return std::nullopt;
  return library;
}

std::optional<cluster::Library> library_of(Context& context, const cluster::Interconnect& links, const Node& place) {
  return load_library(context, *name_at(context, place, links.library));
}

cluster::Interconnect named_interconnect(const std::string& name, const Files& files) {
  Context context(files);
  const Node* node = context.documents.read_text(name, name);
  const auto links = node ? load_interconnect(context, *node) : std::nullopt;
  context.problems.throw_if_any();
  return *links;
}

std::vector<cluster::Library> named_libraries(const Files& files) {
  Context context(files);
  std::vector<cluster::Library> all;
  for (const auto& name : names_in(context, kLibraries))
    if (const Node* node = context.documents.read_text(name, name))
      if (auto library = load_library(context, *node)) all.push_back(std::move(*library));
  context.problems.throw_if_any();
  return all;
}

}  // namespace rehearsal::scenario
