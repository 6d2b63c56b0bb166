// The arguments of Megatron-LM (megatron/training/arguments.py), in whichever form they come: as typed, as YAML of its
// tests, as the table that a log begins with, as the configuration of Megatron-Bridge and NeMo, as Primus has them.
// Each form becomes one mapping of argparse's names, whose values know their lines; what these mean is read once.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "interchange/draft.hpp"
#include "interchange/keys.hpp"
#include "interchange/source.hpp"

namespace rehearsal::interchange {

class MegatronArguments {
 public:
  // `origin`: the name of the source, which outlives this.
  MegatronArguments(Sources& sources, const std::string& origin);

  // "--num-layers", "num_layers", or another of its names; `word`: how the file spells it. What is said again replaces
  // what was said.
  void add(std::string_view name, const scenario::Node& value, const std::string& word);
  // Only where nothing said it yet.
  void add_default(std::string_view name, const scenario::Node& value, const std::string& word);
  void add_environment(std::string_view variable, const scenario::Node& value);

  // A value that no line of the file is.
  const scenario::Node& value(std::string text, int line = 0);

  const scenario::Node* find(std::string_view name) const { return values_->find(name); }
  const scenario::Node* values() const { return values_; }
  const scenario::Node* environment() const { return environment_; }
  std::string spelled(std::string_view name) const;
  Sources& sources() const { return sources_; }

  bool typed = false;                               // the words are arguments, with dashes
  Keys::Listed listed = Keys::Listed::what_is_set;  // everything: with what argparse or a recipe made of defaults
  bool configuration = false;                       // fields of TransformerConfig and its like, not arguments
  bool partial = false;                             // what is not said is a recipe's, and not argparse's default
  std::string script = {};                          // pretrain_bert.py, where it is said

 private:
  Sources& sources_;
  const std::string& origin_;
  scenario::Node *values_, *environment_;
  std::map<std::string, std::string, std::less<>> words_;
};

// What somebody types behind torchrun, srun, mpirun or python, with them or without: arguments of the launcher say how
// many GPUs there are, and variables before it are the environment.
// `lines`: of each word, where they are of a file.
void add_command(MegatronArguments& arguments, const std::vector<std::string>& words,
                 const std::vector<int>& lines = {});

// A mapping of arguments, "--num-layers: 32".
void add_mapping(MegatronArguments& arguments, const scenario::Node& map);

// What all that says of a scenario.
void read_megatron(const MegatronArguments& arguments, ScenarioDraft& draft);

}  // namespace rehearsal::interchange
