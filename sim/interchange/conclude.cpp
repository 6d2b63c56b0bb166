#include "interchange/conclude.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "interchange/machine.hpp"
#include "scenario/document.hpp"

namespace rehearsal::interchange {
namespace {

constexpr std::int64_t kUsualSequence = 4096;
constexpr const char* kUsualCluster = "dgx-h100";

std::int64_t value(const ScenarioDraft& draft, Fact fact, std::int64_t otherwise) {
  return draft[fact] ? draft[fact]->value : otherwise;
}

[[noreturn]] void contradiction(const ScenarioDraft& draft, Fact fact, const std::string& message) {
  const auto& given = draft[fact];
  const bool placed = given && given->origin.basis == Basis::said;
  throw UserError({{placed ? given->origin.where : Location{}, message}});
}

class Conclusion {
 public:
  Conclusion(ScenarioDraft& draft, const scenario::Files& files) : draft_(draft), files_(files) {}

  void draw() {
    refuse_keyless();
    wanted();
    bounds();
    const bool alone = is_of_machine_alone(draft_);
    if (!alone) model();
    named_machine();
    if (alone) return;
    machine();
    draft_.run_later(files_);
    degrees();
    batch();
    vocabulary();
    draft_.derive("version", 1, "the form of this file");
    if (!draft_.has("name")) draft_.assume("name", "imported", "no file says it");
  }

 private:
  void refuse_keyless() const {
    if (!draft_.keys().empty() || draft_.keyless().empty()) return;
    std::vector<Diagnostic> errors;
    for (const auto& file : draft_.keyless()) errors.push_back({file.where, printable(file.holds)});
    errors.push_back({{}, draft_.keyless().back().cure});
    throw UserError(std::move(errors));
  }

  // Words such as "auto", whose value is in another file.
  void wanted() {
    std::vector<Diagnostic> errors;
    for (const auto& want : draft_.wants())
      if (!draft_.has(want.key) && !(want.key == "batch.global" && draft_[Fact::accumulation]))
        errors.push_back({want.where, printable(fmt::format("{}: the value is in {}; or give --set {}=VALUE", want.what,
                                                            want.from, want.key))});
    if (!errors.empty()) throw UserError(std::move(errors));
  }

  // What is multiplied and divided below. Scenarios take no more, either.
  void bounds() const {
    static constexpr std::int64_t kMost = 1'000'000;
    std::vector<Diagnostic> errors;
    const auto check = [&errors](const std::string& what, std::int64_t value, const Origin& origin) {
      if (value < 1 || value > kMost)
        errors.push_back({origin.basis == Basis::said ? origin.where : Location{},
                          fmt::format("{} must be from 1 to {}; found {}", what, kMost, value)});
    };
    for (const char* key : {"parallelism.tensor", "parallelism.context", "parallelism.pipeline", "parallelism.data",
                            "batch.global", "batch.micro", "cluster.nodes", "cluster.gpus", "cluster.gpus_per_node"})
      if (draft_.find(key)) check(fmt::format("'{}'", key), draft_.integer(key, 1), *draft_.origin(key));
    for (const auto fact : {Fact::world, Fact::nodes, Fact::gpus_per_node, Fact::replicas, Fact::data,
                            Fact::accumulation, Fact::vocabulary_unit, Fact::nodes_per_leaf})
      if (const auto& given = draft_[fact]) check(name(fact), given->value, given->origin);
    if (const auto& shards = draft_[Fact::shards]; shards && shards->value != -1)
      check(name(Fact::shards), shards->value, shards->origin);
    if (!errors.empty()) throw UserError(std::move(errors));
  }

  void model() {
    if (draft_.has("costs")) return;
    if (!draft_.has("model"))
      throw UserError(
          "no file says which model is trained; give its config.json beside the others, or --set model=NAME "
          "(rehearse list models)");
    // A config.json goes before a name.
    if (draft_.has("model.family") && draft_.has("model.layers") && draft_.has("model.hidden"))
      draft_.remove("model.use");
    if (draft_.has("model.sequence") || draft_.has("batch.sequence") || draft_.find("model") ||
        draft_.find("model.use"))
      return;
    const auto longest = value(draft_, Fact::longest, kUsualSequence);
    draft_.assume("model.sequence", std::min(longest, kUsualSequence),
                  draft_[Fact::longest]
                      ? fmt::format("no file says how long sequences are in training; the model takes {}", longest)
                      : std::string("no file says it"));
  }

  std::int64_t replica() const {  // GPUs of one
    std::int64_t gpus = 1;
    for (const char* axis : {"tensor", "context", "pipeline"})
      gpus *= draft_.integer(fmt::format("parallelism.{}", axis), 1);
    return gpus;
  }

  // GPUs of a node of the cluster.
  std::int64_t per_node() {
    if (draft_.has("cluster.gpus_per_node")) return draft_.integer("cluster.gpus_per_node", 8);
    const Json* name = draft_.find("cluster.use");
    if (!name || !name->is_string()) return 8;
    scenario::Diagnostics problems;
    scenario::Documents documents(problems, files_);
    const auto* root = documents.read_file(files_.home() + "/configs/clusters/" + name->text() + ".yaml");
    const auto* gpus = root ? root->find("gpus_per_node") : nullptr;
    if (gpus && gpus->kind == scenario::Node::Kind::map) gpus = gpus->find("value");
    return gpus ? std::max(1, std::atoi(gpus->text.c_str())) : 8;
  }

  void named_machine() {
    if (!draft_.has("cluster.use") && !draft_.has("cluster.gpu") && !draft_.find("cluster"))
      draft_.assume("cluster.use", kUsualCluster, "no file says the machine; --cluster names another");
    complete_machine(draft_, files_);
  }

  void machine() {
    const auto node = per_node();
    const auto used = value(draft_, Fact::gpus_per_node, 0);
    const auto nodes = value(draft_, Fact::nodes, draft_.integer("cluster.nodes", 0));
    if (const auto gpus = draft_.integer("cluster.gpus", 0); gpus > 0)
      draft_.derive(Fact::world, gpus, to_text(*draft_.origin("cluster.gpus")));
    if (nodes > 0 && used > 0)
      draft_.derive(Fact::world, nodes * used, fmt::format("{} nodes x {} GPUs", nodes, used));
    else if (nodes > 0)
      draft_.derive(Fact::world, nodes * node, fmt::format("{} nodes x the {} GPUs that each has", nodes, node));
    if (const auto& world = draft_[Fact::world]; world && nodes > 0 && used > 0 && world->value != nodes * used)
      contradiction(
          draft_, Fact::world,
          fmt::format("{} GPUs are not {} nodes x {} GPUs; one of the three is wrong", world->value, nodes, used));
    if (!draft_[Fact::world]) {
      const auto data = value(draft_, Fact::data, draft_.integer("parallelism.data", 0));
      const auto shards = value(draft_, Fact::shards, -1);
      const auto replicas = value(draft_, Fact::replicas, 1);
      if (data > 0)
        draft_.derive(Fact::world, replica() * data, fmt::format("{} replicas of {} GPUs", data, replica()));
      else if (shards > 0)
        draft_.derive(Fact::world, replica() * shards * replicas,
                      fmt::format("{} x {} replicas of {} GPUs", replicas, shards, replica()));
      else
        assume_world(node);
    }
    if (!draft_.has("cluster.nodes") && !draft_.has("cluster.gpus") && !draft_.find("cluster")) {
      const auto& world = *draft_[Fact::world];
      const bool whole = world.value % node == 0 && (used == 0 || used == node);
      draft_.derive(whole ? "cluster.nodes" : "cluster.gpus", whole ? world.value / node : world.value,
                    fmt::format("{} GPUs ({})", world.value, to_text(world.origin)));
    }
  }

  // One node, or as many as one replica takes.
  void assume_world(std::int64_t node) {
    const auto least = replica();
    const auto world = least <= node && node % least == 0 ? node : least;
    draft_.assume(Fact::world, world,
                  world == node ? "no file says how many GPUs; one node (--world says more)"
                                : "no file says how many GPUs; one replica (--world says more)");
  }

  void degrees() {
    const auto world = draft_[Fact::world]->value, one = replica();
    if (world % one != 0)
      contradiction(
          draft_, Fact::world,
          fmt::format("{} GPUs are no multiple of tensor {} x context {} x pipeline {} = {}; one of these is "
                      "wrong (--world says how many GPUs there are)",
                      world, draft_.integer("parallelism.tensor", 1), draft_.integer("parallelism.context", 1),
                      draft_.integer("parallelism.pipeline", 1), one));
    const auto data = world / one;
    const auto said = draft_.integer("parallelism.data", value(draft_, Fact::data, data));
    if (said != data)
      contradiction(draft_, draft_[Fact::data] ? Fact::data : Fact::world,
                    fmt::format("{} replicas of {} GPUs are not {} GPUs; one of these is wrong (--set "
                                "parallelism.data={} would fit)",
                                said, one, world, data));
    draft_.derive("parallelism.data", data, fmt::format("{} GPUs / {} of a replica", world, one));
    shards(data);
    // What a degree of one has nothing to do with.
    if (draft_.integer("parallelism.tensor", 1) == 1 && draft_.find("parallelism.sequence"))
      draft_.remove("parallelism.sequence");
  }

  // Replicas that shard, and groups of them that hold copies.
  void shards(std::int64_t data) {
    const auto zero = draft_.integer("parallelism.zero", 0);
    auto copies = value(draft_, Fact::replicas, 0), shard = value(draft_, Fact::shards, 0);
    if (copies <= 0 && shard <= 0) return;
    if (copies <= 0) copies = shard > 0 ? std::max<std::int64_t>(1, data / shard) : 1;
    if (shard <= 0) shard = data / copies;
    if (copies * shard != data)
      contradiction(draft_, draft_[Fact::shards] ? Fact::shards : Fact::replicas,
                    fmt::format("{} groups of {} replicas that shard are not {} replicas; one of these is wrong",
                                copies, shard, data));
    if (copies > 1 && shard > 1 && zero > 0)
      draft_.derive("parallelism.shard", shard, fmt::format("{} replicas in {} groups that hold copies", data, copies));
  }

  void batch() {
    if (draft_.has("batch.microbatches")) return;
    const auto data = draft_.integer("parallelism.data", 1);
    const auto accumulation = draft_[Fact::accumulation];
    if (!draft_.has("batch.micro") && draft_.has("batch.global") && accumulation) {
      const auto global = draft_.integer("batch.global", 1), each = data * accumulation->value;
      if (global % each != 0)
        contradiction(draft_, Fact::accumulation,
                      fmt::format("a batch of {} is no multiple of {} replicas x {} accumulations", global, data,
                                  accumulation->value));
      draft_.derive("batch.micro", global / each,
                    fmt::format("batch {} / ({} replicas x {} accumulations)", global, data, accumulation->value));
    }
    draft_.assume("batch.micro", 1, "no file says it");
    const auto micro = draft_.integer("batch.micro", 1);
    if (accumulation) {
      const auto product = micro * data * accumulation->value;
      if (const auto* origin = draft_.origin("batch.global");
          origin && draft_.integer("batch.global", product) != product)
        throw UserError(
            {{origin->where,
              fmt::format("a batch of {} sequences is not {} a micro-batch x {} accumulations x {} replicas "
                          "= {}; one of these is wrong",
                          draft_.integer("batch.global", 0), micro, accumulation->value, data, product)}});
      draft_.derive("batch.global", product,
                    fmt::format("{} a micro-batch x {} accumulations x {} replicas", micro, accumulation->value, data));
    }
    const auto pipeline = draft_.integer("parallelism.pipeline", 1);
    const auto each = pipeline > 1 ? 4 * pipeline : 1;
    draft_.assume("batch.global", micro * data * each,
                  fmt::format("no file says it; {} a micro-batch x {} replicas{}", micro, data,
                              pipeline > 1 ? fmt::format(" x {} micro-batches a pipeline rank", each) : ""));
  }

  void vocabulary() {
    const auto& plain = draft_[Fact::vocabulary];
    if (!plain || draft_.find("model") || draft_.has("model.vocabulary")) return;
    const auto unit = value(draft_, Fact::vocabulary_unit, 1) *
                      (draft_[Fact::vocabulary_unit] ? draft_.integer("parallelism.tensor", 1) : 1);
    const auto padded = (plain->value + unit - 1) / unit * unit;
    if (plain->origin.basis == Basis::assumed) return draft_.assume("model.vocabulary", padded, plain->origin.how);
    draft_.derive("model.vocabulary", padded,
                  padded == plain->value
                      ? to_text(plain->origin)
                      : fmt::format("{} ({}) padded to a multiple of {}", plain->value, to_text(plain->origin), unit));
  }

  ScenarioDraft& draft_;
  const scenario::Files& files_;
};

}  // namespace

bool is_of_machine_alone(const ScenarioDraft& draft) {
  for (const auto& [key, given] : draft.keys())
    if (!key.starts_with("cluster.") && key != "name") return false;
  for (const auto of : {Fact::replicas, Fact::shards, Fact::data, Fact::accumulation, Fact::longest, Fact::vocabulary})
    if (draft[of]) return false;
  return draft.has("cluster");
}

void conclude(ScenarioDraft& draft, const scenario::Files& files) { Conclusion(draft, files).draw(); }

}  // namespace rehearsal::interchange
