// Rendezvous transfers with no buffer. A rank posts its sends of a channel in the order it produces and its receives in
// the order it consumes; the k-th send can only meet the k-th receive. Sends wait in the sender's queue while it
// computes, so an order fails if it cannot run at all, or if a send and its receive are for different values.
#include <fmt/format.h>

#include <deque>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"
#include "schedule/walk.hpp"

namespace rehearsal::schedule {
namespace {

class Rendezvous {
 public:
  Rendezvous(Walk& walk, const Problem& problem) : walk_(walk), stages_(problem.stages()) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, bool, const Edge*>, std::size_t> ids;
    // If stages are no chain, each edge has its own channel, so that messages that skip stages block no others.
    const auto channel = [&](std::uint32_t from_stage, std::uint32_t to_stage, bool forward, const Edge& edge) {
      const std::uint32_t from = walk.rank_of(from_stage), to = walk.rank_of(to_stage);
      const auto [it, added] =
          ids.try_emplace({from, to, forward, walk.graph().chain() ? nullptr : &edge}, channels_.size());
      if (added) channels_.push_back({from, forward, {}, 0});
      return it->second;
    };
    for (std::uint32_t s = 0; s < stages_.size(); ++s)
      for (const auto& edge : walk.graph().into(s)) {
        if (!walk.crosses(edge)) continue;
        const auto up = channel(edge.from, s, true, edge), down = channel(s, edge.from, false, edge);
        stages_[s].activation_in.push_back({up, s}), stages_[edge.from].activation_out.push_back({up, s});
        stages_[s].gradient_out.push_back({down, edge.from}),
            stages_[edge.from].gradient_in.push_back({down, edge.from});
      }
    for (std::uint32_t s = 0; s < stages_.size(); ++s)
      for (const auto& edge : walk.graph().turned_into(s)) {
        const auto turned = channel(edge.from, s, true, edge);
        stages_[edge.from].activation_out.push_back({turned, s}), stages_[s].gradient_in.push_back({turned, s});
      }
  }

  // Inlined by order: the common path, of which a compiler makes a call when it sees a second one below.
  [[gnu::always_inline]] inline bool step(std::uint32_t rank, const Action& action) {
    if (action.op == Op::weight_gradient) return true;
    const bool forward = action.op == Op::forward;
    const Stage& stage = stages_[action.stage];
    const auto& in = forward ? stage.activation_in : stage.gradient_in;
    for (const auto& end : in)
      if (!arrived(channels_[end.channel], rank, action)) return false;
    for (const auto& end : in) take(channels_[end.channel]);
    for (const auto& end : forward ? stage.activation_out : stage.gradient_out) {
      const Message message{end.stage, action.microbatch};
      auto& channel = channels_[end.channel];
      channel.sends.push_back(message);
      // Whatever the reader waits for on this channel, a new head of the queue may be it.
      if (channel.sends.size() == 1) walk_.wake_any(walk_.rank_of(message.stage));
    }
    return true;
  }

  bool step_pair(std::uint32_t rank, const Action& forward, const Action& backward) {
    for (const auto& end : stages_[forward.stage].activation_in)
      if (!arrived(channels_[end.channel], rank, forward)) return false;
    for (const auto& end : stages_[backward.stage].gradient_in)
      if (!arrived(channels_[end.channel], rank, backward)) return false;
    return step(rank, forward) && step(rank, backward);
  }

 private:
  struct Message {
    std::uint32_t stage, microbatch;  // of the action that needs it
    friend bool operator==(Message, Message) = default;
  };
  struct Channel {
    std::uint32_t from;
    bool forward;
    std::deque<Message> sends;  // produced, not yet met by a receive
    std::uint64_t met;
  };
  struct End {
    std::size_t channel;
    std::uint32_t stage;  // that needs what goes through
  };
  struct Stage {
    std::vector<End> activation_in, activation_out, gradient_in, gradient_out;
  };

  // Is what the action receives at the head of its channel?
  bool arrived(const Channel& channel, std::uint32_t rank, const Action& action) const {
    if (channel.sends.empty()) return false;
    const Message sent = channel.sends.front();
    if (sent != Message{action.stage, action.microbatch})
      throw UserError(fmt::format(
          "{}: deadlock without buffers: {} number {} from rank {} is for stage {}, micro-batch {}, but rank {} "
          "receives the one for stage {}, micro-batch {} first; both ranks must send and receive in the same order",
          walk_.where(rank), channel.forward ? "activation" : "gradient", channel.met, channel.from, sent.stage,
          sent.microbatch, rank, action.stage, action.microbatch));
    return true;
  }

  static void take(Channel& channel) {
    channel.sends.pop_front();
    ++channel.met;
  }

  Walk& walk_;
  std::vector<Stage> stages_;
  std::vector<Channel> channels_;
};

}  // namespace

void check_zero_buffer(const Schedule& schedule, const Problem& problem) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  Walk walk(ready, problem);
  Rendezvous rendezvous(walk, problem);
  walk.run(rendezvous);
}

}  // namespace rehearsal::schedule
