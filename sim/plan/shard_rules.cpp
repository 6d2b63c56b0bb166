// Rules on how shards travel: second copies and narrower groups for gathers (ZeRO++, arXiv 2306.10209, section 3.2;
// FSDP2), and fewer bits for gathers and reductions (ZeRO++, sections 3.1 and 3.3).
#include <fmt/format.h>

#include "plan/rules.hpp"

namespace rehearsal::plan {
namespace {

struct ShardChecks {
  const models::Training& training;
  const Parallelism& p;
  std::vector<Violation> all{};
  bool sound = true;

  void refuse(const char* key, bool wrong, const std::string& rule) {
    if (wrong && sound) all.push_back({key, rule}), sound = false;
  }
  bool copies() const { return p.shard > 0 && p.shard < p.data; }
  bool over_gpus() const { return p.expert * p.expert_tensor > 1; }

  // What whole parameters need that are gathered in another way than all of them from all.
  void gathered(const char* key, const char* name) {
    refuse(
        key, over_gpus(),
        fmt::format("'{}' is not supported with experts over several GPUs; leave it out, or set 'expert' to 1", name));
    refuse(key, training.updates_at_once(),
           fmt::format("'{}' is not supported with optimizers that step inside the backward; leave it out", name));
    refuse(key, training.offload.parameters != Tier::device || training.offload.one_owner || training.offload.tiles > 1,
           fmt::format("'{}' applies to parameters that stay on their GPUs as whole layers; leave it or "
                       "'training.offload' out",
                       name));
  }

  void again(const char* key, const char* name, std::int64_t over) {
    const std::int64_t shards = (p.shard > 0 ? p.shard : p.data) * p.context;
    refuse(key, over >= shards || shards % over != 0 || over < 2,
           fmt::format("'{}' {} must divide the {} GPUs that share the parameters, and be less", name, over, shards));
    refuse(
        key, over % p.context != 0,
        fmt::format("'{}' {} must be a multiple of 'context' {}, whose ranks are among them", name, over, p.context));
    gathered(key, name);
  }

  std::vector<Violation> run() {
    constexpr const char *kSecond = "parallelism.secondary_shard", *kGathers = "training.quantised_gathers",
                         *kReductions = "training.quantised_reductions",
                         *kReshard = "training.fsdp.reshard_after_forward";
    const auto needs_zero_3 = [&](const char* key, const char* name) {
      refuse(key, p.zero != 3,
             fmt::format("'{}' applies to parameters that 'zero' 3 shards (zero is {}); leave it out", name, p.zero));
      refuse(key, p.data * p.context == 1, fmt::format("'{}': with one GPU nothing is sharded; leave it out", name));
    };
    if (p.secondary_shard > 0) {
      needs_zero_3(kSecond, "secondary_shard");
      refuse(kSecond, training.reshard_over > 0,
             "'secondary_shard' and a number for 'reshard_after_forward' both say over which GPUs the backward "
             "gathers; leave one of them out");
      refuse(kSecond, copies(), "'secondary_shard' and 'shard' cannot be combined; leave one of them out");
      again(kSecond, "secondary_shard", p.secondary_shard);
    }
    if (training.reshard_over > 0 && p.zero == 3) {
      // torch, _fsdp_param.py, to_sharded_post_forward: "Resharding to smaller mesh with TP is not supported yet".
      refuse(kReshard, p.tensor > 1,
             "'reshard_after_forward': FSDP2 takes a number only without tensor parallelism; set it to true or false");
      again(kReshard, "reshard_after_forward", training.reshard_over);
    }
    sound = true;
    if (training.quantised_gathers) {
      needs_zero_3(kGathers, "quantised_gathers");
      refuse(kGathers, training.precision != Precision::bf16 && training.precision != Precision::fp16,
             fmt::format("'quantised_gathers' sends parameters of 16 bits in 8, not those of {}; leave it out",
                         name(training.precision)));
      refuse(kGathers, training.quantises(),
             "'quantised_gathers': 'frozen_precision' has fewer bits already; leave one of them out");
      gathered(kGathers, "quantised_gathers");
    }
    sound = true;
    if (training.quantised_reductions) {
      needs_zero_3(kReductions, "quantised_reductions");
      refuse(kReductions, bytes_per_element(training.gradient_precision) != 2,
             "'quantised_reductions' sends gradients of 16 bits in 4; set 'gradient_precision' to bf16 or fp16");
      refuse(kReductions, p.context > 1,
             "'quantised_reductions' exchanges among replicas, and is not supported with 'context'; leave it out");
      refuse(kReductions, copies(), "'quantised_reductions' is not supported with copies of 'shard'; leave it out");
      refuse(kReductions, training.offload.gradients != Tier::device,
             "'quantised_reductions' is not supported with gradients that leave the GPU; leave it out");
      gathered(kReductions, "quantised_reductions");
    }
    return std::move(all);
  }
};

}  // namespace

std::vector<Violation> broken_by_shards(const models::Training& training, const Parallelism& parallelism) {
  return ShardChecks{training, parallelism}.run();
}

}  // namespace rehearsal::plan
