// How many bytes works move, and over which ways: for the algorithms that prices name, on any links.
#include "cost/cost_model.hpp"

namespace rehearsal::cost {

using graph::Moved;
using graph::Volume;
using graph::Way;

// As in footprints: inside a domain over the ports of neighbours, out of it over the NICs beside each member.
Moved CostModel::moved(const graph::Collective& work) const {
  Moved moved;
  const auto* algorithm = communication_.choose(work.group, work.kind, work.size).algorithm;
  if (!algorithm) return moved;
  const auto& machine = communication_.machine();
  const auto in_domain = machine.reach(work.group).in_domain;
  const collective::Shape shape{work.group.ranks, static_cast<std::uint32_t>(in_domain)};
  const double pieces = work.pieces;
  const auto over = [&](Way way) -> Bytes& { return moved.over[static_cast<std::size_t>(along(work.inside, way))]; };
  moved.sent[index(work.inside)] = bytes(double(algorithm->bytes_sent_per_rank(shape, work.size).count()) / pieces);
  const auto split = collective::split(*algorithm, shape, work.size);
  over(Way::port) = bytes(split.inside / pieces);
  if (shape.nodes() <= 1) return moved;
  const double out = split.out / double(in_domain) / double(machine.stripes()) / pieces;
  if (work.kind == CollectiveKind::all_to_all)
    over(Way::spread) = bytes(out / (shape.nodes() - 1));
  else
    over(Way::wire) = bytes(out);
  return moved;
}

Volume CostModel::volume(const graph::Message& work) const {
  Volume volume;
  const auto& machine = communication_.machine();
  const bool out = work.size.count() > 0 && machine.reach(work.from, work.to).leaves_domain;
  volume.own.sent[index(Axis::pipeline)] = work.size;
  volume.own.over[static_cast<std::size_t>(Way::path)] =
      bytes(double(work.size.count()) / double(out ? machine.stripes() : 1));
  if (work.gathered.count() > 0) volume.on_arrival = moved({CollectiveKind::all_gather, work.gathered, work.gather});
  return volume;
}

std::vector<Volume> CostModel::volumes(std::span<const graph::Work> works) const {
  std::vector<Volume> all;
  all.reserve(works.size());
  for (const auto& work : works) {
    Volume volume;
    if (const auto* collective = std::get_if<graph::Collective>(&work)) {
      volume.own = moved(*collective);
    } else if (const auto* tokens = std::get_if<graph::Dispatch>(&work)) {
      volume.own = moved(*tokens);
    } else if (const auto* message = std::get_if<graph::Message>(&work)) {
      volume = this->volume(*message);
    } else if (const auto* copy = std::get_if<graph::Copy>(&work)) {
      volume.own = moved(*copy);
    } else if (const auto* both = std::get_if<graph::Overlapped>(&work)) {
      volume.own = all[both->kernel.index()].own;
      volume.own.add(all[both->collective.index()].own);
    } else if (const auto* sequence = std::get_if<graph::Sequence>(&work)) {
      for (const auto& item : sequence->items) volume.own.add(all[item.work.index()].own, item.count);
    }
    all.push_back(volume);
  }
  return all;
}

}  // namespace rehearsal::cost
