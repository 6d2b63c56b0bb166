// Where the numbers of a description come from, by key. Written when a file is read, and from then on shared by all
// copies of the description: machines and frameworks are copied for every prediction, their citations are long.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace rehearsal {

class Sources {
 public:
  using Map = std::map<std::string, std::string>;

  Sources() = default;
  Sources(Map all) : all_(all.empty() ? nullptr : std::make_shared<Map>(std::move(all))) {}

  Map::const_iterator begin() const { return all().begin(); }
  Map::const_iterator end() const { return all().end(); }
  Map::const_iterator find(const std::string& key) const { return all().find(key); }
  std::size_t count(const std::string& key) const { return all().count(key); }
  const std::string& at(const std::string& key) const { return all().at(key); }
  // To be written; other copies keep what they have.
  std::string& operator[](const std::string& key) {
    if (!all_ || all_.use_count() > 1) all_ = std::make_shared<Map>(all());
    return (*all_)[key];
  }

 private:
  const Map& all() const {
    static const Map none;
    return all_ ? *all_ : none;
  }
  std::shared_ptr<Map> all_;
};

}  // namespace rehearsal
