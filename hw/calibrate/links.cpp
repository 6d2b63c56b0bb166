#include "calibrate/links.hpp"

#include <exception>
#include <thread>

#include "loopback/in_process_transport.hpp"

namespace rehearsal::calibrate {

dispatch::LinkProbe probe_loopback(unsigned ranks, const dispatch::Algorithms& algorithms) {
  const auto graph = dispatch::probe_graph(ranks);
  loopback::InProcessTransport hub(graph);
  std::vector<dispatch::LinkProbe> probes(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < ranks; r++)
    threads.emplace_back([&, r] {
      try {
        dispatch::Progress unwatched;
        probes[r] = dispatch::probe(hub.transport(RankId(r)), RankId(r), ranks, algorithms, unwatched);
      } catch (...) {
        errors[r] = std::current_exception();
        hub.stop();
      }
    });
  for (auto& t : threads) t.join();
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
  auto all = dispatch::merge(probes);
  all.single_copy = false;  // copied into a buffer of the transport, and out of it
  return all;
}

}  // namespace rehearsal::calibrate
