// The same measurement through a backend: a graph in which every rank performs kernels one after the other, as tasks.
// It sees what the backend's own ranks see: its matrix product (OpenBLAS under MPI), how its worker finds operands, and
// what the loop of a rank takes between two tasks.
#pragma once
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "calibrate/kernel_times.hpp"

namespace rehearsal::calibrate {

// Kernels with data, a loss or the state of an optimizer need more around them than buffers: time_kernels() does those.
bool fits_kernel_graph(KernelKind kind);

struct KernelGraph {
  graph::TaskGraph graph;
  std::vector<Kernel> kernels;
  int rounds = 1;  // tasks of each kernel in a row
};
KernelGraph kernel_graph(std::span<const Kernel> kernels, unsigned ranks, Bytes footprint);

// How to run it: real compute, a warm-up and several iterations.
backend::RunOptions kernel_graph_options();

struct TaskTimes {
  std::vector<KernelTime> kernels;
  Spread between;  // from the end of a task to the start of the next
};
TaskTimes read_kernel_graph(const KernelGraph& measured, const timeline::Timeline& timeline);

}  // namespace rehearsal::calibrate
