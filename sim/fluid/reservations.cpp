#include "fluid/reservations.hpp"

namespace rehearsal::fluid {

bool Reservations::fits(const Profile::Need& need, const Sharing& sharing) const {
  const Wide others = resources_[need.resource].claimed + sharing.asked(need.resource);
  return others == 0 || others + need.most <= sharing.capacity(need.resource);
}

bool Reservations::fits(const Profile& profile, std::uint32_t step, const Sharing& sharing,
                        std::size_t& blocked) const {
  const std::vector<Profile::Need>& needs = profile.needs();
  const std::size_t remaining = profile.remaining(step);
  if (blocked < remaining && !fits(needs[blocked], sharing)) return false;
  for (std::size_t n = 0; n < remaining; ++n)
    if (!fits(needs[n], sharing)) {
      blocked = n;
      return false;
    }
  return true;
}

void Reservations::claim(std::uint32_t run, const Profile& profile, std::uint32_t step, Places& places) {
  const std::size_t remaining = profile.remaining(step);
  for (std::uint32_t n = 0; n < remaining; ++n) {
    const Profile::Need& need = profile.needs()[n];
    Resource& r = resources_[need.resource];
    places.push_back(static_cast<std::uint32_t>(r.coasters.size()));
    r.coasters.push_back({run, n});
    r.claimed += need.most;
  }
}

}  // namespace rehearsal::fluid
