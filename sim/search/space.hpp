// The layouts that a plan may choose from: every combination of degrees, micro-batch, schedule, sharding and offloading
// that model, schedule and cluster allow. Layouts are grouped into families that share everything but the pipeline's
// order, sharding and offloading, so that a whole family can be refused or eliminated at once.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenario/plan_file.hpp"
#include "scenario/scenario.hpp"
#include "search/goal.hpp"

namespace rehearsal::search {

// A layout. The order of its members breaks ties: fewer GPUs first, then the settings that a user would rather not
// change.
struct Layout {
  std::uint16_t base = 0;  // index into PlanFile::bases
  models::Recompute recompute = models::Recompute::none;
  std::uint8_t zero = 0;
  std::uint16_t offload = 0;  // index into PlanSpace::offload
  std::int32_t tensor = 1, context = 1, pipeline = 1, data = 1, expert = 1;
  bool sequence = false;
  std::int32_t chunks = 1;
  std::uint16_t schedule = 0;  // index into Space::schedules()
  std::int32_t micro = 1;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// Layouts that differ only in chunks, schedule, zero and offload.
struct Family {
  Layout layout;
  std::uint64_t layouts = 0;
};
// Families whose layers have equal prices, on all sizes of a cluster, fewest micro-batches first. A micro-batch takes
// all of them at least as long as the first, however the GPUs are split into pipeline ranks and replicas: it takes
// longer if a rank has more of them, as all but the first add to existing gradients.
using Kin = std::vector<const Family*>;
// An order of the pipeline: chunks and schedule.
struct Order {
  std::int32_t chunks = 1;
  std::uint16_t schedule = 0;
};
// Sharding over replicas, and offloading.
struct Setting {
  std::uint8_t zero = 0;
  std::uint16_t offload = 0;
};

class Space {
 public:
  // Throws UserError if no layout is left, naming the key that excludes the last ones. Work that is asked to stop ends
  // with the layouts that it has.
  explicit Space(scenario::PlanFile file);

  const scenario::PlanFile& file() const { return file_; }
  const Runs& runs() const { return runs_; }
  const std::vector<std::string>& schedules() const { return schedules_; }
  const std::vector<Family>& families() const { return families_; }
  std::vector<Kin> kins() const;  // of all families
  std::uint64_t layouts() const { return layouts_; }
  bool whole() const { return whole_; }  // not stopped while it was listed
  std::int64_t gpus(const Layout& layout) const { return base(layout).parallelism.gpus(); }
  std::size_t cluster(const Layout& layout) const { return file_.bases[layout.base].cluster; }
  std::size_t clusters() const { return std::max<std::size_t>(1, file_.space.clusters.size()); }
  std::int64_t microbatches(const Layout& layout) const {
    return base(layout).batch.global / (std::int64_t{layout.data} * layout.micro);
  }

  std::vector<Order> orders(const Layout& of) const;      // of a family
  std::vector<Setting> settings(const Layout& of) const;  // likewise
  // As in `run`, but without its job and at the fastest detail: the iteration is the same at every detail.
  scenario::Scenario scenario(const Layout& layout) const;
  // The keys and values that set this layout in the file.
  std::vector<std::pair<std::string, std::string>> sets(const Layout& layout) const;

 private:
  class Builder;
  const scenario::Scenario& base(const Layout& layout) const { return file_.bases[layout.base].scenario; }
  const scenario::Support& support(const Layout& layout) const { return file_.bases[layout.base].support; }
  std::vector<Order> find_orders(const Layout& of) const;

  scenario::PlanFile file_;
  Runs runs_;
  std::vector<std::string> schedules_;
  std::vector<Family> families_;
  std::uint64_t layouts_ = 0;
  bool whole_ = true;
  using Shape = std::tuple<std::uint16_t, std::int64_t, std::int64_t>;  // base, pipeline and micro-batches
  std::map<Shape, std::vector<Order>> orders_;
};

}  // namespace rehearsal::search
