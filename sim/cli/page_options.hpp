// --html, --svg and --picture: the answer of a command as a document or as pictures, beside its report.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.hpp"
#include "cli/output_files.hpp"
#include "page/page.hpp"
#include "report/run_page.hpp"

namespace rehearsal::cli {

struct PageOptions {
  std::string html, svg, picture;
  bool any() const { return !html.empty() || !svg.empty(); }
};

// A command's own options, and these after them. `svg_is`: what --svg draws, for its help. `pictures`: the names that
// --picture takes; none: it is not there.
OptionList with_page_options(OptionList own, PageOptions& to, std::string_view svg_is,
                             const std::vector<std::string>& pictures = {});

// For check_outputs.
std::vector<SideOutput> page_outputs(const PageOptions& options);

// Throws UserError: --picture without --svg.
void check_page_options(const PageOptions& options);

// Makes the page once, and writes what was asked for.
void write_pages(const PageOptions& options, const std::function<page::Page()>& page);

// What was asked, for the last section of a page: the command line, and the file (nothing where that cannot be read).
report::Asked as_asked(std::string_view command, const Arguments& arguments, const std::string& file);

}  // namespace rehearsal::cli
