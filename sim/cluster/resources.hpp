// Resources that GPUs share, numbered by first use: the multiprocessors and the memory of each, the links of the
// machine, the memory and the disks of their hosts and the links to these.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/faults.hpp"
#include "cluster/machine.hpp"

namespace rehearsal::cluster {

struct Resource {
  enum class Kind : std::uint8_t {
    processors,  // of a GPU: `from`
    memory,      // the same
    port_out,    // all links of a GPU to the others of its domain, together
    port_in,
    copy_out,  // to the host of a GPU, over a link that it may share: `from` is the first GPU behind it
    copy_in,
    host_memory,  // of the node of `from`, its first GPU
    disk_read,    // the same
    disk_write,
    rounds,  // the multiprocessors of a GPU as its persistent GEMMs see them: all at once, or in two rounds
    link     // one way
  };
  bool counts_processors() const { return kind == Kind::processors || kind == Kind::rounds; }  // has no rate
  Kind kind;
  Device from, to;
  Bandwidth rate;
};
// Its rate on this machine without faults; 0 for kinds that count processors.
Bandwidth rate(const Resource& resource, const Machine& machine);
std::string name(const Resource& resource);  // "node 3 GPU 1 memory", "node 0 NIC 2 to leaf 0.2"

class Resources {
 public:
  // `health`: null if nothing is faulty; otherwise links have their remaining rates.
  explicit Resources(const Machine& machine, const Health* health = nullptr);

  const Machine& machine() const { return machine_; }
  const std::vector<Resource>& all() const { return all_; }

  std::uint32_t processors(std::int64_t gpu) { return of_gpu(Resource::Kind::processors, gpu); }
  std::uint32_t rounds(std::int64_t gpu) { return of_gpu(Resource::Kind::rounds, gpu); }
  std::uint32_t memory(std::int64_t gpu) { return of_gpu(Resource::Kind::memory, gpu); }
  // Appends the resources of a GPU's host, in the order of the kinds: those that its cluster has.
  void add_host(std::int64_t gpu, std::vector<std::pair<Resource::Kind, std::uint32_t>>& list);
  // Appends what a flow crosses. Inside a domain: the ports of both GPUs if the topology gives a ring rate there (rings
  // use every link of a GPU), else the links of the route.
  void add_route(std::int64_t from, std::int64_t to, std::int64_t stripe, std::vector<std::uint32_t>& to_list);

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr auto kKindsOfGpus = static_cast<std::size_t>(Resource::Kind::link);  // all others
  struct Ends {
    std::uint64_t from, to;
    friend bool operator==(const Ends&, const Ends&) = default;
  };
  struct Hash {
    std::size_t operator()(const Ends& e) const {
      const std::uint64_t mixed = (e.from * 0x9e3779b97f4a7c15) ^ (e.to + 0xd1b54a32d192ed03) * 0xff51afd7ed558ccd;
      return mixed ^ (mixed >> 29);
    }
  };
  std::uint32_t of_gpu(Resource::Kind kind, std::int64_t gpu);
  std::uint32_t link(const Device& from, const Device& to);

  const Machine& machine_;
  const Health* health_;
  bool ports_;
  std::vector<Resource> all_;
  std::vector<std::uint32_t> of_gpus_;  // by kind and GPU
  std::unordered_map<Ends, std::uint32_t, Hash> links_;
  // Between two GPUs over a stripe: channels and groups take the same route many times.
  std::unordered_map<Ends, std::vector<std::uint32_t>, Hash> routes_;
};

}  // namespace rehearsal::cluster
