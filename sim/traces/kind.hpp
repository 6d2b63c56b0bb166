// What kernels of a measured run and works of a prediction have in common: the one place where both are put together.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "graph/task_graph.hpp"

namespace rehearsal::traces {

enum class Kind : std::uint8_t { gemm, attention, memory_bound, optimizer, collective, message, copy, other };
inline constexpr std::size_t kKinds = 8;
constexpr std::size_t index(Kind kind) { return static_cast<std::size_t>(kind); }

struct KindInfo {
  Kind kind;
  std::string_view name;   // in configs/kernel_classes.yaml, JSON and CSV
  std::string_view words;  // in tables
};
inline constexpr std::array<KindInfo, kKinds> kKindTable{{
    {Kind::gemm, "gemm", "matrix products"},
    {Kind::attention, "attention", "attention"},
    {Kind::memory_bound, "memory-bound", "memory-bound kernels"},
    {Kind::optimizer, "optimizer", "optimizer"},
    {Kind::collective, "collective", "collectives"},
    {Kind::message, "message", "sends and receives"},
    {Kind::copy, "copy", "copies"},
    {Kind::other, "other", "other kernels"},
}};
constexpr const KindInfo& info(Kind kind) { return kKindTable[index(kind)]; }
constexpr bool communicates(Kind kind) { return kind == Kind::collective || kind == Kind::message; }

constexpr bool computes(Kind kind) { return !communicates(kind) && kind != Kind::copy; }

using TimeByKind = std::array<Time, kKinds>;

// The kernels that a work consists of, when it runs alone: of a Sequence its items, of Overlapped both. Works that are
// no kernels (a host that is behind, a receive, what hosts compute) are left out.
using EachKernel = std::function<void(const graph::Work& work, Kind kind, Time time)>;
void each_kernel(const graph::TaskGraph& graph, WorkId work, graph::Pass pass, graph::Lane lane,
                 std::span<const Time> durations, const EachKernel& kernel);

// What kernel names do not tell, and so no comparison by kind: in sentences.
inline constexpr std::array<std::string_view, 4> kNotToldApart{
    "Recomputed kernels have the names of the forward pass: they count with their kind, as part of the backward pass.",
    "Optimizer kernels that are matrix products or plain elementwise kernels count as those.",
    "Measured communication includes waiting for other ranks; given the traces of a whole group, the shortest of them "
    "is taken as the transfer.",
    "A kernel that others slow down takes longer in the trace; its predicted time includes that, too.",
};

}  // namespace rehearsal::traces
