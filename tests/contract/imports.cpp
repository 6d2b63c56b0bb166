// Files of other tools: every sample is known by one format, and by that which its folder says; what several formats
// say of one run is one scenario; bad files are refused with a cure.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "interchange/import.hpp"

namespace {

namespace fs = std::filesystem;
using namespace rehearsal;

std::vector<std::string> samples() {
  std::vector<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(std::string(TEST_DATA) + "/interchange"))
    if (entry.is_regular_file() && entry.path().filename() != "SOURCES") all.push_back(entry.path().string());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("every sample is known by one format") {
  std::size_t known = 0;
  for (const auto& file : samples()) {
    CAPTURE(file);
    interchange::Sources sources(scenario::disk());
    std::vector<std::string> names;
    try {
      for (const auto* format : interchange::formats_of(sources.read(file))) names.push_back(format->name);
    } catch (const UserError&) {
      continue;  // refused when it is read: a template
    }
    CHECK(names.size() <= 1);
    known += names.size();
  }
  CHECK(known > 60);
}

TEST_CASE("a format is read or written, and its name is in no other's way") {
  for (const auto& [name, format] : interchange::registry()) {
    CAPTURE(name);
    CHECK((format.read != nullptr || format.write != nullptr));
    CHECK((format.read == nullptr) == (format.recognises == nullptr));
    CHECK(!format.title.empty());
    CHECK(!format.summary.empty());
  }
}
