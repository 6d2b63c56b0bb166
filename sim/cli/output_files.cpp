#include "cli/output_files.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

namespace fs = std::filesystem;

bool is_standard(const std::string& path) { return path.empty() || path == "-"; }

// Whether two names refer to the same regular file, existing or to be created, after following links.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;
  const bool exist = fs::exists(a, unknown) && fs::exists(b, unknown);
  if (exist) return fs::is_regular_file(a, unknown) && fs::equivalent(a, b, unknown);
  return fs::weakly_canonical(fs::absolute(a), unknown) == fs::weakly_canonical(fs::absolute(b), unknown);
}

void check_apart(const SideOutput& a, const SideOutput& b) {
  if (is_standard(a.path) && is_standard(b.path))
    throw UserError(
        fmt::format("{} and {} would be mixed on standard output; give one of them a file", a.option, b.option));
  if (!is_standard(a.path) && !is_standard(b.path) && same_file(a.path, b.path))
    throw UserError(fmt::format("{} and {} name the same file '{}'; give each its own", a.option, b.option, a.path));
}

}  // namespace

void check_outputs(const CommonOptions& common, const std::vector<SideOutput>& more,
                   const std::vector<std::string>& inputs) {
  std::vector<SideOutput> outputs;
  for (const auto& output : more)
    if (!output.path.empty()) outputs.push_back(output);
  outputs.push_back({is_standard(common.output) ? "the report" : "--output", common.output});
  for (std::size_t i = 0; i < outputs.size(); i++) {
    const auto& [option, path] = outputs[i];
    for (std::size_t j = i + 1; j < outputs.size(); j++) check_apart(outputs[i], outputs[j]);
    if (is_standard(path)) continue;
    for (const auto& input : inputs)
      if (!is_standard(input) && same_file(path, input))
        throw UserError(fmt::format("{} '{}' is what this command reads and would be overwritten; name another file",
                                    option, path));
    AtomicFile::check(common.session, path, option);
  }
}

}  // namespace rehearsal::cli
