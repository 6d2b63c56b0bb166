// XML as NCCL writes it and reads it (src/graph/xml.cc): elements with attributes in quotes, and comments. No text
// between elements, no entities but the five of XML, no name spaces.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::interchange {

struct Element {
  std::string name;
  int line = 0;
  std::map<std::string, std::string, std::less<>> attributes = {};
  std::vector<Element> children = {};

  std::string_view attribute(std::string_view name) const;  // empty: it is not there
};

// The one root. Throws UserError with `name` and the line of what is wrong.
Element read_xml(std::string_view text, const std::string& name);

}  // namespace rehearsal::interchange
