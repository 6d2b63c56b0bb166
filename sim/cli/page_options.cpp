#include "cli/page_options.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

// Quoted for a shell.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

OptionList with_page_options(OptionList own, PageOptions& to, std::string_view svg_is,
                             const std::vector<std::string>& pictures) {
  own.push_back({"html", "FILE", "write the answer as one page for a browser: figures, pictures, tables", &to.html});
  own.push_back({"svg", "FILE", std::string(svg_is), &to.svg});
  if (!pictures.empty())
    own.push_back({"picture", "NAME", fmt::format("with --svg: only this one of {}", fmt::join(pictures, ", ")),
                   &to.picture, false, pictures});
  return own;
}

std::vector<SideOutput> page_outputs(const PageOptions& options) {
  return {{"--html", options.html}, {"--svg", options.svg}};
}

void check_page_options(const PageOptions& options) {
  if (!options.picture.empty() && options.svg.empty())
    throw UserError("--picture says what --svg FILE draws; give it one");
}

void write_pages(const CommonOptions& common, const PageOptions& options, const std::function<page::Page()>& make) {
  if (!options.any()) return;
  const auto page = make();
  // Both are rendered before either is written.
  const auto svg = options.svg.empty() ? "" : page::svg(page, options.picture);
  if (!options.html.empty()) write_file(common, options.html, page::html(page));
  if (!options.svg.empty()) write_file(common, options.svg, svg);
}

void check_outputs(const CommonOptions& common, const PageOptions& pages, const std::vector<ResultFile>& files,
                   const std::vector<std::string>& inputs, std::vector<SideOutput> more) {
  check_page_options(pages);
  for (const auto& output : page_outputs(pages)) more.push_back(output);
  for (const auto& file : files) more.push_back({file.option, file.path});
  check_outputs(common, more, inputs);
}

void write_files(const CommonOptions& common, const std::vector<ResultFile>& files, const answer::Result& result) {
  for (const auto& file : files)
    if (!file.path.empty())
      write_streamed(common, file.path, [&](const report::Sink& sink) { file.write(result, sink); });
}

report::Asked as_asked(const Session& session, std::string_view command, const Arguments& arguments,
                       const std::string& file) {
  constexpr std::size_t kMostShown = 256 << 10;
  report::Asked asked{fmt::format("rehearse {}", command), ""};
  for (const auto& word : arguments) asked.command += " " + shell_word(word);
  std::error_code unknown;
  if (std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown)) return asked;
  try {  // a pipe is read once, and what is too long is not shown
    if (session.files().exists(file)) asked.scenario = session.files().read(file, kMostShown);
  } catch (const UserError&) {
  }
  return asked;
}

}  // namespace rehearsal::cli
