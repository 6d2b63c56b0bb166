// SimGrid's bare fluid model: no factors, no cross traffic, no window limit (TCP-gamma 0 would not disable it). Links
// have no latency, because SimGrid shares in inverse proportion to it. A flow's bound is set through its mailbox, since
// `sendto` takes none; its weights are repetitions of a link in the route.
#include "flows/networks.hpp"

#ifndef HAS_SIMGRID

namespace rehearsal::flows {
bool has_simgrid() { return false; }
Ran run_simgrid(const Network&) { return {}; }
}  // namespace rehearsal::flows

#else

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::flows {
namespace {

namespace s4u = simgrid::s4u;

class Simulated {
 public:
  Simulated(const Network& network, std::vector<double>& ends) : network_(network), ends_(ends) {
    zone_ = s4u::create_full_zone("zone");
    for (std::size_t l = 0; l < network.links.size(); ++l)
      links_.push_back(zone_->create_link("l" + std::to_string(l), double(network.links[l]))->seal());
    if (network.ring)
      add_ring();
    else
      add_pairs();
    zone_->seal();
    if (network.ring)
      start_ring();
    else
      start_pairs();
  }

 private:
  s4u::Host* host(const std::string& name) { return zone_->create_host(name, 1e9)->seal(); }
  void add_route(s4u::Host* a, s4u::Host* b, const Flow& flow) {
    std::vector<s4u::LinkInRoute> route;
    for (const std::uint32_t l : flow.route) route.emplace_back(links_[l]);
    zone_->add_route(a->get_netpoint(), b->get_netpoint(), nullptr, nullptr, route, false);
  }
  s4u::CommPtr send(std::size_t i) {
    const Flow& flow = network_.flows[i];
    auto comm = s4u::Mailbox::by_name(std::to_string(i))->put_init(&ends_, static_cast<std::uint64_t>(flow.bytes));
    if (flow.bound) comm->set_rate(double(flow.bound));
    comm->start();
    return comm;
  }
  s4u::CommPtr receive(std::size_t i) {
    return s4u::Mailbox::by_name(std::to_string(i))->get_async<void>(&nowhere_[i]);
  }
  void done(std::size_t i) { ends_[i] = s4u::Engine::get_clock(); }

  void add_ring() {
    for (std::size_t h = 0; h < network_.chains; ++h) hosts_.push_back(host("h" + std::to_string(h)));
    for (std::size_t h = 0; h < network_.chains; ++h)
      add_route(hosts_[h], hosts_[(h + 1) % network_.chains], network_.flows[h]);
  }
  void start_ring() {
    const std::size_t n = network_.chains;
    for (std::size_t h = 0; h < n; ++h)
      s4u::Actor::create("r" + std::to_string(h), hosts_[h], [this, n, h] {
        for (std::size_t i = h; i < network_.flows.size(); i += n) {
          auto sent = send(i), received = receive(i - h + (h + n - 1) % n);
          sent->wait();
          done(i);
          received->wait();
        }
      });
  }

  // Every route gets two hosts of its own, so a flow can use any links.
  void add_pairs() {
    for (const Flow& flow : network_.flows) {
      auto& [a, b] = pairs_[flow.route];
      if (a) continue;
      a = host("a" + std::to_string(pairs_.size()));
      b = host("b" + std::to_string(pairs_.size()));
      add_route(a, b, flow);
    }
  }
  void start_pairs() {
    const std::size_t flows = network_.flows.size(), n = network_.chains > 0 ? network_.chains : flows;
    for (std::size_t h = 0; h < n; ++h) {
      const auto [a, b] = pairs_[network_.flows[h].route];
      s4u::Actor::create("s" + std::to_string(h), a, [this, flows, n, h] {
        s4u::this_actor::sleep_until(to_seconds(network_.flows[h].at));
        for (std::size_t i = h; i < flows; i += n) {
          const auto [from, to] = pairs_.at(network_.flows[i].route);
          if (network_.flows[i].bound)
            send(i)->wait();
          else
            s4u::Comm::sendto(from, to, static_cast<std::uint64_t>(network_.flows[i].bytes));
          done(i);
        }
      });
      s4u::Actor::create("r" + std::to_string(h), b, [this, flows, n, h] {
        for (std::size_t i = h; i < flows; i += n)
          if (network_.flows[i].bound) receive(i)->wait();
      });
    }
  }

  const Network& network_;
  std::vector<double>& ends_;
  std::vector<void*> nowhere_ = std::vector<void*>(network_.flows.size());
  s4u::NetZone* zone_ = nullptr;
  std::vector<s4u::Link*> links_;
  std::vector<s4u::Host*> hosts_;
  std::map<std::vector<std::uint32_t>, std::pair<s4u::Host*, s4u::Host*> > pairs_;
};

double simulate(const Network& network, std::vector<double>& ends) {
  std::vector<std::string> words{"simgrid",
                                 "--log=root.thres:error",
                                 "--cfg=network/model:CM02",
                                 "--cfg=network/crosstraffic:0",
                                 "--cfg=network/latency-factor:1",
                                 "--cfg=network/bandwidth-factor:1",
                                 "--cfg=network/weight-S:0",
                                 "--cfg=network/TCP-gamma:1e18",
                                 "--cfg=contexts/stack-size:64"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  s4u::Engine engine(&argc, argv.data());
  const Simulated simulated(network, ends);
  const auto begun = std::chrono::steady_clock::now();
  engine.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// Transfers all bytes through a pipe; false if the pipe ends early.
template <class Act>
bool whole(std::vector<double>& values, Act act) {
  char* at = reinterpret_cast<char*>(values.data());
  for (std::size_t left = values.size() * sizeof(double); left > 0;) {
    const ssize_t n = act(at, left);
    if (n <= 0) return false;
    at += n;
    left -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

bool has_simgrid() { return true; }

// In a separate process: SimGrid allows one engine per process.
Ran run_simgrid(const Network& network) {
  std::vector<double> values(network.flows.size() + 1, -1);  // the last is the wall time
  int ends[2];
  if (pipe(ends) != 0) throw MachineError("no pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) throw MachineError("no process");
  if (child == 0) {
    values.back() = simulate(network, values);
    _exit(whole(values, [&](char* at, std::size_t n) { return write(ends[1], at, n); }) ? 0 : 1);
  }
  close(ends[1]);
  const bool read_all = whole(values, [&](char* at, std::size_t n) { return read(ends[0], at, n); });
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (!read_all) throw MachineError("SimGrid did not finish");
  Ran ran;
  ran.seconds = values.back();
  values.pop_back();
  ran.ends = std::move(values);
  return ran;
}

}  // namespace rehearsal::flows

#endif
