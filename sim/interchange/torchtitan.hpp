// What torchtitan's words are called here: shared by its reader (all/torchtitan.cpp) and its writer.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"

namespace rehearsal::interchange {

// Schedules of torch.distributed.pipelining (schedules.py, get_schedule_class) and ours.
struct TorchSchedule {
  const char* theirs;
  const char* ours;
  bool several;  // stages on each rank
};
inline constexpr std::array<TorchSchedule, 7> kTorchSchedules{{{"1F1B", "1f1b", false},
                                                               {"GPipe", "gpipe", false},
                                                               {"Interleaved1F1B", "interleaved-1f1b", true},
                                                               {"LoopedBFS", "looped-bfs", true},
                                                               {"InterleavedZeroBubble", "interleaved-zb", true},
                                                               {"ZBVZeroBubble", "zb-v-hand", true},
                                                               {"DualPipeV", "dualpipev", true}}};

std::vector<std::string> torch_schedules(std::optional<bool> several = {});  // theirs; all, or of so many stages

// Layers of each stage: torchtitan counts the ends of the model as so many layers and deals all out evenly, the first
// stages getting one more (distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part). Empty if that leaves a
// stage with less than none.
std::vector<std::int64_t> torchtitan_stages(std::int64_t stages, std::int64_t layers, std::int64_t first_less = 1,
                                            std::int64_t last_less = 1);

// Reads schedule, stages and layers of the section `parallelism`, for so many pipeline ranks.
void torchtitan_pipeline(Keys& section, std::int64_t pipeline);

// A scenario as the TOML that torchtitan reads.
std::string torchtitan_text(const scenario::Scenario& scenario, Lacks& lacks);

}  // namespace rehearsal::interchange
