#include "interchange/deepspeed.hpp"

namespace rehearsal::interchange {

void derive_of_stage(ScenarioDraft& draft, std::int64_t stage, const std::string& optimizer) {
  draft.derive("training.overlap.gradients", stage == 3,
               stage == 0   ? "without ZeRO gradients are reduced behind the backward (allreduce_gradients)"
               : stage == 3 ? "overlap_comm true, the default of stage 3"
                            : "overlap_comm false, the default of stages 1 and 2");
  // stage_1_and_2.py (async_accumulate_grad_in_cpu_via_gpu), stage3.py (partition_grads): what the host updates from
  // goes there as soon as it is reduced.
  if (optimizer != "device" && stage >= 2)
    draft.derive("training.offload.gradients", optimizer, "offload_optimizer: gradients go where it updates");
  // get_data_types: with ZeRO gradients add up in what the model computes in.
  draft.later([stage](ScenarioDraft& all, const scenario::Files&) {
    const Json* type = all.find("training.precision");
    if (type && type->is_string() && type->text() == "bf16" && stage > 0)
      all.derive("training.gradient_precision", "bf16", "with ZeRO as the model computes (get_data_types)");
  });
}

}  // namespace rehearsal::interchange
