#include "lower/classes.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/fingerprint.hpp"

namespace rehearsal::lower {
namespace {

// Numbers fingerprints in the order in which they first occur. Returns how many there are.
std::size_t number(const std::vector<Fingerprint>& prints, std::vector<std::uint32_t>& colours) {
  std::unordered_map<Fingerprint, std::uint32_t, Fingerprint::Hash> known;
  for (std::size_t i = 0; i < prints.size(); ++i)
    colours[i] = known.try_emplace(prints[i], static_cast<std::uint32_t>(known.size())).first->second;
  return known.size();
}

class Refinement {
 public:
  explicit Refinement(const Actors& actors)
      : actors_(actors),
        of_actor_(actors.colour.size()),
        of_resource_(actors.resource_colour.size()),
        actor_prints_(of_actor_.size()),
        resource_prints_(of_resource_.size()),
        users_(users()) {
    for (std::size_t a = 0; a < of_actor_.size(); ++a) actor_prints_[a] = started(actors.colour[a]);
    for (std::size_t r = 0; r < of_resource_.size(); ++r) resource_prints_[r] = started(actors.resource_colour[r]);
  }

  Classes run() {
    Classes classes;
    std::size_t actors = number(actor_prints_, of_actor_), resources = number(resource_prints_, of_resource_);
    for (;;) {
      ++classes.rounds;
      look_at_actors();
      look_at_resources();
      const auto more_actors = number(actor_prints_, of_actor_);
      const auto more_resources = number(resource_prints_, of_resource_);
      if (more_actors == actors && more_resources == resources) break;
      actors = more_actors, resources = more_resources;
    }
    classes.first_actor = firsts(of_actor_, actors), classes.first_resource = firsts(of_resource_, resources);
    classes.of_actor = std::move(of_actor_), classes.of_resource = std::move(of_resource_);
    return classes;
  }

 private:
  struct User {
    std::uint32_t actor;
    std::uint32_t way;
    std::int64_t parts;
  };
  struct Summed {
    std::uint64_t colour_and_way;
    std::int64_t parts;
  };

  static Fingerprint started(std::uint64_t colour) {
    Fingerprint print;
    print.add(colour);
    return print;
  }

  Csr<User> users() const {
    std::vector<std::vector<User>> of(of_resource_.size());
    for (std::uint32_t a = 0; a < of_actor_.size(); ++a)
      for (const auto& load : actors_.loads[a])
        of[load.resource].push_back({a, static_cast<std::uint32_t>(load.way), load.parts});
    Csr<User> all;
    for (const auto& list : of) all.push_row(list);
    return all;
  }

  // A set: the number of equivalent actors that it waits for, or resources that it loads, makes no difference.
  void look_at_actors() {
    for (std::size_t a = 0; a < of_actor_.size(); ++a) {
      set_.clear();
      for (const auto& link : actors_.links[a]) set_.push_back(std::uint64_t{link.role} << 32 | of_actor_[link.actor]);
      for (const auto& load : actors_.loads[a])
        set_.push_back(std::uint64_t{1} << 63 | std::uint64_t{static_cast<std::uint32_t>(load.way)} << 32 |
                       of_resource_[load.resource]);
      std::sort(set_.begin(), set_.end());
      set_.erase(std::unique(set_.begin(), set_.end()), set_.end());
      actor_prints_[a] = started(of_actor_[a]);
      for (const auto item : set_) actor_prints_[a].add(item);
    }
  }

  // Sums: the load that each class of actors puts on the resource in each way.
  void look_at_resources() {
    for (std::size_t r = 0; r < of_resource_.size(); ++r) {
      sums_.clear();
      for (const auto& user : users_[r])
        sums_.push_back({std::uint64_t{user.way} << 32 | of_actor_[user.actor], user.parts});
      std::sort(sums_.begin(), sums_.end(),
                [](const Summed& a, const Summed& b) { return a.colour_and_way < b.colour_and_way; });
      resource_prints_[r] = started(of_resource_[r]);
      for (std::size_t i = 0; i < sums_.size();) {
        std::int64_t sum = 0;
        const auto same = sums_[i].colour_and_way;
        for (; i < sums_.size() && sums_[i].colour_and_way == same; ++i) sum += sums_[i].parts;
        resource_prints_[r].add(same), resource_prints_[r].add(static_cast<std::uint64_t>(sum));
      }
    }
  }

  static std::vector<std::uint32_t> firsts(const std::vector<std::uint32_t>& of, std::size_t classes) {
    std::vector<std::uint32_t> first(classes);
    for (std::uint32_t i = static_cast<std::uint32_t>(of.size()); i-- > 0;) first[of[i]] = i;
    return first;
  }

  const Actors& actors_;
  std::vector<std::uint32_t> of_actor_, of_resource_;
  std::vector<Fingerprint> actor_prints_, resource_prints_;
  Csr<User> users_;
  std::vector<std::uint64_t> set_;
  std::vector<Summed> sums_;
};

}  // namespace

Classes equitable_classes(const Actors& actors) { return Refinement(actors).run(); }

}  // namespace rehearsal::lower
