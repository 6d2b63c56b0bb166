// A tower in front of a model (Vision) as frameworks run it: on the first stage, before its first layer, recomputed as
// layers are. Its parts follow each other in one part with the embedding, whose state is sharded and gathered as one.
#include <utility>

#include "base/error.hpp"
#include "models/vision.hpp"

namespace rehearsal::models {
namespace {

using Index = std::uint16_t;
using List = std::vector<Step>;

// Parts one after the other as one part.
class Series {
 public:
  explicit Series(Part first) : whole_(std::move(first)) {}

  // What `next` reads is what the series gives; it stays until the backward, also where steps that make it are
  // repeated.
  void append(const Part& next) { append(next, whole_.output, whole_.output_gradient); }
  // `next` reads nothing of it.
  void append_beside(const Part& next) {
    const auto output = whole_.output, gradient = whole_.output_gradient;
    append(next, std::nullopt, std::nullopt);
    whole_.output = output, whole_.output_gradient = gradient;
  }
  Index place(Index value) const { return places_[value]; }  // of the part that was appended last
  Part& part() { return whole_; }

 private:
  void append(const Part& next, std::optional<Index> made, std::optional<Index> gradient) {
    if (made) whole_.values[*made].stays = true;
    places_.clear();
    for (std::size_t v = 0; v < next.values.size(); ++v) {
      const bool is_input = made && v == next.input, is_gradient = gradient && v == next.input_gradient;
      places_.push_back(is_input ? *made : is_gradient ? *gradient : Index(whole_.values.size()));
      if (is_input || is_gradient) continue;
      INVARIANT(whole_.values.size() < 0xffff, "a part has fewer than 65,535 values");
      whole_.values.push_back(next.values[v]);
    }
    const auto shift = Index(whole_.tiles.size());
    const auto moved = [&](List steps) {
      for (auto& step : steps) {
        for (auto& operand : step.operands)
          if (operand.of == Operand::Of::value) operand.index = places_[operand.index];
        if (step.tile) *step.tile += shift;
        if (step.completes) *step.completes += shift;
      }
      return steps;
    };
    auto forward = moved(next.forward);
    whole_.forward.insert(whole_.forward.end(), forward.begin(), forward.end());
    std::int64_t launched = 0;  // nobody waits between them
    for (const Part* part : {&std::as_const(whole_), &next})
      for (const auto& run : part->forward_launches) launched += run.launches;
    whole_.forward_launches = {{whole_.forward.size(), launched}};
    for (auto list :
         {&Part::input_gradient_steps, &Part::weight_gradient_steps, &Part::backward, &Part::norm_backward}) {
      auto steps = moved(next.*list);
      (whole_.*list).insert((whole_.*list).begin(), steps.begin(), steps.end());
    }
    whole_.tiles.insert(whole_.tiles.end(), next.tiles.begin(), next.tiles.end());
    whole_.segments.insert(whole_.segments.end(), next.segments.begin(), next.segments.end());
    whole_.gradients.insert(whole_.gradients.begin(), next.gradients.begin(), next.gradients.end());
    for (auto sum : {&Part::parameters, &Part::learning, &Part::spared}) whole_.*sum += next.*sum;
    for (auto sum : {&Part::backward_launches, &Part::weight_launches, &Part::norm_launches}) whole_.*sum += next.*sum;
    whole_.counts_modules |= next.counts_modules;
    const auto place = [&](std::optional<Index> v) { return v ? std::optional(places_[*v]) : std::nullopt; };
    whole_.output = place(next.output), whole_.output_gradient = place(next.output_gradient);
  }

  Part whole_;
  std::vector<Index> places_;
};

// It is computed and teaches nothing: nothing is kept, and there is no backward.
void freeze(Part& part) {
  for (auto list : {&Part::input_gradient_steps, &Part::weight_gradient_steps, &Part::backward, &Part::norm_backward})
    (part.*list).clear();
  part.gradients.clear();
  part.learning = 0;
  part.backward_launches = part.weight_launches = part.norm_launches = 0;
  part.output_gradient = part.input_gradient = std::nullopt;
}

// A projector is no layer, whose modules could be counted.
void count_kernels(Part& part) {
  part.counts_modules = false;
  part.forward_launches = {{part.forward.size(), launches(part.forward)}};
  part.weight_launches = launches(part.weight_gradient_steps);
  part.backward_launches = launches(part.input_gradient_steps) + part.weight_launches;
}

// One kernel reads the rows and writes them to their places, and one gets their gradients from there.
Step copied(std::string_view name, const Value& rows, Index from, Index to) {
  return {name,
          MemoryBound{Bytes(2 * rows.size.count()), 1, Traffic::plain},
          {{Operand::Of::value, from, false}, {Operand::Of::value, to, true}}};
}

}  // namespace

Part with_pictures(Part embedding, const FrameworkRun& of_model) {
  const auto& vision = *of_model.model.vision;
  const bool frozen = vision.frozen || of_model.training.frozen();
  const auto model = tower(vision);
  const auto shard = tower_shard(vision, of_model.shard);
  auto training = of_model.training;
  training.causal = false;
  training.adapter_rank = 0, training.frozen_precision = FrozenPrecision::training;
  const Routed routing;
  const FrameworkRun run{model, training, of_model.framework, shard, routing};
  const auto blocks = tower_blocks(vision, of_model.model.hidden,
                                   {.shard = shard, .separate_projections = of_model.framework.separate_projections});
  const auto mode = frozen || !training.recomputes_alike() ? Recompute::none : training.recompute;

  Series all(FrameworkRewrite(blocks.front, run).build(Recompute::none));
  const auto layer = FrameworkRewrite(blocks.layer, run).build(mode);
  for (std::int64_t i = 0; i < vision.layers; ++i) all.append(layer);
  auto projector = FrameworkRewrite(blocks.projector, run).build(Recompute::none);
  count_kernels(projector);
  all.append(projector);
  if (frozen) freeze(all.part());

  Series both(std::move(embedding));
  const auto given = all.part().output, gradient = all.part().output_gradient;
  both.append_beside(all.part());
  auto& part = both.part();
  const Index rows = both.place(*given);
  part.forward.push_back(copied("pictures to their places", part.values[rows], rows, *part.output));
  part.forward_launches.back() = {part.forward.size(), part.forward_launches.back().launches + 1};
  if (frozen) return std::move(part);
  const auto back = copied("gradient of pictures", part.values[rows], *part.output_gradient, both.place(*gradient));
  for (auto* list : {&part.input_gradient_steps, &part.backward, &part.norm_backward})
    if (!list->empty()) list->insert(list->begin(), back);
  ++part.backward_launches;
  return std::move(part);
}

}  // namespace rehearsal::models
