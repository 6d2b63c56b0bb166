// Times kernels through a backend: a graph in which every rank performs kernels one after another, as tasks. So it
// includes what the backend's ranks use: its matrix product (OpenBLAS under MPI), the worker's lookup of operands, and
// the time of the rank loop between two tasks.
#pragma once
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "calibrate/kernel_times.hpp"

namespace rehearsal::calibrate {

// Kernels with data, a loss or optimizer state need more than buffers: time_kernels() times those.
bool fits_kernel_graph(KernelKind kind);

struct KernelGraph {
  graph::TaskGraph graph;
  std::vector<Kernel> kernels;
  int rounds = 1;  // consecutive tasks of each kernel
};
KernelGraph kernel_graph(std::span<const Kernel> kernels, unsigned ranks, Bytes footprint);

// How to run the graph: real compute, a warm-up and several iterations.
backend::RunOptions kernel_graph_options();

struct TaskTimes {
  std::vector<KernelTime> kernels;
  Spread between;  // from the end of a task to the start of the next
};
TaskTimes read_kernel_graph(const KernelGraph& measured, const timeline::Timeline& timeline);

}  // namespace rehearsal::calibrate
