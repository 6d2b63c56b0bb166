// The loads of the tasks of a graph on resources: the phases of each work, at the place of its actor.
#pragma once
#include <span>
#include <vector>

#include "engine/prepared.hpp"
#include "fluid/profile.hpp"

namespace rehearsal::engine {

// An actor that loads the machine: a rank by itself, a group together, the sender of a channel.
struct Actor {
  enum class Kind : std::uint8_t { rank, group, send } kind;
  std::uint32_t id;            // rank or group
  std::uint32_t endpoint = 0;  // of a send

  static Actor of(std::uint32_t rank, const Step& step, std::span<const FarEnd> ends) {
    if (step.kind == Kind_group) return {Kind::group, ends[step.endpoint].peer};
    if (step.kind == Kind_send) return {Kind::send, rank, step.endpoint};
    return {Kind::rank, rank};
  }
  std::uint64_t key() const {  // below 2^62
    return std::uint64_t(kind) << 60 | std::uint64_t{endpoint} << 32 | id;
  }

 private:
  static constexpr auto Kind_group = engine::Kind::group;
  static constexpr auto Kind_send = engine::Kind::send;
};

// A part of a coarse task. `beside` starts together with `row`, and the part has ended when both have.
struct Part {
  // Those of one work are the same phase.
  struct Works : fluid::Row {
    std::vector<WorkId> of;  // of each of `phases`
  };
  Works row, beside;
};

class Demands {
 public:
  Demands(const Prepared& graph, const Contended& contended)
      : works_(graph.graph().works()), places_(contended.places), footprints_(contended.footprints) {}

  const graph::ResourceTable& places() const { return places_; }
  // A coarse work is the sequence of its components. A stretch of kernels with something beside it is a part of its
  // own; all other components in a row are one.
  std::vector<Part> parts(const Actor& actor, WorkId work) const;
  Time moving(WorkId message) const { return footprints_[message.index()].moving; }

 private:
  std::span<const graph::Load> loads(const Actor& actor, graph::Way way) const;
  void add_strand(const Actor& actor, WorkId work, fluid::Phase& phase) const;
  void add(const Actor& actor, WorkId work, std::vector<Part>& parts) const;
  void add_phases(const Actor& actor, WorkId work, Part::Works& row) const;

  std::span<const graph::Work> works_;
  const graph::ResourceTable& places_;
  std::span<const graph::Footprint> footprints_;
};

// Whether any resource is over-subscribed at some instant of a timeline without contention: if not, sharing gives the
// same timeline. A coarse task counts with its highest load throughout.
bool overloaded(const Prepared& graph, const Demands& demands, const Timeline& timeline);

}  // namespace rehearsal::engine
