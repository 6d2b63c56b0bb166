// What configs/ and models/zoo/ hold, for `rehearse list`.
#include <fmt/format.h>

#include "base/spelling.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {

std::vector<Named> list(const std::string& kind) {
  const std::vector<std::pair<std::string, std::string>> folders = {{"models", "models/zoo"},
                                                                    {"clusters", "configs/clusters"},
                                                                    {"gpus", "configs/gpus"},
                                                                    {"software", "configs/software"}};
  std::vector<std::string> kinds;
  for (const auto& [name, folder] : folders) {
    kinds.push_back(name);
    if (name != kind) continue;
    const auto root = home();
    Diagnostics problems;
    Documents documents(problems);
    std::vector<Named> all;
    for (const auto& entry : names_in(root, folder)) {
      const Node* file = documents.read_file(root + "/" + folder + "/" + entry + ".yaml");
      if (!file) continue;
      MapReader map(problems, *file, kind);
      all.push_back({entry, map.text("summary", ""), map.text("source", "")});
    }
    problems.throw_if_any();
    return all;
  }
  throw UserError(fmt::format("cannot list {}{}", in_quotes(kind), suggestion(kind, kinds)));
}

}  // namespace rehearsal::scenario
