#include "interchange/xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "scenario/diagnostics.hpp"

namespace rehearsal::interchange {
namespace {

class Xml {
 public:
  Xml(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Element root() {
    between();
    if (!looking_at("<")) wrong("an element must begin here");
    auto root = element(0);
    between();
    if (at_ < text_.size()) wrong("there is more than one root");
    return root;
  }

 private:
  static constexpr int kDeepest = 64;

  [[noreturn]] void wrong(const std::string& what) const {
    throw UserError({{{name_, line_, 0}, printable("not valid XML: " + what)}});
  }
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  void skip(std::size_t count) {
    for (const char c : text_.substr(at_, count)) line_ += c == '\n';
    at_ = std::min(at_ + count, text_.size());
  }
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) skip(1);
  }
  void past(std::string_view end) {
    const auto found = text_.find(end, at_);
    if (found == text_.npos) wrong(fmt::format("'{}' is missing", end));
    skip(found + end.size() - at_);
  }
  // Space, comments, declarations.
  void between() {
    for (;;) {
      space();
      if (looking_at("<!--"))
        past("-->");
      else if (looking_at("<?"))
        past("?>");
      else if (looking_at("<!"))
        past(">");
      else
        return;
    }
  }
  std::string word() {
    const auto begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  std::string_view("_-.:").find(text_[at_]) != std::string_view::npos))
      ++at_;
    if (at_ == begin) wrong("a name must stand here");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string value() {
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '"' && quote != '\'') wrong("the value of an attribute must be in quotes");
    const auto end = text_.find(quote, at_ + 1);
    if (end == text_.npos) wrong("a quote is not closed");
    std::string all(text_.substr(at_ + 1, end - at_ - 1));
    skip(end + 1 - at_);
    static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&amp;", "&"}};
    for (const auto& [entity, plain] : kEntities)
      for (auto at = all.find(entity); at != all.npos; at = all.find(entity, at + 1))
        all.replace(at, entity.size(), plain);
    return all;
  }
  Element element(int depth) {
    if (depth > kDeepest) wrong(fmt::format("elements are nested deeper than {}", kDeepest));
    Element one;
    one.line = line_;
    skip(1);
    one.name = word();
    for (;;) {
      space();
      if (looking_at("/>")) return skip(2), one;
      if (looking_at(">")) break;
      const auto key = word();
      space();
      if (!looking_at("=")) wrong(fmt::format("attribute '{}' has no value", key));
      skip(1), space();
      if (!one.attributes.emplace(key, value()).second) wrong(fmt::format("attribute '{}' is there twice", key));
    }
    skip(1);
    for (;;) {
      between();
      if (looking_at("</")) {
        skip(2);
        if (const auto closed = word(); closed != one.name)
          wrong(fmt::format("'{}' of line {} is closed as '{}'", one.name, one.line, closed));
        space();
        if (!looking_at(">")) wrong("'>' is missing");
        return skip(1), one;
      }
      if (!looking_at("<"))
        wrong(at_ < text_.size() ? "text between elements" : fmt::format("'{}' is not closed", one.name));
      one.children.push_back(element(depth + 1));
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::string_view Element::attribute(std::string_view key) const {
  const auto found = attributes.find(key);
  return found == attributes.end() ? std::string_view() : std::string_view(found->second);
}

Element read_xml(std::string_view text, const std::string& name) { return Xml(text, name).root(); }

}  // namespace rehearsal::interchange
