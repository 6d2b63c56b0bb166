#include "collective/closed_form.hpp"

#include <limits>

namespace rehearsal::collective {

ClosedForm take_apart(const Algorithm& algorithm, Shape shape, Bytes size, const Wires& wires) {
  const Bandwidth endless(std::numeric_limits<double>::infinity());
  Wires idle;  // nothing on it takes time
  idle.rate = idle.net_rate = endless;
  idle.channels = wires.channels;
  for (const auto& crossing : wires.crossings) idle.crossings.push_back({crossing.members, endless});
  const auto with = [&](const auto& change) {
    Wires own = idle;
    change(own);
    return algorithm.time(shape, size, own);
  };
  const double rest = algorithm.time(shape, size, idle);
  ClosedForm form;
  form.fixed = rest + wires.fixed;
  form.latency = wires.latency, form.net_latency = wires.net_latency;
  form.steps = with([](Wires& w) { w.latency = 1; }) - rest;
  form.hops = with([](Wires& w) { w.net_latency = 1; }) - rest;
  const auto inside = [&](Wires& w) {
    w.rate = wires.rate, w.inside = wires.inside, w.ring_inside = wires.ring_inside;
  };
  const auto wire = [&](Wires& w) { w.net_rate = wires.net_rate, w.crossings = wires.crossings; };
  form.inside = with(inside) - rest;
  form.wire = with(wire) - rest;
  form.hidden = form.inside + form.wire + rest - with([&](Wires& w) { inside(w), wire(w); });
  return form;
}

}  // namespace rehearsal::collective
