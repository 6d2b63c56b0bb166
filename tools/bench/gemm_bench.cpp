// How fast is the matrix product of hw/cpu, beside OpenBLAS on one thread in the same session?
//
//   gemm_bench [repeats]        default 9; appends to tools/bench/results/gemm.csv
//
// GFLOP/s of n x n x n in fp32, in the three forms of a linear layer: forward (x W^T), input gradient (dy W), weight
// gradient (dW += dy^T x). Best of the repeats, operands warm. The peer is loaded when it is there; without it its
// column is empty.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "cpu/kernels.hpp"
#include "first_line.hpp"

namespace {

using namespace rehearsal::cpu;

// cblas_sgemm of the C interface to BLAS: row major 101, no transpose 111, transpose 112.
using Sgemm = void (*)(int order, int transposed_a, int transposed_b, int m, int n, int k, float alpha, const float* a,
                       int lda, const float* b, int ldb, float beta, float* c, int ldc);

Sgemm peer() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  if (const auto threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))) threads(1);
  return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

template <class Run>
double best_seconds(int repeats, Run run) {
  double best = 1e9;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 9;
  const Sgemm theirs = peer();
  struct Form {
    const char* name;
    bool transposed_a, transposed_b, accumulate;
  };
  constexpr Form kForms[] = {
      {"forward", false, true, false}, {"input-gradient", false, false, false}, {"weight-gradient", true, false, true}};
  const bool fresh = !std::ifstream(RESULTS).good();
  std::ofstream csv(RESULTS, std::ios::app);
  if (fresh) csv << "date,cpu,commit,form,n,gflops,openblas_gflops,ratio\n";
  const std::string date = first_line_of("date +%F");
  const std::string cpu = first_line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo");
  const std::string commit = first_line_of("git describe --always --dirty --exclude '*' 2>/dev/null");
  for (const Form& form : kForms)
    for (const int n : {64, 128, 256, 512, 1024}) {
      std::vector<float> a(std::size_t(n) * n, .5f), b(a.size(), .25f), c(a.size());
      const double flop = 2. * n * n * n;
      const double ours =
          flop / 1e9 / best_seconds(repeats, [&] {
            gemm({n, n, n, a.data(), b.data(), c.data(), form.transposed_a, form.transposed_b, form.accumulate});
          });
      double other = 0;
      if (theirs)
        other = flop / 1e9 / best_seconds(repeats, [&] {
                  theirs(101, form.transposed_a ? 112 : 111, form.transposed_b ? 112 : 111, n, n, n, 1, a.data(), n,
                         b.data(), n, form.accumulate ? 1 : 0, c.data(), n);
                });
      const auto peer_text = theirs ? fmt::format("{:.1f}", other) : "",
                 ratio = theirs ? fmt::format("{:.2f}", ours / other) : "";
      fmt::print("{:<16} {:>5}  {:>7.1f} GFLOP/s   OpenBLAS {:>7}   ratio {}\n", form.name, n, ours, peer_text, ratio);
      csv << fmt::format("{},{},{},{},{},{:.1f},{},{}\n", date, cpu, commit, form.name, n, ours, peer_text, ratio);
    }
}
