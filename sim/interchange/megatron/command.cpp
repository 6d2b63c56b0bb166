// A command line: variables, a launcher with its own options, the trainer and its arguments.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.hpp"
#include "interchange/megatron/arguments.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

bool is_variable(std::string_view word) {
  const auto equals = word.find('=');
  return equals != word.npos && equals > 0 && !word.starts_with('-') &&
         std::all_of(word.begin(), word.begin() + std::ptrdiff_t(equals),
                     [](unsigned char c) { return std::isupper(c) || std::isdigit(c) || c == '_'; });
}

bool is_trainer(std::string_view word) {
  return word.ends_with(".py") && word.find("torch/distributed") == word.npos && word.find("torchrun") == word.npos;
}

// "-1" is a value, and so is "-0.5".
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) && word[1] != '.';
}

std::string_view script_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Options of launchers that say how many processes there are, by what they say. srun's -n is all tasks, and so is
// mpirun's -np; with one process a GPU, as Megatron-LM is started, these are GPUs.
struct LauncherOption {
  std::string_view word, variable;
};
constexpr std::array kLauncherOptions{
    LauncherOption{"--nproc_per_node", "GPUS_PER_NODE"},
    LauncherOption{"--nproc-per-node", "GPUS_PER_NODE"},
    LauncherOption{"--ntasks-per-node", "GPUS_PER_NODE"},
    LauncherOption{"--gpus-per-node", "GPUS_PER_NODE"},
    LauncherOption{"--nnodes", "NNODES"},
    LauncherOption{"--nodes", "NNODES"},
    LauncherOption{"-N", "NNODES"},
    LauncherOption{"--ntasks", "WORLD_SIZE"},
    LauncherOption{"-n", "WORLD_SIZE"},
    LauncherOption{"-np", "WORLD_SIZE"},
    LauncherOption{"--np", "WORLD_SIZE"},
};

class MegatronCommand {
 public:
  MegatronCommand(MegatronArguments& arguments, const std::vector<std::string>& words, const std::vector<int>& lines)
      : arguments_(arguments), words_(words), lines_(lines) {}

  void read() {
    std::size_t begin = 0;
    // The trainer is the first script, or the module behind -m that is not torch's own launcher.
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const bool module =
          i > 0 && words_[i - 1] == "-m" && !words_[i].starts_with("torch.distributed") && words_[i] != "torchrun";
      if (!is_trainer(words_[i]) && !module) continue;
      arguments_.script = std::string(script_of(words_[i]));
      begin = i + 1;
      break;
    }
    for (std::size_t i = 0; i < begin; ++i) launch(i);
    while (begin < words_.size() && is_variable(words_[begin])) variable(begin++);
    train(begin);
  }

 private:
  int line_of(std::size_t i) const { return i < lines_.size() ? lines_[i] : 0; }
  const Node& text(std::string of, std::size_t i) { return arguments_.value(std::move(of), line_of(i)); }

  void variable(std::size_t i) {
    const auto& word = words_[i];
    const auto equals = word.find('=');
    arguments_.add_environment(word.substr(0, equals), text(word.substr(equals + 1), i));
  }

  void launch(std::size_t i) {
    const auto& word = words_[i];
    if (is_variable(word)) return variable(i);
    for (const auto& [option, name] : kLauncherOptions) {
      std::string value;
      if (word == option && i + 1 < words_.size()) value = words_[i + 1];
      if (word.starts_with(std::string(option) + "=")) value = word.substr(option.size() + 1);
      // torchrun counts devices itself for "gpu" and "auto", and takes from 1 to 4 nodes for "1:4".
      if (!value.empty() && value != "gpu" && value != "auto" && value.find(':') == value.npos)
        arguments_.add_environment(name, text(value, i));
    }
  }

  void train(std::size_t i) {
    for (; i < words_.size(); ++i) {
      auto word = words_[i];
      if (!word.starts_with("--") || word.size() < 3)
        throw UserError(
            {{arguments_.value("", line_of(i)).where(),
              printable(fmt::format(
                  "'{}' is no argument of Megatron-LM, which begin with --; give what stands behind the trainer's "
                  "name, or the whole command with torchrun or python in front",
                  word))}});
      if (word.starts_with("--nproc") || word.starts_with("--nnodes")) {  // torchrun's, without torchrun
        launch(i);
        if (word.find('=') == word.npos) ++i;
        continue;
      }
      if (const auto equals = word.find('='); equals != word.npos) {
        arguments_.add(word.substr(0, equals), text(word.substr(equals + 1), i), word.substr(0, equals));
        continue;
      }
      std::vector<const Node*> values;
      while (i + 1 < words_.size() && !is_option(words_[i + 1])) ++i, values.push_back(&text(words_[i], i));
      if (values.empty()) {
        arguments_.add(word, text("true", i), word);
      } else if (values.size() == 1) {
        arguments_.add(word, *values.front(), word);
      } else {
        Node* list = arguments_.sources().make(Node::Kind::sequence, *values.front()->origin, values.front()->line,
                                               values.front()->column);
        list->items = values, list->size = values.size() + 1;
        arguments_.add(word, *list, word);
      }
    }
  }

  MegatronArguments& arguments_;
  const std::vector<std::string>& words_;
  const std::vector<int>& lines_;
};

}  // namespace

void add_command(MegatronArguments& arguments, const std::vector<std::string>& words, const std::vector<int>& lines) {
  MegatronCommand(arguments, words, lines).read();
}

}  // namespace rehearsal::interchange
