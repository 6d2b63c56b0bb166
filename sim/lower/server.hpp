// Parameter servers (sim/design/parameter-servers.md) as both kinds of lowering see them: the messages of a worker and
// of a server. What is done with their contents is a matter of the framework (served.cpp) or of native kernels
// (network_served.cpp).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

inline graph::Coordinates in_step(graph::Pass pass) { return {pass, 0, graph::kNoLayer, graph::kNoMicrobatch}; }

// A worker's messages: one to each server, and one back, for everything that it pushes.
class ServerMessages {
 public:
  explicit ServerMessages(ProgramDraft& draft) : draft_(draft) {
    for (std::int64_t turn = 0; turn < draft.pipe.plan->job.data_parallel.servers; ++turn) {
      draft.ends.out.push_back(draft.program.endpoint(graph::EndpointKind::send));
      draft.ends.in.push_back(draft.program.endpoint(graph::EndpointKind::receive));
    }
  }
  std::int64_t servers() const { return std::ssize(draft_.ends.out); }

  // Gradients of `parameters` parameters. `given(turn)`: the task after which the part for that server is ready.
  template <class Given>
  void push(double parameters, const graph::Coordinates& at, const Given& given) {
    for (std::size_t turn = 0; turn < draft_.ends.out.size(); ++turn) {
      const LocalTask ready = given(turn);
      draft_.program.add(
          {draft_.works.intern(graph::FixedDelay{}), graph::Lane::send_out, at, draft_.ends.out[turn].value},
          std::vector{ready});
    }
    draft_.ends.pushed.push_back(parameters);
  }
  // The results of one push, in the order of pushes. `taken(turn, arrived)` follows each message.
  template <class Taken>
  void pull(const graph::Coordinates& at, const Taken& taken) {
    for (std::size_t turn = 0; turn < draft_.ends.in.size(); ++turn)
      taken(turn, draft_.program.add(
                      {draft_.works.intern(graph::Receive{}), graph::Lane::receive, at, draft_.ends.in[turn].value}));
  }

 private:
  ProgramDraft& draft_;
};

// The program of a server, or of its thread for one worker: for everything that is pushed it takes the gradients of
// each worker, in the order of their turns, updates if servers do, and sends the result to all.
class Server {
 public:
  Server(graph::GraphBuilder& works, std::size_t workers, std::string name) : works_(works), program_(std::move(name)) {
    for (std::size_t w = 0; w < workers; ++w) {
      ends_.in.push_back(program_.endpoint(graph::EndpointKind::receive));
      ends_.out.push_back(program_.endpoint(graph::EndpointKind::send));
    }
  }
  virtual ~Server() = default;

 protected:
  // `piece`: of what is pushed. take(): the gradients of the `worker`-th; give(): the task that hands out the result.
  virtual LocalTask take(std::size_t piece, std::size_t worker, LocalTask arrived) = 0;
  virtual LocalTask update(std::size_t piece, LocalTask after) = 0;
  virtual LocalTask give(std::size_t piece, LocalTask done) = 0;

  void serve(std::size_t piece) {
    LocalTask done;
    for (std::size_t w = 0; w < ends_.in.size(); ++w)
      done = take(piece, w,
                  add(graph::Receive{}, graph::Lane::receive, graph::Pass::gradient_reduce, {}, {}, ends_.in[w].value));
    done = update(piece, done);
    for (const auto end : ends_.out)
      add(graph::FixedDelay{}, graph::Lane::send_out, graph::Pass::parameter_gather, std::vector{give(piece, done)}, {},
          end.value);
  }
  LocalTask add(const graph::Work& work, graph::Lane lane, graph::Pass pass, const std::vector<LocalTask>& after,
                const std::vector<graph::BufferUse>& uses = {}, std::uint32_t endpoint = graph::kNoEndpoint) {
    return program_.add({works_.intern(work), lane, in_step(pass), endpoint}, after, uses);
  }

  graph::GraphBuilder& works_;
  graph::ProgramBuilder program_;
  Ends ends_;
};

}  // namespace rehearsal::lower
