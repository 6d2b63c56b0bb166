// The layouts that a plan may choose from: every combination of degrees, micro-batch, schedule and what is kept where
// that model, schedule and cluster allow. They come as families of those that share all but the order of the pipeline
// and what is sharded or leaves the device, so that a family is refused, or cut, as one.
#pragma once
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

// One of them. The order of its members is the order in which the first of equals wins: fewer GPUs, then what a user
// would rather leave alone.
struct Layout {
  std::uint16_t base = 0;  // which of PlanFile::bases
  models::Recompute recompute = models::Recompute::none;
  std::uint8_t zero = 0;
  std::uint16_t offload = 0;  // which of PlanSpace::offload
  std::int32_t tensor = 1, context = 1, pipeline = 1, data = 1, expert = 1;
  bool sequence = false;
  std::int32_t chunks = 1;
  std::uint16_t schedule = 0;  // which of Space::schedules()
  std::int32_t micro = 1;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// Those that differ in chunks, schedule, zero and offload alone.
struct Family {
  Layout layout;
  std::uint64_t layouts = 0;
};
// Families whose layers have the same prices, with the fewest pipeline ranks first: computing takes all of them as long
// as the first or longer, however many replicas and pipeline ranks there are, as these divide the micro-batches of one
// another. Longer where a rank has more micro-batches: all but the first of them add to what the gradients hold.
using Kin = std::vector<const Family*>;
// An order of the pipeline.
struct Order {
  std::int32_t chunks = 1;
  std::uint16_t schedule = 0;
};
// What is sharded over replicas, and what leaves the device.
struct Setting {
  std::uint8_t zero = 0;
  std::uint16_t offload = 0;
};

class Space {
 public:
  // Throws UserError where nothing is left, and which key leaves it so.
  explicit Space(scenario::PlanFile file);

  const scenario::PlanFile& file() const { return file_; }
  const Runs& runs() const { return runs_; }
  const std::vector<std::string>& schedules() const { return schedules_; }
  const std::vector<Family>& families() const { return families_; }
  std::vector<Kin> kins() const;  // of all families
  std::uint64_t layouts() const { return layouts_; }
  std::int64_t gpus(const Layout& layout) const { return base(layout).parallelism.gpus(); }

  std::vector<Order> orders(const Layout& of) const;      // of a family
  std::vector<Setting> settings(const Layout& of) const;  // likewise
  // As `run` has it, but without its job, and in the detail that is quickest: every one takes the same time.
  scenario::Scenario scenario(const Layout& layout) const;
  // What makes the file say so: keys with their values.
  std::vector<std::pair<std::string, std::string>> sets(const Layout& layout) const;

 private:
  class Builder;
  const scenario::Scenario& base(const Layout& layout) const { return file_.bases[layout.base].scenario; }
  std::int64_t microbatches(const Layout& layout) const {
    return base(layout).batch.global / (std::int64_t{layout.data} * layout.micro);
  }
  const scenario::Support& support(const Layout& layout) const { return file_.bases[layout.base].support; }
  std::vector<Order> find_orders(const Layout& of) const;

  scenario::PlanFile file_;
  Runs runs_;
  std::vector<std::string> schedules_;
  std::vector<Family> families_;
  std::uint64_t layouts_ = 0;
  using Shape = std::tuple<std::uint16_t, std::int64_t, std::int64_t>;  // base, pipeline and micro-batches
  std::map<Shape, std::vector<Order>> orders_;
};

}  // namespace rehearsal::search
