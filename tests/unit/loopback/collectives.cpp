// Collectives among threads, by every registered algorithm's own steps and by one thread for all.
#include <doctest/doctest.h>

#include <exception>
#include <thread>

#include "../../collective_cases.hpp"
#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/probe.hpp"
#include "loopback/in_process_transport.hpp"

namespace rehearsal::loopback {
namespace {

using cases::Case;

// One collective after the other, of one group.
struct Wanted {
  const collective::Execution* by;  // null: by one thread
  Case operands;
};

// What each member got, by collective; throws what a member finds wrong.
std::vector<std::vector<std::vector<std::byte>>> perform(std::uint32_t members, const std::vector<Wanted>& all) {
  const auto graph = dispatch::probe_graph(members);
  InProcessTransport hub(graph);
  std::vector<std::vector<std::vector<std::byte>>> results(all.size(), std::vector<std::vector<std::byte>>(members));
  std::vector<std::exception_ptr> errors(members);
  const auto member = [&](std::uint32_t me) {
    auto& transport = hub.transport(RankId(me));
    for (std::size_t i = 0; i < all.size(); ++i) {
      cases::Operands operands(all[i].operands, me);
      const auto& [kind, precision, n, length, form] = all[i].operands;
      transport.join(graph::EndpointId(0), kind, precision, operands.all(), all[i].by);
      std::optional<dispatch::Transport::Meeting> meeting;
      while (!(meeting = transport.joined(graph::EndpointId(0)))) transport.wait(dispatch::now() + seconds(1e-2));
      if (meeting->done < meeting->together) throw MachineError("a collective ends after all have joined");
      if (const auto wrong = operands.wrong(); !wrong.empty()) throw MachineError(wrong);
      results[i][me] = operands.bits();
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t m = 0; m < members; ++m)
    threads.emplace_back([&, m] {
      try {
        member(m);
      } catch (...) {
        errors[m] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}

TEST_CASE("every algorithm among 2 to 9 threads gives a serial sum, the same bits on all of them and in every run") {
  for (std::uint32_t members = 2; members <= 9; ++members) {
    CAPTURE(members);
    const auto executions = cases::executions(members);
    std::vector<Wanted> all;
    for (const auto& execution : executions)
      for (const std::size_t length : {0, 1, 7, 1000, 100'000})
        for (const Precision precision : {Precision::fp32, Precision::bf16}) {
          if (length > 1000 && (precision == Precision::bf16 || execution.pieces == 1)) continue;
          const auto forms = cases::forms(execution.algorithm->kind);
          all.push_back(
              {&execution, {execution.algorithm->kind, precision, members, length, forms[all.size() % forms.size()]}});
        }
    const auto first = perform(members, all), second = perform(members, all);
    CHECK(first == second);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(all[i].by->algorithm->name);
      CAPTURE(all[i].operands.text());
      for (const auto& other : first[i])
        if (all[i].operands.kind == CollectiveKind::all_reduce) CHECK(other == first[i].front());
    }
  }
}

TEST_CASE("one thread adds for all, where steps are not asked for") {
  using enum CollectiveKind;
  std::vector<Wanted> all;
  for (const auto kind : {all_reduce, reduce_scatter, all_gather, all_to_all, shift})
    for (const std::size_t length : {1, 1000})
      for (const auto form : cases::forms(kind))
        if (const Case c{kind, Precision::fp32, 3, length, form}; !c.uneven()) all.push_back({nullptr, c});
  CHECK_NOTHROW(perform(3, all));
}

}  // namespace
}  // namespace rehearsal::loopback
