// Identifiers that do not convert into each other: an index with a name.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rehearsal {

template <class Tag, class Rep = std::uint32_t>
struct Id {
  Rep value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t v) : value(static_cast<Rep>(v)) {}
  constexpr std::size_t index() const { return value; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using TaskId = Id<struct TaskTag, std::uint64_t>;  // a task of the whole graph: offset of its rank + local id
using LocalTask = Id<struct LocalTaskTag>;         // a task within the program of one rank
using WorkId = Id<struct WorkTag>;                 // an interned piece of work (shape), shared by many tasks
using BufferId = Id<struct BufferTag>;             // a buffer within the program of one rank
using ProgramId = Id<struct ProgramTag>;           // a template that ranks of one class share
using RankId = Id<struct RankTag>;                 // a rank of the job
using GroupId = Id<struct GroupTag>;               // the ranks of one collective
using NodeId = Id<struct NodeTag>;                 // a vertex of the cluster: GPU, switch, NIC
using LinkId = Id<struct LinkTag>;                 // a directed link of the cluster

}  // namespace rehearsal

template <class Tag, class Rep>
struct std::hash<rehearsal::Id<Tag, Rep>> {
  std::size_t operator()(rehearsal::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};
