// A cluster as a machine: routes, and the links between the members of a group of GPUs that communicate.
//
// Nothing is built: regular topologies know their routes and levels in closed form, whatever the size; only links that
// were written out become a graph (Boost.Graph). Machines are values that several threads may ask at once.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/kernels.hpp"
#include "cluster/topology.hpp"

namespace rehearsal::cluster {

class WrittenGraph;  // routes over links that were written out

// Where a group leaves one domain for another.
struct Boundary {
  const char* name;      // "NIC", "leaf to spine"
  std::int64_t members;  // of the group in one domain on this side of it
  Bandwidth rate;        // out of one such domain for this group, without other traffic
  Time latency;          // of a message across, from GPU to GPU
};

// A group alone on the machine.
struct GroupPath {
  std::int64_t ranks = 1, in_domain = 1;  // members in all, and in one NVLink domain
  Bandwidth port;                         // of one member inside its domain, one way
  Time latency;                           // between neighbours inside the domain
  std::vector<Boundary> out;              // innermost first; empty when the group stays in one domain
  std::int64_t nics = 0, nics_of = 0;     // that it uses, out of those of a domain
  std::int64_t senders = 0;               // members of a domain that these NICs belong to
};

// A message from GPU to GPU.
struct MessagePath {
  bool leaves_domain = false;
  Bandwidth rate;  // of the narrowest link
  Time latency;
};

struct Hop {
  Device from, to;
  Link link;
};

class Machine {
 public:
  // Throws UserError when the description does not fit its topology.
  explicit Machine(ClusterSpec spec);

  // The same machine for links with less rate: the share of it that is left inside a domain, and out of it.
  Machine narrowed(double port, double wire) const;

  const ClusterSpec& spec() const { return spec_; }
  const Topology& inside() const { return *inside_; }
  const Topology& fabric() const { return *fabric_; }
  // A parameter of either topology; its default if none was given.
  double parameter(const char* name) const { return parameters(name).front(); }
  std::vector<double> parameters(const char* name) const;

  std::int64_t gpus() const { return spec_.gpus(); }
  std::int64_t domain() const { return domain_; }  // GPUs that reach each other without the fabric
  std::int64_t domains() const { return (gpus() + domain_ - 1) / domain_; }
  Bandwidth out_of_domain() const;  // over all NICs
  const std::vector<Level>& levels() const { return levels_; }

  // By global rank; empty from a GPU to itself. Throws UserError if there is no route.
  std::vector<Hop> route(std::int64_t from, std::int64_t to, std::int64_t stripe = 0) const;

  Path path(std::int64_t from, std::int64_t to, std::int64_t stripe = 0) const;  // the devices of that route
  Link link(const Device& a, const Device& b) const;                             // between two neighbours on a path

  const GroupPath& reach(const GroupShape& group) const;
  const MessagePath& reach(std::int64_t from, std::int64_t to) const;
  // The rate of each member inside its domain while all send to all others there, or each to its next one only; a
  // port's rate if all pairs are alike.
  Bandwidth pairs(const GroupShape& group, bool to_all) const;
  // If traffic out of a node uses links that also connect its GPUs: seconds of the busiest of them while each member of
  // a domain sends `inside` bytes to the next of its ring there (or spread over all), and the domain `out` bytes over
  // its NICs. 0 if GPUs have other links to each other.
  double on_shared_links(const GroupShape& group, double inside, double out, bool to_all) const;
  // The first pair of GPUs that is as far apart: equivalent pairs share one work.
  std::pair<std::int64_t, std::int64_t> alike(std::int64_t from, std::int64_t to) const;
  // Of the pairs (from, to), (from + 1, to + 1), ...: how many are as far apart as the first; at least 1 is found.
  std::int64_t all_alike(std::int64_t from, std::int64_t to) const;
  // The rate out of one domain for a group, by counting flows on their routes; levels are its closed form.
  Bandwidth counted(const GroupShape& group) const;
  int level(std::int64_t from, std::int64_t to) const;  // -1 inside a domain; 0 where flows are counted

  // For topologies.
  std::int64_t node(std::int64_t gpu) const { return gpu / spec_.gpus_per_node; }
  std::int64_t local(std::int64_t gpu) const { return gpu % spec_.gpus_per_node; }
  Device gpu(std::int64_t rank) const;
  std::int64_t rank(const Device& gpu) const { return gpu.place * spec_.gpus_per_node + gpu.index; }
  Device nic(std::int64_t gpu, std::int64_t stripe) const;  // of a GPU
  std::int64_t gpu_at(const Device& nic) const;             // the first GPU of a NIC
  std::int64_t nics() const { return spec_.nics_per_node * spec_.nodes; }
  Device nic_numbered(std::int64_t number) const;                       // node after node
  std::int64_t stripes() const;                                         // NICs of a GPU, at least 1
  Time nic_hop() const { return Time(spec_.nic_latency.count() / 4); }  // GPU, NIC, switch, NIC, GPU are four links
  Path exit(std::int64_t gpu, std::int64_t stripe) const;               // GPU to its NIC, both included
  const WrittenGraph& written() const { return *written_; }

 private:
  Bandwidth counted_port(std::int64_t stride, std::int64_t members) const;
  std::int64_t nics_beside(std::int64_t stride, std::int64_t members) const;
  double rails_used(std::int64_t stride, std::int64_t members) const;
  void leave(GroupPath& reach, const GroupShape& group) const;
  void count_out(GroupPath& reach, const GroupShape& group) const;

  ClusterSpec spec_;
  const Topology* inside_ = nullptr;
  const Topology* fabric_ = nullptr;
  std::int64_t domain_ = 1;
  double port_ = 1, wire_ = 1;  // remaining shares of the rates of links
  std::vector<Level> levels_;
  std::shared_ptr<const WrittenGraph> written_;
  struct Known {
    std::mutex mutex;
    std::map<GroupShape, GroupPath> groups;
    std::map<std::array<std::int64_t, 2>, MessagePath> pairs;
    std::map<std::pair<GroupShape, bool>, Bandwidth> all_pairs;
  };
  std::shared_ptr<Known> known_;
};

std::string name(const Device& device);  // "node 3 GPU 1", "leaf 2"

}  // namespace rehearsal::cluster
