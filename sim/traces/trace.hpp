// A measured run of one GPU: what its profiler saw, without the texts of single events. Kernels take 32 bytes each, so
// that a file of gigabytes fits; names, shapes and what collectives move are stored once each.
//
// Times are nanoseconds from `origin`, which is the start of the first kernel.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "traces/kernel_classes.hpp"
#include "traces/passes.hpp"
#include "traces/profiler_json.hpp"

namespace rehearsal::traces {

inline constexpr std::uint32_t kNone = 0xffffffff;

struct LaunchedKernel {
  std::int64_t start = 0, duration = 0;
  std::uint32_t name = 0;        // Trace::names
  std::uint32_t fact = kNone;    // of communication: Trace::transfers; else Trace::calls
  std::uint32_t launch = kNone;  // Trace::launches
  std::uint16_t stream = 0;      // Trace::streams
  std::uint16_t moves : 1 = 0;   // `fact` is a transfer
  std::uint16_t label : 15 = 0;  // Trace::labels
  std::int64_t end() const { return start + duration; }
  void part_of(std::uint16_t number) { label = number & 0x7fff; }
};

static_assert(sizeof(LaunchedKernel) == 32);

struct KernelName {
  std::string text;
  std::uint32_t of = KernelClasses::kUnknown;  // its class
  Kind kind = Kind::other;
};

// What a communication kernel moves.
struct Transfer {
  std::string name, dtype, group, about, ranks;  // "allreduce", "BFloat16", "3", "default_pg", "[0, 1]"
  std::int64_t in_elements = 0, out_elements = 0, size = 0;
  Kind kind() const;  // sends and receives are messages
  // In the sense of nccl-tests: the larger side.
  Bytes bytes() const;
  std::vector<std::int64_t> members() const;  // of `ranks`; empty where it lists none
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// An operator of PyTorch with the shapes of its inputs.
struct Operator {
  std::string name, type;
  std::vector<std::vector<std::int64_t>> shapes;  // empty: no tensor
  std::vector<std::string> values;                // of inputs that are none; empty where it is one
};

struct Step {
  std::int64_t number = 0, start = 0, end = 0;
};

struct Trace {
  std::string file;
  std::optional<std::int64_t> rank, world;
  Device gpu;
  std::int64_t visible_gpus = 0;       // to the process of the rank; 0: not known
  std::optional<std::int64_t> base;    // ns since 1970, from which the file counts
  std::int64_t origin = 0;             // since `base`, or whatever the file counts from
  std::vector<Step> steps;             // in order; empty: the file marks none
  bool steps_of_gpu = false;           // by marks on the GPU; else on the host, which is ahead of it
  std::deque<LaunchedKernel> kernels;  // in order of their starts
  std::vector<KernelName> names;
  std::vector<Transfer> transfers;
  std::vector<Operator> operators;
  std::vector<std::uint32_t> calls;  // of operators with shapes: which one
  std::vector<std::int64_t> streams;
  std::vector<Launch> launches;        // of kernels whose launch was recorded
  std::vector<Label> labels{Label{}};  // what kernels are part of; the first says nothing
  std::vector<std::string> notes;      // what is missing or was left out

  Kind kind(const LaunchedKernel& kernel) const {
    return kernel.moves ? transfers[kernel.fact].kind() : names[kernel.name].kind;
  }
  Pass pass(const LaunchedKernel& kernel) const { return labels[kernel.label].pass; }
  bool tells_passes() const;  // some kernel is known to be backward
  std::int64_t end() const;   // of the last kernel
};

// Bytes of an element of a type as PyTorch calls it: "c10::BFloat16", "Float"; 0: unknown.
std::int64_t bytes_of(std::string_view type);

// The traces in a file: one for each GPU in it, those of lower number first. JSON of PyTorch's profiler (.json,
// .json.gz), or a database of Nsight Systems (.sqlite). Throws UserError.
// `passed` hears how many bytes of the file have been read.
std::vector<Trace> read(const std::string& file, const KernelClasses& classes,
                        const std::function<void(std::size_t bytes)>& passed = {});

// Those of several files, each with a rank: as the file says, or by the order of the files. Throws UserError where two
// have the same. `done` counts bytes.
std::vector<Trace> read(const std::vector<std::string>& files, const KernelClasses& classes, const Done& done = {});

}  // namespace rehearsal::traces
