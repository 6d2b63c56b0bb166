// Undisturbed runs need no events within them: they coast. A claim is the most that a coasting run may ask of a
// resource at any time until its end. As long as the claims and the attached demands fit together, the resource is
// slack, whatever phase each run is in, so all go at full speed. A run that is alone on a resource fits too, even if
// its own flows contend: that is part of its time alone.
#pragma once
#include <cstdint>
#include <vector>

#include "fluid/profile.hpp"
#include "fluid/sharing.hpp"

namespace rehearsal::fluid {

class Reservations {
 public:
  explicit Reservations(std::size_t resources) : resources_(resources) {}

  struct Coaster {
    std::uint32_t run, place;  // place: which of the profile's needs
  };
  // The places of a run's claims, kept by the run.
  using Places = std::vector<std::uint32_t>;

  // Whether a run of the profile could coast from a step on. `blocked`: the need that prevented it last time.
  bool fits(const Profile& profile, std::uint32_t step, const Sharing& sharing, std::size_t& blocked) const;
  void claim(std::uint32_t run, const Profile& profile, std::uint32_t step, Places& places);
  // `places_of(run)`: the places of another run, whose claim moves into the place of the removed one.
  template <class PlacesOf>
  void release(const Profile& profile, Places& places, PlacesOf places_of) {
    for (std::size_t n = 0; n < places.size(); ++n) {
      Resource& r = resources_[profile.needs()[n].resource];
      r.claimed -= profile.needs()[n].most;
      const Coaster moved = r.coasters[places[n]] = r.coasters.back();
      r.coasters.pop_back();
      places_of(moved.run)[moved.place] = places[n];
    }
    places.clear();
  }

  const std::vector<Coaster>& coasters(std::uint32_t resource) const { return resources_[resource].coasters; }
  // Claims and attached demands no longer fit together.
  bool crowded(std::uint32_t resource, const Sharing& sharing) const {
    const Resource& r = resources_[resource];
    if (r.coasters.empty() || (r.coasters.size() == 1 && sharing.asked(resource) == 0)) return false;
    return r.claimed + sharing.asked(resource) > sharing.capacity(resource);
  }

 private:
  struct Resource {
    Wide claimed = 0;
    std::vector<Coaster> coasters;
  };
  bool fits(const Profile::Need& need, const Sharing& sharing) const;

  std::vector<Resource> resources_;
};

}  // namespace rehearsal::fluid
