// The parts of an HTML document.
#pragma once
#include <string>
#include <string_view>

#include "page/svg.hpp"

namespace rehearsal::page {

extern const std::string_view kStyle, kScript;  // sim/page/page.css and page.js

// JSON in which nothing ends a script.
std::string in_script(std::string json);

// A zoomable timeline: boxes as paths in one plane, and their numbers for the script.
std::string html_timeline(const Drawing& drawing, const std::string& title);

}  // namespace rehearsal::page
