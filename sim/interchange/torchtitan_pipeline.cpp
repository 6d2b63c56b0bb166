// How torchtitan cuts a model into the stages of a pipeline, and orders them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/names.hpp"
#include "interchange/torchtitan.hpp"
#include "plan/partition.hpp"

namespace rehearsal::interchange {

using scenario::Node;

std::vector<std::string> torch_schedules(std::optional<bool> several) {
  std::vector<std::string> names;
  for (const auto& one : kTorchSchedules)
    if (!several || one.several == *several) names.emplace_back(one.theirs);
  return names;
}

std::vector<std::int64_t> torchtitan_stages(std::int64_t stages, std::int64_t layers, std::int64_t first_less,
                                            std::int64_t last_less) {
  if (stages < 1 || layers < 1 || stages > layers + first_less + last_less) return {};
  if (stages == 1) return {layers};
  const auto all = layers + first_less + last_less;
  std::vector<std::int64_t> each(std::size_t(stages), all / stages);
  for (std::int64_t i = 0; i < all % stages; ++i) ++each[std::size_t(i)];
  each.front() -= first_less, each.back() -= last_less;
  return each.front() < 0 || each.back() < 0 ? std::vector<std::int64_t>{} : each;
}

namespace {

class TorchtitanPipeline {
 public:
  TorchtitanPipeline(ScenarioDraft& draft, std::int64_t pipeline) : draft_(draft), pipeline_(pipeline) {}

  void read(Keys& section) {
    const auto named = section.text({"pipeline_parallel_schedule"});
    const auto file = section.text({"pipeline_parallel_schedule_csv"});
    const auto layers = section.integer({"pipeline_parallel_layers_per_stage"});
    const auto first = section.integer({"pipeline_parallel_first_stage_less_layers"});
    const auto last = section.integer({"pipeline_parallel_last_stage_less_layers"});
    const auto parts = section.list({"pipeline_parallel_module_fqns_per_model_part", "module_fqns_per_model_part"});
    const auto points = section.list({"pipeline_parallel_split_points"});
    if (pipeline_ == 1) return;
    bool several = false;
    if (file && !file->value.empty()) {
      draft_.say("schedule.file", file->value, *file->at, file->word);
      several = layers || parts || !named || named->value != "PipelineScheduleSingle";
    } else {
      const std::string word = named ? named->value : "1F1B";
      const auto* found = std::find_if(kTorchSchedules.begin(), kTorchSchedules.end(),
                                       [&word](const auto& one) { return one.theirs == word; });
      if (found == kTorchSchedules.end()) {
        wrong(*named->at, fmt::format("unknown schedule '{}'; known are {}", word, fmt::join(torch_schedules(), ", ")));
      }
      if (named)
        draft_.say("schedule", found->ours, *named->at, named->word);
      else
        draft_.derive("schedule", found->ours, "pipeline_parallel_schedule 1F1B, the default");
      several = found->several;
    }
    if (points && !points->value.empty()) return split(*points);
    if (parts) return listed(*parts);
    if (!layers)
      draft_.derive("parallelism.chunks", several ? 2 : 1,
                    several ? "pipeline_llm: two stages a rank where no layers per stage are said"
                            : "one stage a rank: a schedule of single stages");
    dealt_out(layers, first ? first->value : 1, last ? last->value : 1);
  }

 private:
  // Needs the layers of the model, which may be in another file.
  void dealt_out(const std::optional<Said<std::int64_t>>& each, std::int64_t first, std::int64_t last) {
    const auto pipeline = pipeline_;
    draft_.later([each, first, last, pipeline](ScenarioDraft& draft, const scenario::Files& files) {
      const auto layers = of_model(draft, "layers", files);
      if (!layers) {
        if (each && !draft.has("parallelism.chunks"))
          wrong(*each->at, fmt::format("{} stages have {} layers each, and no file says how many the model has; --set "
                                       "parallelism.chunks=N says how many stages a rank has",
                                       each->word, each->value));
        return;
      }
      if (each && each->value > 0) {
        const auto stages = (*layers + first + last + each->value - 1) / each->value;
        if (stages % pipeline != 0)
          wrong(*each->at, fmt::format("{} layers and the ends in stages of {} are {} stages, no multiple of "
                                       "pipeline_parallel_degree {}; torchtitan refuses that, too",
                                       *layers, each->value, stages, pipeline));
        draft.derive("parallelism.chunks", stages / pipeline,
                     fmt::format("{} {}: ({} layers + {} + {}) / {} = {} stages on {} ranks", each->word, each->value,
                                 *layers, first, last, each->value, stages, pipeline));
      }
      const auto stages = pipeline * draft.integer("parallelism.chunks", 1);
      const auto dealt = torchtitan_stages(stages, *layers, first, last);
      if (dealt.empty()) throw UserError(fmt::format("{} layers cannot be dealt out to {} stages", *layers, stages));
      if (is_usual(dealt, *layers)) return;
      draft.derive(
          "partition", Json(dealt),
          fmt::format("generate_llm_fqn_per_model_part: {} layers, ends count as {} and {}", *layers, first, last));
    });
  }

  // "layers.8" begins a stage.
  void split(const Said<std::vector<const Node*>>& points) {
    const auto stages = std::int64_t(points.value.size()) + 1;
    if (stages % pipeline_ != 0)
      wrong(*points.at, fmt::format("{} stages are no multiple of pipeline_parallel_degree {}", stages, pipeline_));
    draft_.say("parallelism.chunks", stages / pipeline_, *points.at, points.word);
    std::vector<std::int64_t> begins{0};
    for (const Node* point : points.value) {
      const auto begin = point->text.starts_with("layers.") ? integer_of(point->text.substr(7)) : std::nullopt;
      if (!begin || *begin < begins.back())
        wrong(*point, fmt::format("a split point is 'layers.N', ascending; found '{}'", point->text));
      begins.push_back(*begin);
    }
    draft_.later([begins, word = points.word](ScenarioDraft& draft, const scenario::Files& files) {
      const auto layers = of_model(draft, "layers", files);
      if (!layers || *layers < begins.back()) return;
      auto list = Json::array();
      for (std::size_t i = 0; i < begins.size(); ++i)
        list.push_back((i + 1 < begins.size() ? begins[i + 1] : *layers) - begins[i]);
      draft.derive("partition", std::move(list), word);
    });
  }

  void listed(const Said<std::vector<const Node*>>& parts) {
    const auto stages = std::int64_t(parts.value.size());
    if (stages % pipeline_ != 0)
      wrong(*parts.at, fmt::format("{} stages are no multiple of pipeline_parallel_degree {}", stages, pipeline_));
    draft_.say("parallelism.chunks", stages / pipeline_, *parts.at, parts.word);
    std::vector<std::int64_t> each;
    for (const Node* part : parts.value)
      each.push_back(std::count_if(part->items.begin(), part->items.end(),
                                   [](const Node* name) { return name->text.starts_with("layers."); }));
    draft_.later([each, at = parts.at, word = parts.word](ScenarioDraft& draft, const scenario::Files& files) {
      const auto layers = of_model(draft, "layers", files);
      if (!layers || !is_usual(each, *layers)) draft.say("partition", Json(each), *at, word);
    });
  }

  // As where nothing is said.
  static bool is_usual(const std::vector<std::int64_t>& each, std::int64_t layers) {
    std::vector<std::string> warnings;
    const auto stages = std::int64_t(each.size());
    return layers + 2 >= stages && each == plan::deal_layers(layers, stages, {}, warnings);
  }

  ScenarioDraft& draft_;
  std::int64_t pipeline_;
};

}  // namespace

void torchtitan_pipeline(Keys& section, std::int64_t pipeline) {
  TorchtitanPipeline(section.draft(), pipeline).read(section);
}

}  // namespace rehearsal::interchange
