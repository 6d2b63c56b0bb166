// What a document is put together from.
#pragma once
#include <string>
#include <string_view>

#include "page/svg.hpp"

namespace rehearsal::page {

extern const std::string_view kStyle, kScript;  // sim/page/page.css and page.js

// A timeline to zoom into: boxes as paths of one plane, and their numbers for the script.
std::string html_timeline(const Drawing& drawing, const std::string& title);

}  // namespace rehearsal::page
