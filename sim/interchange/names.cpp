#include "interchange/names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "scenario/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::interchange {
namespace {

// Letters and digits, in small letters.
std::string squeezed(std::string_view name) {
  std::string all;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) all += char(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

// What may follow a model's name without making it another one.
bool harmless(std::string_view rest) {
  static constexpr auto kEndings =
      std::to_array<std::string_view>({"instruct", "base", "chat", "hf", "it", "thinking", "fp8", "fp16", "bf16", "pt",
                                       "nvfp4", "preview", "v1", "pretrain", "sft", "dynamic", "dequantized"});
  while (!rest.empty()) {
    const auto ending =
        std::find_if(kEndings.begin(), kEndings.end(), [rest](const auto e) { return rest.starts_with(e); });
    if (ending != kEndings.end()) {
      rest.remove_prefix(ending->size());
    } else if (rest.size() >= 4 &&
               std::all_of(rest.begin(), rest.begin() + 4, [](unsigned char c) { return std::isdigit(c); })) {
      rest.remove_prefix(4);  // a date
    } else {
      return false;
    }
  }
  return true;
}

class Names {
 public:
  explicit Names(const scenario::Files& files) : documents_(problems_, files) {
    root_ = documents_.read_file(files.home() + "/configs/names.yaml");
    problems_.throw_if_any();
  }
  const scenario::Node* find(std::string_view key) const { return root_->find(key); }

 private:
  scenario::Diagnostics problems_;
  scenario::Documents documents_;
  const scenario::Node* root_ = nullptr;
};

}  // namespace

std::optional<std::string> model_named(std::string_view name, const scenario::Files& files) {
  const Names names(files);
  while (name.ends_with('/')) name.remove_suffix(1);
  const auto asked = squeezed(name.substr(name.rfind('/') + 1));
  if (asked.empty()) return {};
  for (const auto& [ours, others] : names.find("models")->entries) {
    if (squeezed(ours->text) == asked) return ours->text;
    for (const auto* other : others->items) {
      const auto known = squeezed(other->text);
      if (asked.starts_with(known) && harmless(std::string_view(asked).substr(known.size()))) return ours->text;
    }
  }
  return {};
}

std::optional<std::string> cluster_with(std::string_view gpu, const scenario::Files& files) {
  const Names names(files);
  std::string words = "-";  // each between dashes
  for (const char c : gpu) words += std::isalnum(static_cast<unsigned char>(c)) ? char(std::toupper(c)) : '-';
  words += '-';
  for (const auto* row : names.find("gpus")->items) {
    const auto& asked = row->find("words")->items;
    if (std::all_of(asked.begin(), asked.end(),
                    [&words](const auto* word) { return words.find("-" + word->text + "-") != words.npos; }))
      return row->find("cluster")->text;
  }
  return {};
}

std::optional<std::int64_t> of_model(const ScenarioDraft& draft, std::string_view key, const scenario::Files& files) {
  const Json* own = draft.find("model." + std::string(key));
  if (own && own->is_number()) return std::int64_t(own->real());
  if (own && own->is_array()) {  // runs of layers
    std::int64_t all = 0;
    for (const auto& run : own->items()) {
      const Json* repeat = run.find("repeat");
      const Json* several = run.find("layers");
      all += (repeat && repeat->is_number() ? std::int64_t(repeat->real()) : 1) *
             (several && several->is_array() ? std::int64_t(several->items().size()) : 1);
    }
    return all;
  }
  const Json* name = draft.find("model") ? draft.find("model") : draft.find("model.use");
  if (!name || !name->is_string() || !files.exists(files.home() + "/models/zoo/" + name->text() + ".yaml")) return {};
  const auto model = scenario::named_model(name->text(), files);
  return key == "layers" ? model.layers : model.hidden;
}

bool is_usual(std::string_view cluster, const scenario::Files& files) {
  const Names names(files);
  const auto& rows = names.find("gpus")->items;
  return std::any_of(rows.begin(), rows.end(),
                     [cluster](const auto* row) { return row->find("cluster")->text == cluster; });
}

std::string gpu_by_device(std::string_view device, const scenario::Files& files) {
  const Names names(files);
  const auto* name = names.find("pci")->find(device);
  return name ? name->text : "";
}

}  // namespace rehearsal::interchange
