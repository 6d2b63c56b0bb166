// What was measured of one machine (`rehearse calibrate`; configs/profiles): times of this program's kernels, of
// messages and of collectives, and of its GPU, with where and how. Read and written by sim/scenario; measured by
// hw/calibrate.
//
// A section that was not measured is empty, and CostModel prices by its formulas then. Times are medians; kernels were
// measured with `ranks` of them at once, on cold buffers.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/size_curve.hpp"
#include "cost/gpu_times.hpp"
#include "cost/kernel_fit.hpp"
#include "cost/tier_times.hpp"

namespace rehearsal::cost {

// Kernels that are measured and fitted together.
struct KernelClass {
  KernelKind kind{};
  Precision precision = Precision::fp32;
  KernelClass(KernelKind k, Precision p = Precision::fp32) : kind(k), precision(p) {}
  explicit KernelClass(const Kernel& k) : kind(k.kind), precision(k.precision) {}
  friend auto operator<=>(const KernelClass&, const KernelClass&) = default;
};
std::string name(const KernelClass& kernels);  // "linear", or "linear in bf16"

struct KernelTimes {
  std::vector<KernelSample> samples;  // ascending dims, each once
  KernelFit fit;                      // to these samples
};

// One way, by size. A send occupies its rank for o_s, a receive that finds its message there for o_r; with the receive
// posted early, L lies between the posting of the send and the end of the receive (LogGP).
struct MessageTimes {
  std::vector<collective::Point> send, receive, latency;  // o_s, o_r, L; the same ascending sizes
};

struct Profile {
  std::string name, summary, digest;  // SHA-256 of all that follows
  std::string backend;                // which transport: "loopback", "mpi"
  std::int64_t ranks = 0;             // that computed at the same time
  std::string cpu, system;            // model of the processor, operating system with its version
  std::int64_t cores = 0;
  std::string compiler;
  std::map<std::string, std::string> libraries;  // name -> version
  std::string date;                              // UTC, ISO 8601
  std::string priority;                          // "raised", or "ordinary" where the system did not permit it
  std::string copy;                              // how a message crosses: "cma", "two copies"
  std::map<KernelClass, KernelTimes> kernels;
  MessageTimes messages;
  collective::SizeCurves collectives;
  bool own_collectives = false;              // measured by their own steps (backend::Collectives), not by a library
  std::optional<Quantiles> between_tasks;    // what the loop of a rank takes from the end of one to the next's start
  std::optional<Quantiles> timer_overshoot;  // of a sleep of 1 ms
  std::optional<Quantiles> noise;            // of `kNoiseQuantum` of arithmetic without memory, all ranks at once

  std::optional<TierTimes> tiers;

  std::optional<GpuTimes> gpu;  // of a machine whose kernels a GPU computes

  bool has_messages() const { return !messages.latency.empty(); }
  bool has_collectives() const { return !collectives.measured.empty(); }

  // Seconds; nothing when its kind was not measured in its precision.
  struct Priced {
    double time;
    bool exact;  // this very shape was measured
  };
  std::optional<Priced> time(const Kernel& kernel) const;
  // The highest rate that one rank reached in this precision, of the FLOPs that Kernel::flops() counts; nothing when no
  // product was measured in it.
  std::optional<FlopRate> peak(Precision precision) const;
};

// Sorts the samples of each kind and precision, keeps the last of equal shapes, and fits.
std::map<KernelClass, KernelTimes> fit_kernels(std::vector<KernelSample> samples);

}  // namespace rehearsal::cost
