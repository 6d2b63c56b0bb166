// The tasks of the native kernels: every pass as the kernels that compute it, on buffers that live exactly as long as
// they are needed (models/lives.hpp). Always at operator detail.
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "lower/checkpoints.hpp"
#include "lower/network_state.hpp"

namespace rehearsal::lower {
namespace {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;
using graph::Pass;
using models::Operand;

class NativeEmitter : public StepEmitter {
 public:
  explicit NativeEmitter(ProgramDraft& draft)
      : draft_(draft),
        parts_(draft.pipe.parts),
        sequencer_(draft),
        state_(draft, sequencer_),
        checkpoints_(draft, rows(), &sequencer_) {
    for (const auto& stage : parts_.stages)
      for (const auto& use : stage.uses) by_position_.push_back(&use);
  }

  void begin(const std::vector<std::uint32_t>& stages, const std::map<std::uint32_t, std::uint32_t>&) override {
    checkpoints_.open();
    state_.begin(stages);
  }

  // Ignores what it should wait for: those are takes (below), earlier tasks of the compute lane.
  LocalTask pass(const Coordinates& at, bool, std::vector<LocalTask>) override {
    const std::size_t first = first_position(parts_, at.stage), n = parts_.stages[at.stage].uses.size();
    if (at.pass == Pass::forward) state_.begin_forward(at.stage, at.microbatch);
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < n; i++) {
      const std::size_t use = at.pass == Pass::forward ? i : n - 1 - i;
      const std::size_t position = first + use;
      positions.push_back(position);
      Coordinates here = at;
      here.layer = parts_.stages[at.stage].uses[use].layer;
      const Part& part = part_at(position, at.microbatch);
      const bool both = at.pass == Pass::backward || at.pass == Pass::norm_backward;
      if (at.pass == Pass::forward) {
        run(models::PassKind::forward, part, position, here);
        keep_checkpoint(position, here);
      } else if (both || at.pass == Pass::input_gradient) {
        bring_checkpoints(use, at, here);
      }
      if (at.pass == Pass::input_gradient || both) {
        make_gradients(position, here);
        run(models::PassKind::input_gradient, part, position, here);
      }
      if (at.pass == Pass::weight_gradient || both) {
        run(models::PassKind::weight_gradient, part, position, here);
        consume_gradients(position, here);
      }
    }
    if (at.pass == Pass::weight_gradient || at.pass == Pass::backward) state_.end_backward(at, positions);
    return sequencer_.last();
  }

  // Messages: the transport's copy ends where the rank's own buffer begins. If a value arrives in several parts, the
  // first one allocates the buffer.
  LocalTask take(const Coordinates& at, const P2POp& p2p, LocalTask receive) override {
    const auto [border, key] = arriving(at, p2p.value);
    std::vector<BufferUse> uses;
    if (p2p.first) {
      (*border)[key] = draft_.program.buffer({message(), MemoryCategory::activations});
      uses.emplace_back(border->at(key), Access::allocate);
    }
    uses.emplace_back(border->at(key), Access::write);
    return sequencer_.compute(staging_copy(p2p, true), at, uses, graph::kNoEndpoint, receive);
  }
  // Sends straight from the buffer that the value was received into.
  LocalTask relay(const Coordinates& at, const P2POp& p2p, LocalTask) override {
    const auto [border, key] = arriving(at, p2p.value);
    const std::vector<BufferUse> uses{{border->at(key), Access::read}};
    return sequencer_.compute(staging_copy(p2p, false), at, uses);
  }
  LocalTask hand_over(const Coordinates& at, const P2POp& p2p, LocalTask) override {
    const auto [border, key] = leaving(at, p2p.value);
    const auto it = border->find(key);
    INVARIANT(it != border->end(), "nothing to send");
    std::vector<BufferUse> uses{{it->second, Access::read}};
    if (p2p.last) {
      uses.emplace_back(it->second, Access::free);
      border->erase(it);
    }
    return sequencer_.compute(staging_copy(p2p, false), at, uses);
  }

  void drop(const Coordinates& at, const P2POp& p2p) override {
    const auto [border, key] = leaving(at, p2p.value);
    const auto it = border->find(key);
    INVARIANT(it != border->end(), "nothing to drop");
    const std::vector<BufferUse> uses{{it->second, Access::free}};
    border->erase(it);
    sequencer_.compute(draft_.works.intern(graph::FixedDelay{}), at, uses);
  }

  void finish_norms() override { state_.finish_norms(); }
  void finish_step() override { state_.finish_step(); }

 private:
  using Key = std::pair<std::size_t, std::uint32_t>;  // position, micro-batch or piece of one
  Bytes message() const { return draft_.pipe.plan->message; }
  WorkId staging_copy(const P2POp& p2p, bool incoming) {
    const auto& region = p2p.region;
    return draft_.works.intern(graph::StagingCopy{region ? Bytes(region->size) : message(), incoming, {}, region});
  }

  // Buffer of a value that enters or leaves a pass over an edge: by its position between parts, or as a skip
  // connection.
  struct StageBoundary {
    std::map<Key, BufferId>* map;
    Key key;
  };
  StageBoundary arriving(const Coordinates& at, std::uint32_t value) {
    const bool forward = at.pass == Pass::forward;
    if (value != kChainValue) return {forward ? &skips_ : &skip_gradients_, {value, at.microbatch}};
    const std::size_t first = first_position(parts_, at.stage), n = parts_.stages[at.stage].uses.size();
    return {forward ? &activations_ : &gradients_, {forward ? first : first + n - 1, at.microbatch}};
  }
  StageBoundary leaving(const Coordinates& at, std::uint32_t value) {
    const bool forward = at.pass == Pass::forward;
    if (value != kChainValue) return {forward ? &skips_ : &skip_gradients_, {value, at.microbatch}};
    const std::size_t first = first_position(parts_, at.stage), n = parts_.stages[at.stage].uses.size();
    INVARIANT(forward || first > 0, "no gradient leaves the first stage");
    return {forward ? &activations_ : &gradients_, {forward ? first + n : first - 1, at.microbatch}};
  }

  const Part& part_at(std::size_t position, std::uint32_t unit) const {
    return parts_.of(*by_position_.at(position), unit);
  }

  // --- what is kept of layers that are recomputed -------------------------------------------------------------------
  static Checkpoints::Key checkpoint(std::size_t position, const Coordinates& at) {
    return {0, at.microbatch, position};
  }
  Checkpoints::Rows rows() {
    return {[this](BufferId whole, BufferId part, const Coordinates& at) {
              const auto& plan = *draft_.pipe.plan;
              const std::int64_t columns = plan.job.model.hidden, width = bytes_per_element(plan.network().precision),
                                 rows = draft_.program.buffer(part).size.count() / width / columns;
              const std::vector<BufferUse> uses{
                  {part, Access::allocate}, {whole, Access::read}, {part, Access::write}, {whole, Access::free}};
              return sequencer_.kernel({.kind = KernelKind::own_rows, .dims = {rows, columns, plan.shard.tensor}}, at,
                                       uses);
            },
            [this](BufferId part, BufferId whole, const Coordinates& at, auto, const std::vector<BufferUse>& gone) {
              std::vector<BufferUse> uses{
                  {whole, Access::allocate}, {part, Access::read}, {whole, Access::write}, {part, Access::free}};
              uses.insert(uses.end(), gone.begin(), gone.end());
              sequencer_.tensor_gather(draft_.program.buffer(whole).size, at, uses);
              return sequencer_.last();
            }};
  }
  void keep_checkpoint(std::size_t position, const Coordinates& at) {
    if (!checkpoints_.keeps(at.layer)) return;
    const auto input = activations_.extract({position, at.microbatch});
    INVARIANT(!input.empty(), "what a recomputation begins with outlives the forward");
    checkpoints_.keep(checkpoint(position, at), input.mapped(), at, sequencer_.last());
  }
  // Brings back the checkpoint of this use, and starts to fetch those of the following uses.
  void bring_checkpoints(std::size_t use, const Coordinates& at, const Coordinates& here) {
    const auto& uses = parts_.stages[at.stage].uses;
    const std::size_t first = first_position(parts_, at.stage), ahead = state_.tiers().slots();
    for (std::size_t i = use + 1; i-- > 0 && use - i < ahead;)
      if (checkpoints_.keeps(uses[i].layer)) checkpoints_.begin(checkpoint(first + i, at), here);
    if (checkpoints_.keeps(uses[use].layer))
      activations_[{first + use, at.microbatch}] = checkpoints_.back(checkpoint(first + use, at), here).input;
  }

  // --- values -------------------------------------------------------------------------------------------------------
  // Activations enter a position from below, gradients from above: one buffer at the boundary of two parts. Pieces of a
  // sequence share keys and values, and their gradients.
  std::optional<StageBoundary> border(const Part& part, std::size_t position, std::uint32_t microbatch,
                                      std::uint16_t value) {
    if (value == part.input) return StageBoundary{&activations_, {position, microbatch}};
    if (value == part.output) return StageBoundary{&activations_, {position + 1, microbatch}};
    if (value == part.output_gradient) return StageBoundary{&gradients_, {position, microbatch}};
    // The first part has no gradient to hand on; what a layer above it makes dies there (position 0 - 1 is not used).
    if (value == part.input_gradient) return StageBoundary{&gradients_, {position - 1, microbatch}};
    const auto& skip = part.model->skip;
    if (value == skip.given || value == skip.taken)
      return StageBoundary{&skips_, {*by_position_[position]->skip, microbatch}};
    if (value == skip.given_gradient || value == skip.taken_gradient)
      return StageBoundary{&skip_gradients_, {*by_position_[position]->skip, microbatch}};
    for (const auto& shared : part.model->carried)
      if (shared.value == value) {
        const auto piece = static_cast<std::uint32_t>(shared.piece);
        const Key key{position, microbatch - microbatch % parts_.pieces + piece};
        auto& all = shared.gradient ? gradients_of_pieces_ : pieces_;
        return StageBoundary{&all[shared.which], key};
      }
    return std::nullopt;
  }
  BufferId& slot(const Part& part, std::size_t position, std::uint32_t microbatch, std::uint16_t value) {
    if (const auto found = border(part, position, microbatch, value)) return (*found->map)[found->key];
    auto& values = values_[{position, microbatch}];
    values.resize(part.values.size());
    return values[value];
  }
  bool nobody_takes_gradient(std::size_t position) const {
    return position > 0 && !part_at(position - 1, 0).output_gradient;
  }

  // --- parameters and gradients
  // ---------------------------------------------------------------------------------------
  // Parameters of each segment of a part during one pass: gathered (ZeRO-3) and dropped at its end, or fetched from
  // another tier into buffers that are used in turn.
  struct Whole {
    std::vector<std::optional<BufferId>> buffers;
    std::vector<BufferId> gathered;
    std::vector<BufferPool::Slot*> brought;
  };
  Whole gather(const std::vector<Operation>& steps, const Part& part, std::size_t position, const Coordinates& at) {
    Whole whole{std::vector<std::optional<BufferId>>(part.model->segments.size()), {}, {}};
    const bool away = state_.policy().parameters != Tier::device;
    if (state_.policy().gather != plan::StatePolicy::Gather::per_part) return whole;
    for (std::size_t s = 0; s < whole.buffers.size(); s++) {
      const bool needed = std::any_of(steps.begin(), steps.end(), [&](const Operation& step) {
        return std::any_of(step.step->operands.begin(), step.step->operands.end(), [&](const Operand& o) {
          return o.of == Operand::Of::parameter && place_of(*part.model, o.index).segment == s;
        });
      });
      const auto index = state_.segments_at(position)[s];
      const auto& held = state_.held(index);
      if (!needed || (held.shards == 1 && !away)) continue;
      auto here = at;
      here.pass = Pass::parameter_gather;
      BufferPool::Slot* const share = away ? &state_.fetch(index, here) : nullptr;
      if (held.shards == 1) {
        whole.buffers[s] = share->buffer, whole.brought.push_back(share);
        continue;
      }
      const Precision precision = state_.precision();
      const BufferId all =
          draft_.program.buffer({Bytes(bytes_per_element(precision) * held.elements), MemoryCategory::parameters});
      whole.buffers[s] = all, whole.gathered.push_back(all);
      const std::vector<BufferUse> uses{
          {all, Access::allocate}, {share ? share->buffer : held.parameters, Access::read}, {all, Access::write}};
      const auto gathered =
          sequencer_.collective(CollectiveKind::all_gather, precision, held.elements, here, uses, held.replicas);
      if (share) share->used = {gathered};
    }
    return whole;
  }

  void make_gradients(std::size_t position, const Coordinates& at) {
    if (!state_.transient_gradients()) return;
    for (const std::size_t index : state_.segments_at(position)) {
      const std::int64_t elements = state_.held(index).elements;
      const BufferId id =
          draft_.program.buffer({Bytes(bytes_per_element(Precision::fp32) * elements), MemoryCategory::gradients});
      transient_[{position, at.microbatch}].push_back(id);
      const std::vector<BufferUse> uses{{id, Access::allocate}, {id, Access::write}};
      sequencer_.kernel({.kind = KernelKind::clear, .dims = {elements}}, at, uses);
    }
  }
  void consume_gradients(std::size_t position, const Coordinates& at) {
    if (!state_.transient_gradients()) return;
    const auto& indices = state_.segments_at(position);
    const auto made = transient_.extract({position, at.microbatch});
    for (std::size_t i = 0; i < indices.size(); i++) state_.consume(indices[i], made.mapped()[i], at);
  }

  // --- steps --------------------------------------------------------------------------------------------------------
  void run(models::PassKind pass, const Part& part, std::size_t position, const Coordinates& at) {
    const auto& steps = part.of(pass).operations;
    const auto whole = gather(steps, part, position, at);
    for (std::size_t i = 0; i < steps.size(); i++) {
      const Operation& step = steps[i];
      std::vector<BufferUse> uses;
      for (const auto value : step.born) {
        const BufferId id = draft_.program.buffer({part.values[value].size, MemoryCategory::activations});
        slot(part, position, at.microbatch, value) = id;
        uses.emplace_back(id, Access::allocate);
      }
      for (const Operand& o : step.step->operands)
        uses.emplace_back(operand(o, part, position, at, whole), o.written ? Access::write : Access::read);
      for (const auto value : step.dies) release(part, position, at.microbatch, value, uses);
      if (i + 1 == steps.size()) {
        for (const auto gathered : whole.gathered) uses.emplace_back(gathered, Access::free);
        if (pass == models::PassKind::input_gradient && part.input_gradient && nobody_takes_gradient(position))
          release(part, position, at.microbatch, *part.input_gradient, uses);
      }
      auto here = at;
      if (step.pass == Pass::recompute) here.pass = Pass::recompute;
      const auto endpoint = step.group ? draft_.group_end(*step.group) : graph::kNoEndpoint;
      sequencer_.compute(step.work, here, uses, endpoint);
    }
    for (auto* const share : whole.brought) share->used = {sequencer_.last()};
  }

  BufferId operand(const Operand& o, const Part& part, std::size_t position, const Coordinates& at,
                   const Whole& whole) {
    if (o.of == Operand::Of::value) return slot(part, position, at.microbatch, o.index);
    if (o.of == Operand::Of::loss) return state_.loss();
    const std::size_t segment = place_of(*part.model, o.index).segment;
    const auto& held = state_.held(state_.segments_at(position)[segment]);
    if (o.of == Operand::Of::parameter) {
      const auto found = state_.parameters(state_.segments_at(position)[segment], at.stage, at.microbatch);
      return whole.buffers[segment].value_or(found);
    }
    if (!state_.transient_gradients()) return *held.gradients;
    return transient_.at({position, at.microbatch})[segment];
  }

  void release(const Part& part, std::size_t position, std::uint32_t microbatch, std::uint16_t value,
               std::vector<BufferUse>& uses) {
    uses.emplace_back(slot(part, position, microbatch, value), Access::free);
    if (const auto found = border(part, position, microbatch, value)) found->map->erase(found->key);
  }

  ProgramDraft& draft_;
  const Parts& parts_;
  std::vector<const StageParts::Use*> by_position_;  // parts counted through the model
  Sequencer sequencer_;
  NetworkState state_;
  Checkpoints checkpoints_;
  std::map<Key, BufferId> activations_, gradients_;  // on the borders between parts
  std::map<Key, BufferId> skips_, skip_gradients_;   // by the number of the skip connection
  // What pieces of a sequence share: keys and values, or last rows and states.
  std::array<std::map<Key, BufferId>, models::kCarried> pieces_, gradients_of_pieces_;
  std::map<Key, std::vector<BufferId>> values_;     // inside a part
  std::map<Key, std::vector<BufferId>> transient_;  // gradients of one micro-batch, per segment of the part
};

}  // namespace

std::unique_ptr<StepEmitter> network_work(ProgramDraft& draft) { return std::make_unique<NativeEmitter>(draft); }

}  // namespace rehearsal::lower
