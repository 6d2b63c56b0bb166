// --html, --svg and --picture: the result of a command as a document or as pictures, besides its report.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.hpp"
#include "cli/output_files.hpp"
#include "page/page.hpp"
#include "report/perfetto.hpp"
#include "report/run_page.hpp"

namespace rehearsal::cli {

struct PageOptions {
  std::string html, svg, picture;
  bool any() const { return !html.empty() || !svg.empty(); }
};

// A command's own options followed by these. `svg_is`: what --svg draws, for its help. `pictures`: the names for
// --picture; if empty, the option does not exist.
OptionList with_page_options(OptionList own, PageOptions& to, std::string_view svg_is,
                             const std::vector<std::string>& pictures = {});

// Arguments for check_outputs.
std::vector<SideOutput> page_outputs(const PageOptions& options);

// Throws UserError for --picture without --svg.
void check_page_options(const PageOptions& options);

// Builds the page once, and writes the requested files.
void write_pages(const CommonOptions& common, const PageOptions& options, const std::function<page::Page()>& page);

// A file in which a command writes its result in another form: the option that names it.
struct ResultFile {
  std::string option, path;
  void (*write)(const answer::Result&, const report::Sink&);
};
// check_outputs() for these, the pages and `more`.
void check_outputs(const CommonOptions& common, const PageOptions& pages, const std::vector<ResultFile>& files,
                   const std::vector<std::string>& inputs, std::vector<SideOutput> more = {});
// Those that were asked for.
void write_files(const CommonOptions& common, const std::vector<ResultFile>& files, const answer::Result& result);

// The request, for the last section of a page: the command line, and the file's text (empty if it cannot be read).
report::Asked as_asked(const Session& session, std::string_view command, const Arguments& arguments,
                       const std::string& file);

}  // namespace rehearsal::cli
