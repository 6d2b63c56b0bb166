// Demands come and go at random; incremental updates must equal filling from zero.
#include "fluid/sharing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.hpp"

namespace rehearsal::fluid {
namespace {

struct Demand {
  Rate full_speed;
  std::vector<Use> uses;
};
struct Share {
  Rate rate;
  std::uint32_t bottleneck;
  friend bool operator==(Share, Share) = default;
};

// The rule, literally: rounds over all resources and all demands.
std::vector<Share> fill(const std::vector<Wide>& capacities, const std::vector<Demand>& demands) {
  std::vector<Share> shares(demands.size(), {-1, kNobody});
  const auto rising = [&](std::size_t d) { return shares[d].rate < 0; };
  std::vector<bool> tight;
  for (std::uint32_t r = 0; r < capacities.size(); ++r) {
    Wide asked = 0;
    for (const Demand& demand : demands)
      for (const Use& use : demand.uses)
        if (use.resource == r) asked += Wide{use.weight} * demand.full_speed + (use.hold << kRateBits);
    tight.push_back(asked > capacities[r] << kRateBits);
  }
  for (;;) {
    Wide lowest = Wide{1} << 100;
    std::map<std::uint32_t, Wide> levels;
    for (std::uint32_t r = 0; r < capacities.size(); ++r) {
      Wide left = capacities[r] << kRateBits, weight = 0;
      for (std::size_t d = 0; d < demands.size(); ++d)
        for (const Use& use : demands[d].uses) {
          if (use.resource != r) continue;
          left -= use.hold << kRateBits;
          if (rising(d))
            weight += use.weight;
          else
            left -= Wide{use.weight} * shares[d].rate;
        }
      if (!tight[r] || weight == 0) continue;
      levels[r] = left <= 0 ? 0 : left / weight;
      lowest = std::min(lowest, levels[r]);
    }
    bool any = false;
    for (std::size_t d = 0; d < demands.size(); ++d)
      if (rising(d)) lowest = std::min<Wide>(lowest, demands[d].full_speed), any = true;
    if (!any) return shares;
    for (std::size_t d = 0; d < demands.size(); ++d) {
      if (!rising(d)) continue;
      bool stops = demands[d].full_speed == lowest;
      std::uint32_t by = kNobody;
      for (const Use& use : demands[d].uses)
        if (use.weight > 0 && levels.count(use.resource) && levels[use.resource] == lowest) {
          by = std::min(by, use.resource);
          stops = true;
        }
      if (stops) shares[d] = {static_cast<Rate>(lowest), demands[d].full_speed == lowest ? kNobody : by};
    }
  }
}

// Small numbers make ties and roundings frequent, large ones use all bits.
struct Case {
  std::vector<Wide> capacities;
  Random random;
  bool small, holds;
  std::uint64_t reach;  // the uses of a demand span this many resources: small components or one large

  explicit Case(std::uint64_t seed) : random(seed), small(seed % 2), holds(seed % 3 == 0) {
    const std::uint64_t n = 1 + random.below(24);
    for (std::uint64_t r = 0; r < n; ++r)
      capacities.push_back(small ? Wide(1 + random.below(12)) : Wide(1 + random.below(1000)) << random.below(60));
    reach = 1 + random.below(n);
  }
  Demand demand() {
    Demand d{static_cast<Rate>(small ? 1 + random.below(8) : 1 + random.below(1u << 30)) << kRateBits, {}};
    if (random.below(4) == 0) d.full_speed = static_cast<Rate>(1 + random.below(40000));
    const std::uint64_t first = random.below(capacities.size() - reach + 1);
    for (std::uint32_t r = 0; r < capacities.size(); ++r) {
      if (r < first || r >= first + reach || random.below(reach) > 3) continue;
      // Weights such that one to three demands fill the resource.
      const Wide filling = std::min<Wide>((capacities[r] << kRateBits) / d.full_speed, INT64_MAX);
      Use use{r, static_cast<std::int64_t>(small ? Wide(random.below(4)) : Wide(1 + random.below(3)) * filling / 3), 0};
      if (holds && random.below(3) == 0) use.hold = capacities[r] * Wide(random.below(9)) / 8;
      d.uses.push_back(use);
    }
    return d;
  }
};

}  // namespace

TEST_CASE("following up changes gives what filling from zero gives, and that is the rule") {
  std::uint64_t compared = 0, opened = 0, attached = 0, taken_over = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Case c(seed);
    Sharing followed(c.capacities), whole(c.capacities, true);
    struct Both {
      std::uint32_t followed, whole;
    };
    std::map<std::uint32_t, Demand> demands;  // by number, the same in both; node addresses are stable
    std::map<std::uint32_t, Both> ids;
    std::uint32_t number = 0;
    for (int instant = 0; instant < 40; ++instant) {
      std::vector<decltype(demands)::node_type> gone_now;
      for (std::uint64_t n = c.random.below(4); n > 0 && !demands.empty(); --n) {
        const auto gone = std::next(demands.begin(), static_cast<std::ptrdiff_t>(c.random.below(demands.size())));
        followed.detach(ids[gone->first].followed);
        whole.detach(ids[gone->first].whole);
        ids.erase(gone->first);
        gone_now.push_back(demands.extract(gone));
      }
      for (std::uint64_t n = c.random.below(instant < 5 ? 6 : 4); n > 0; --n) {
        const bool again = !gone_now.empty() && c.random.below(2);
        const Demand& d = demands[number] = again ? gone_now[c.random.below(gone_now.size())].mapped() : c.demand();
        const std::uint32_t heir = followed.take_over(d.full_speed, d.uses);
        taken_over += heir != kNobody;
        ids[number] = {heir != kNobody ? heir : followed.attach(d.full_speed, d.uses),
                       whole.attach(d.full_speed, d.uses)};
        ++number;
      }
      std::map<std::uint32_t, Share> before;
      for (const auto& [n, id] : ids) before[n] = {followed.rate(id.followed), followed.bottleneck(id.followed)};
      const auto span = followed.solve();
      const std::vector<std::uint32_t> changed(span.begin(), span.end());
      whole.solve();

      std::vector<Demand> list;
      for (const auto& [n, d] : demands) list.push_back(d);
      const std::vector<Share> expected = fill(c.capacities, list);
      std::size_t i = 0;
      for (const auto& [n, id] : ids) {
        const Share got{followed.rate(id.followed), followed.bottleneck(id.followed)};
        REQUIRE(got == expected[i]);
        REQUIRE(Share{whole.rate(id.whole), whole.bottleneck(id.whole)} == expected[i]);
        const bool listed = std::find(changed.begin(), changed.end(), id.followed) != changed.end();
        REQUIRE(listed == (got != before[n]));
        ++i;
        ++compared;
      }
      // No resource carries more than it has.
      for (std::uint32_t r = 0; r < c.capacities.size(); ++r) {
        Wide used = 0, held = 0;
        for (std::size_t d = 0; d < list.size(); ++d)
          for (const Use& use : list[d].uses)
            if (use.resource == r) used += Wide{use.weight} * expected[d].rate, held += use.hold << kRateBits;
        REQUIRE(used <= std::max<Wide>(0, (c.capacities[r] << kRateBits) - held));
      }
    }
    opened += followed.counts().opened;
    attached += whole.counts().opened;
  }
  MESSAGE(compared << " shares; opened " << opened << " where solving everything opens " << attached);
  CHECK(opened < attached);
  CHECK(taken_over > 1000);
}

TEST_CASE("max-min: no demand can rise without lowering one that has no more") {
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    CAPTURE(seed);
    Case c(seed);
    std::vector<Demand> demands;
    Sharing sharing(c.capacities);
    for (int n = 0; n < 20; ++n) demands.push_back(c.demand());
    for (const Demand& d : demands) sharing.attach(d.full_speed, d.uses);
    sharing.solve();
    for (std::uint32_t d = 0; d < demands.size(); ++d) {
      if (sharing.bottleneck(d) == kNobody) {
        REQUIRE(sharing.rate(d) == demands[d].full_speed);
        continue;
      }
      // On its bottleneck, nobody has more, and what is free is less than one step of 2^-12 units/s for all who stopped
      // there.
      const std::uint32_t r = sharing.bottleneck(d);
      Wide used = 0, weight = 0;
      for (std::uint32_t other = 0; other < demands.size(); ++other)
        for (const Use& use : demands[other].uses)
          if (use.resource == r) {
            used += Wide{use.weight} * sharing.rate(other) + (use.hold << kRateBits);
            if (use.weight > 0) REQUIRE(sharing.rate(other) <= sharing.rate(d));
            if (sharing.rate(other) == sharing.rate(d)) weight += use.weight;
          }
      REQUIRE((c.capacities[r] << kRateBits) - used < weight);
    }
  }
}

}  // namespace rehearsal::fluid
