// Arguments of Megatron-LM as somebody types them, and as its functional tests have them: MODEL_ARGS and ENV_VARS in
// YAML. Those of NeMo among these tests set fields of a recipe by dotted names.
#include <fmt/format.h>

#include <array>
#include <cctype>

#include "base/error.hpp"
#include "interchange/format.hpp"
#include "interchange/megatron/arguments.hpp"
#include "interchange/megatron/write.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

struct Line {
  std::vector<std::string> words;
  std::vector<int> lines;
};

// A file of arguments, as `rehearse export --as megatron` writes it, or with the \\ of a shell at the end of lines.
Line line_of(std::string_view text) {
  Line all;
  std::string word;
  int line = 1;
  for (const char c : std::string(text) + "\n") {
    if (!std::isspace(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (!word.empty() && word != "\\") all.words.push_back(word), all.lines.push_back(line);
    word.clear();
    line += c == '\n';
  }
  return all;
}

// Arguments that any run of it has, behind whatever launches it.
bool has_known(const std::vector<std::string>& words) {
  static constexpr std::array<std::string_view, 8> kWords{
      "--num-layers",           "--hidden-size",       "--num-attention-heads",        "--micro-batch-size",
      "--hybrid-layer-pattern", "--global-batch-size", "--tensor-model-parallel-size", "--use-mcore-models"};
  for (const auto& word : words)
    for (const auto known : kWords)
      if (word == known || word.starts_with(std::string(known) + "=")) return true;
  return false;
}

bool recognises(const Source& source) {
  if (source.kind == Source::Kind::arguments) return has_known(source.words);
  if (source.tree) return source.find("MODEL_ARGS") != nullptr;
  const auto first = source.text.find_first_not_of(" \t\r\n");
  return source.kind == Source::Kind::text && first != std::string::npos && source.text.compare(first, 2, "--") == 0 &&
         source.text.size() < (1 << 20) && has_known(line_of(source.text).words);
}

// "trainer.strategy.tensor_model_parallel_size", "model.config.num_layers".
void add_recipe(MegatronArguments& arguments, const Node& map) {
  for (const auto& [key, value] : map.entries) {
    const auto& name = key->text;
    if (name == "trainer.num_nodes")
      arguments.add_environment("NNODES", *value);
    else if (name == "trainer.devices")
      arguments.add_environment("GPUS_PER_NODE", *value);
    else if (name.starts_with("trainer.") && !name.starts_with("trainer.strategy."))
      continue;
    else if (!name.starts_with("log."))
      arguments.add(name.substr(name.rfind('.') + 1), *value, name);
  }
}

void read_tests(Sources& sources, const Source& source, ScenarioDraft& draft) {
  const Node& map = *source.find("MODEL_ARGS");
  if (map.kind != Node::Kind::map) wrong(map, "MODEL_ARGS is empty: nothing is trained with it");
  MegatronArguments arguments(sources, source.name);
  arguments.typed = !map.entries.empty() && map.entries.front().key->text.starts_with("--");
  arguments.configuration = arguments.partial = !arguments.typed;
  const Node* mode = source.find("MODE");
  if (mode && mode->text == "inference") wrong(*mode, "MODE is inference: a scenario is a step of training");
  if (arguments.typed)
    add_mapping(arguments, map);
  else
    add_recipe(arguments, map);
  if (arguments.partial)
    draft.no_word(map.where(), "what the recipe sets that these change",
                  "a recipe is a program; run_config.yaml of a checkpoint has all of it");
  if (const Node* variables = source.find("ENV_VARS"); variables && variables->kind == Node::Kind::map)
    for (const auto& [key, value] : variables->entries)
      if (value->kind == Node::Kind::scalar) arguments.add_environment(key->text, *value);
  read_megatron(arguments, draft);
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  if (source.find("MODEL_ARGS")) return read_tests(sources, source, draft);
  MegatronArguments arguments(sources, source.name);
  arguments.typed = true;
  if (source.kind == Source::Kind::arguments) {
    add_command(arguments, source.words);
  } else {
    const auto line = line_of(source.text);
    add_command(arguments, line.words, line.lines);
  }
  read_megatron(arguments, draft);
}

}  // namespace

void register_megatron(Registry& registry) {
  registry.add(
      {.name = "megatron",
       .title = "arguments of Megatron-LM",
       .summary = "arguments of Megatron-LM behind -- or in a file, or MODEL_ARGS of its tests: all but the machine",
       .recognises = recognises,
       .read = read,
       .write = write_megatron});
}

}  // namespace rehearsal::interchange
