#include "loopback/loopback.hpp"

#include "cpu/cpu_worker.hpp"

namespace rehearsal::loopback {

std::unique_ptr<backend::Backend> make_loopback() {
  return make_loopback([](const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options) {
    return cpu::make_worker(graph, rank, options);
  });
}

}  // namespace rehearsal::loopback
