#include "interchange/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/program.hpp"
#include "interchange/conclude.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "scenario/check.hpp"

namespace rehearsal::interchange {

const Registry& registry() {
  static const Registry kRegistry = [] {
    Registry all("format");
    register_all(all);
    return all;
  }();
  return kRegistry;
}

std::vector<const Format*> formats_of(const Source& source) {
  std::vector<const Format*> all;
  for (const auto& [name, format] : registry())
    if (format.recognises && format.recognises(source)) all.push_back(&format);
  return all;
}

namespace {

// What programs are, which say a configuration only while they run, and what to run to get it.
[[noreturn]] void refuse(const Source& source) {
  const auto is = [&source](std::string_view word) { return source.begins_with_line(word, 40); };
  std::string message =
      "no format of `rehearse list formats` knows this file by its content; --as NAME says what it is";
  if (source.kind == Source::Kind::arguments)
    message =
        "no arguments that tell a model: give all that the trainer gets, --num-layers, --hidden-size and the others of "
        "Megatron-LM";
  else if (source.has({"version", "parallelism"}) && (source.find("model") || source.find("costs")))
    message = "is a scenario already: `rehearse run` takes it as it is, and --set changes it there";
  else if (source.text.starts_with("\x1f\x8b"))
    message =
        "is compressed: unpack it first (gunzip); a profiler's trace goes to `rehearse validate --trace` as it is";
  else if (source.begins_with_line("\"traceEvents\"", 2000))
    message =
        "a profiler's trace, of what ran and not of what was trained: `rehearse validate SCENARIO --trace FILE` sets a "
        "prediction beside it, `rehearse calibrate --from FILE` makes a profile of its GPU";
  else if (is("#!/bin/bash") || is("#!/usr/bin/env bash") || is("#!/bin/sh") || is("#SBATCH") ||
           source.name.ends_with(".sh"))
    message =
        "a shell script is a program: what it trains is known when it runs. Give what it hands to the trainer, "
        "`rehearse import -- ARGUMENTS` (put `echo` before torchrun or srun to see them), or the log of a run, which "
        "begins with all arguments";
  else if (is("import torch") || is("from megatron") || is("from nemo") || is("from torchtitan") ||
           source.name.ends_with(".py"))
    message =
        "a recipe in Python is a program: what it trains is known when it runs. Give the configuration that it "
        "resolves to: run_config.yaml of a checkpoint (Megatron-Bridge, NeMo), the file of --debug.save_config_file "
        "(torchtitan), or the log of a run";
  throw UserError({{{source.name, 0, 0}, message}});
}

const Format& format_of(const Source& source, const std::string& as) {
  if (!as.empty()) {
    const auto& format = registry().at(as);
    if (!format.read) throw UserError(fmt::format("--as {}: {} is written, and not read", as, format.title));
    return format;
  }
  const auto all = formats_of(source);
  if (all.empty()) refuse(source);
  if (all.size() > 1) {
    std::vector<std::string> names;
    for (const auto* format : all) names.push_back(format->name);
    throw UserError({{{source.name, 0, 0}, fmt::format("may be {}; --as says which", fmt::join(names, " or "))}});
  }
  return *all.front();
}

// Errors of the scenario that was made, with the origins of the values on their lines.
std::vector<Diagnostic> at_origin(const std::vector<Diagnostic>& errors, const std::string& name,
                                  const std::string& yaml) {
  const auto lines = lines_of(yaml);
  std::vector<Diagnostic> all;
  for (const auto& [where, message] : errors) {
    auto text = message;
    if (where.file == name && where.line > 0 && std::size_t(where.line) <= lines.size()) {
      std::string_view line = lines[std::size_t(where.line) - 1].text;
      while (line.starts_with(' ')) line.remove_prefix(1);
      const auto comment = line.find(" # ");
      if (comment != line.npos) {
        auto value = line.substr(0, comment);
        while (value.ends_with(' ')) value.remove_suffix(1);
        text += fmt::format(" ({}, {})", value, line.substr(comment + 3));
      } else {
        text += fmt::format(" ({})", line);
      }
    }
    all.push_back(
        {{where.file == name ? "" : where.file, where.file == name ? 0 : where.line, where.column}, printable(text)});
  }
  return all;
}

// The keys below `cluster:` as those of a file, each on its own line.
std::string below_cluster(std::string_view yaml) {
  std::string all;
  for (const auto& line : lines_of(yaml)) all += (line.text.starts_with("  ") ? line.text.substr(2) : "") + "\n";
  return all;
}

// "{lognormal: [6, 1]}" is YAML, as --set takes it elsewhere.
Json value_of(Sources& sources, const std::string& set, std::string_view text) {
  if (const auto value = Json::read(std::string(text))) return *value;
  if (text.starts_with('{') || text.starts_with('['))
    if (const auto* node = sources.text("--set " + set, fmt::format("value: {}\n", text)).find("value"))
      return json_of(*node);
  return std::string(text);
}

// What files say below a key would go before it without a word.
void refuse_hidden(const ScenarioDraft& draft) {
  std::vector<Diagnostic> errors;
  for (const auto& [key, given] : draft.keys())
    if (const auto below = draft.keys().lower_bound(key + ".");
        below != draft.keys().end() && below->first.starts_with(key + "."))
      errors.push_back({given.origin.where, fmt::format("'{}' has keys below it, such as '{}' ({}); say these", key,
                                                        below->first, to_text(below->second.origin))});
  if (!errors.empty()) throw UserError(std::move(errors));
}

// What a scenario is called if no file says it: as the first file, or as the folder of a config.json.
std::string title_of(const std::string& file) {
  const std::filesystem::path path(file);
  return path.stem() == "config" ? path.parent_path().filename().string() : path.stem().string();
}

}  // namespace

Imported import(const Asked& asked, const scenario::Files& files) {
  Imported imported;
  auto& draft = imported.draft;
  Sources sources(files);
  std::vector<std::string> names;
  const auto read = [&](const Source& source) {
    const auto& format = format_of(source, asked.as);
    format.read(sources, source, draft);
    imported.formats.push_back(format.name);
    names.push_back(fmt::format("{} ({})", source.name, format.title));
  };
  for (const auto& file : asked.files) read(sources.read(file));
  if (!asked.arguments.empty()) read(sources.arguments(asked.arguments));

  const scenario::Node option = [] {
    static const std::string kWorld = "--world";
    scenario::Node node;
    node.origin = &kWorld;
    return node;
  }();
  if (asked.world) draft.say(Fact::world, *asked.world, option);
  if (!asked.cluster.empty()) {
    // What files say of its parts stays.
    if (draft.find("cluster.gpu")) draft.remove("cluster.gpu");
    draft.set("cluster.use", asked.cluster, "--cluster");
  }
  for (const auto& set : asked.sets) {
    const auto equals = set.find('=');
    if (equals == set.npos || equals == 0) throw UserError(fmt::format("--set {}: write KEY=VALUE", set));
    // A model by name has a sequence of its own; that of the run stays.
    if (const auto* sequence = draft.find("model.sequence"); sequence && set.starts_with("model="))
      draft.derive("batch.sequence", *sequence, to_text(*draft.origin("model.sequence")));
    draft.set(set.substr(0, equals), value_of(sources, set, std::string_view(set).substr(equals + 1)), "--set " + set);
  }
  imported.part = is_of_machine_alone(draft);
  const auto title = asked.files.empty() ? std::string() : title_of(asked.files.front());
  if (!imported.part && !draft.keys().empty() && !draft.has("name") && !title.empty())
    draft.derive("name", title, "the name of the first file");
  conclude(draft, files);
  refuse_hidden(draft);

  imported.yaml =
      to_yaml(draft, fmt::format("# Made by rehearse {} import from {}.\n# Behind each value: where it is from.\n",
                                 program_version(), printable(fmt::format("{}", fmt::join(names, ", ")))));
  // A cluster is checked as a file of configs/clusters is.
  const std::string name = imported.part ? "clusters/imported.yaml" : kImported;
  auto checked = scenario::check(
      name, {}, scenario::LaidOver({{name, imported.part ? below_cluster(imported.yaml) : imported.yaml}}, files));
  if (!checked.ok()) {
    auto errors = at_origin(checked.errors, name, imported.yaml);
    errors.insert(errors.begin(), {{}, "these files make a scenario that is refused:"});
    throw UserError(std::move(errors));
  }
  imported.scenario = std::move(checked.scenario);
  imported.warnings = at_origin(checked.warnings, name, imported.yaml);
  return imported;
}

}  // namespace rehearsal::interchange
