// Collectives and messages on a machine: their groups are placed, routes give the wires, the registered algorithms'
// closed forms the price.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/machine.hpp"
#include "collective/choice.hpp"
#include "collective/routine.hpp"
#include "collective/size_curve.hpp"
#include "graph/work.hpp"

namespace rehearsal::cost {

// The terms of a price, for reports.
struct Quote {
  collective::Choice choice;  // as choose() says
  collective::Shape shape{1};
  collective::Wires wires;
  collective::Choice inside;           // of a group across nodes: what runs among the members of one
  std::optional<double> correction{};  // factor of measured curves on the time inside a node
  std::optional<double> across{};      // for a group across nodes: on the whole time
  std::vector<collective::Candidate> candidates{};
};

class CommunicationModel {
 public:
  // Throws UserError where the description does not fit its topology.
  CommunicationModel(const cluster::ClusterSpec& spec, collective::SizeCurves curves, Version version = kNewestNccl,
                     const collective::Registry& algorithms = collective::registry());

  // The model for links with less rate (cluster::Machine::narrowed).
  CommunicationModel narrowed(double port, double wire) const {
    auto narrow = *this;
    narrow.machine_ = machine_.narrowed(port, wire);
    return narrow;
  }

  const cluster::Machine& machine() const { return machine_; }
  const collective::SizeCurves& curves() const { return curves_; }

  // The messages of a shift, from each member to the next: one inside a domain and one out of it, if there are such.
  std::vector<graph::Message> sends_of_shift(const GroupShape& group, Bytes size) const;
  // The algorithm that the cluster's library runs, with its seconds; nothing for one rank or nothing to move.
  collective::Choice choose(const GroupShape& group, CollectiveKind kind, Bytes size) const;
  // That choice as it is performed; by the fastest algorithm of a small array where there is nothing to move, since
  // members meet all the same. No algorithm for one rank.
  // `by`: null: the library's choice.
  collective::Execution execution(const GroupShape& group, CollectiveKind kind, Bytes size,
                                  const collective::Algorithm* by = nullptr) const;
  Quote quote(const GroupShape& group, CollectiveKind kind, Bytes size) const;
  Quote terms(const GroupShape& group, CollectiveKind kind, Bytes size) const;  // that without what was measured
  const collective::Runtime& runtime() const { return runtime_; }
  std::string why(const GroupShape& group, const collective::Choice& choice) const;
  std::string where(const GroupShape& group) const;  // " on 4 nodes"

  // DeepSpeed's ZeRO-3 of 2021: one small call for each tensor. Seconds.
  double tensor_by_tensor(const graph::Collective& work, double latency, double efficiency) const;
  double message(const graph::Message& work) const;  // s
  // The part of that in which the bytes leave, s: until then no other message of the rank uses the same wire.
  double on_the_wire(const graph::Message& work) const;

  // The rate of the links here relative to those of the measured curves, if it is beyond a factor of two.
  std::optional<double> extrapolates() const;

 private:
  static collective::Wires wires_inside(const cluster::Machine& machine, const GroupShape& group, CollectiveKind kind);
  collective::Wires wires_across(const GroupShape& group, CollectiveKind kind, Bytes size) const;
  static collective::Choice formula(const cluster::Machine& machine, const GroupShape& group, CollectiveKind kind,
                                    Bytes size, const collective::Runtime& runtime);
  double channels(const GroupShape& group) const;
  collective::Choice inside(const GroupShape& group, CollectiveKind kind, Bytes size) const;
  std::optional<double> across(const GroupShape& group, CollectiveKind kind, Bytes size) const;
  double shared(const collective::Algorithm& algorithm, const GroupShape& group, Bytes size) const;  // s
  double ramp(const collective::Algorithm& algorithm, const GroupShape& group, Bytes size) const;    // s
  // Whether curves apply to this many ranks inside a node of this machine.
  bool corrects(CollectiveKind kind, std::uint32_t ranks) const;

  cluster::Machine machine_;
  collective::SizeCurves curves_;
  // Of each kind the ranks of the smallest curve inside a node; 0: none.
  std::array<std::uint32_t, std::size_t(CollectiveKind::shift) + 1> least_measured_{};
  collective::Runtime runtime_, rings_;  // the latter without reducing switches
  // What curves are relative to: the formulas on one node of their own machine, and this whole model on all of it.
  struct Reference {
    cluster::Machine machine;
    collective::Runtime runtime;
  };
  std::optional<Reference> reference_;
  std::shared_ptr<const CommunicationModel> whole_;  // if some curves are across nodes
};

}  // namespace rehearsal::cost
