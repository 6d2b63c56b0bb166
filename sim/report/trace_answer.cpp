// What `validate --trace` answers, described once.
#include "report/answers.hpp"
#include "report/trace_report.hpp"

namespace rehearsal::report {
namespace {

Shown<BesideRow> row(std::string what) {
  return Shown<BesideRow>(std::move(what))
      .figure("name", Unit::none, "what", "", &BesideRow::key)
      .figure("words", Unit::none, "in words", "", &BesideRow::name)
      .figure("predicted_s", Unit::seconds, "predicted", "null: the prediction does not tell", &BesideRow::predicted)
      .figure("measured_s", Unit::seconds, "measured", "null: a trace does not tell", &BesideRow::measured)
      .figure("error", Unit::change, "error", "predicted / measured - 1", &BesideRow::error)
      .figure("kernels", Unit::none, "kernels", "measured, in one step", &BesideRow::kernels);
}

Shown<traces::ClassTime> of_class() {
  return Shown<traces::ClassTime>("Measured kernels by their class of configs/kernel_classes.yaml, in one step.")
      .figure("class", Unit::none, "class", "", &traces::ClassTime::name)
      .figure("kind", Unit::none, "kind", "what it is compared with", [](auto& c) { return traces::info(c.kind).name; })
      .figure("kernels", Unit::none, "kernels", "", &traces::ClassTime::kernels)
      .figure("time_s", Unit::seconds, "time", "summed", &traces::ClassTime::time);
}

Shown<traces::Spread> spread(std::string what) {
  using traces::Spread;
  return Shown<Spread>(std::move(what))
      .figure("count", Unit::none, "count", "", &Spread::count)
      .figure("mean_s", Unit::seconds, "mean", "", &Spread::mean)
      .figure("p10_s", Unit::seconds, "p10", "", &Spread::p10)
      .figure("median_s", Unit::seconds, "median", "", &Spread::median)
      .figure("p90_s", Unit::seconds, "p90", "", &Spread::p90);
}

Shown<traces::Launching> launching() {
  using traces::Launching;
  const auto each = [](traces::Pass pass) {
    return [pass](const Launching& l) -> const traces::Spread& { return l.each[traces::index(pass)]; };
  };
  return Shown<Launching>("How kernels were launched.")
      .figure("kernels", Unit::none, "kernels", "whose launch is in the trace", &Launching::kernels)
      .figure("idle_s", Unit::seconds, "idle", "before such kernels, in the mean step", &Launching::idle)
      .figure("late_s", Unit::seconds, "late",
              "of it before kernels whose launch had not returned when the GPU had nothing left to run",
              &Launching::late)
      .group("call", spread("Calls that launch, on the host."), &Launching::call)
      .group("pause", spread("From a kernel to the next of its stream, which was launched in time."), &Launching::pause)
      .group("forward", spread("From a launch to the next, where it was late, in the forward pass."),
             each(traces::Pass::forward))
      .group("backward", spread("The same in the backward pass."), each(traces::Pass::backward))
      .group("optimizer", spread("The same in the optimizer."), each(traces::Pass::optimizer))
      .group("unknown", spread("The same where the pass is not known."), each(traces::Pass::unknown));
}

Shown<traces::UnknownKernel> unknown() {
  return Shown<traces::UnknownKernel>("The largest kernels that no rule knows, of all steps.")
      .figure("name", Unit::none, "kernel", "", &traces::UnknownKernel::name)
      .figure("kernels", Unit::none, "kernels", "", &traces::UnknownKernel::kernels)
      .figure("time_s", Unit::seconds, "time", "summed", &traces::UnknownKernel::time);
}

Shown<traces::Moved> moved() {
  using traces::Moved;
  return Shown<Moved>("What communication kernels say of themselves, of all steps.")
      .figure("name", Unit::none, "collective", "", [](auto& m) { return m.what.name; })
      .figure("bytes", Unit::bytes, "size", "of the whole array, as nccl-tests counts",
              [](auto& m) { return m.what.bytes(); })
      .figure("dtype", Unit::none, "type", "", [](auto& m) { return m.what.dtype; })
      .figure("group", Unit::none, "group", "", [](auto& m) { return m.what.about; })
      .figure("ranks", Unit::none, "ranks", "of the group", [](auto& m) { return m.what.size; })
      .figure("members", Unit::none, "members", "empty where the trace lists none",
              [](auto& m) { return m.what.members(); })
      .figure("count", Unit::none, "count", "", &Moved::count)
      .figure("total_s", Unit::seconds, "total", "", &Moved::total)
      .figure("median_s", Unit::seconds, "median", "", &Moved::median)
      .figure("shortest_s", Unit::seconds, "shortest", "on this rank", &Moved::shortest)
      .figure("transfer_s", Unit::seconds, "transfer",
              "mean of the shortest of all ranks whose traces are given, of messages that of equal ones; null: unknown",
              [](auto& m) { return m.transfer > Time{} ? std::optional(m.transfer) : std::nullopt; })
      .figure("ranks_seen", Unit::none, "traces", "that have the same collectives", &Moved::ranks_seen);
}

template <class S>
Shown<S> sample(std::string what) {
  return Shown<S>(std::move(what))
      .figure("operator", Unit::none, "operator", "of PyTorch", [](auto& s) { return s.name; })
      .figure("type", Unit::none, "type", "", [](auto& s) { return s.type; })
      .figure("count", Unit::none, "count", "", [](auto& s) { return s.count; })
      .figure("p10_s", Unit::seconds, "p10", "", [](auto& s) { return s.p10; })
      .figure("median_s", Unit::seconds, "median", "", [](auto& s) { return s.median; })
      .figure("p90_s", Unit::seconds, "p90", "", [](auto& s) { return s.p90; });
}

Shown<traces::Shares> shares(std::string what) {
  using traces::Shares;
  return Shown<Shares>(std::move(what))
      .figure("window_s", Unit::seconds, "window", "", &Shares::window)
      .figure("busy_s", Unit::seconds, "busy", "some kernel or copy runs", &Shares::busy)
      .figure("computing_s", Unit::seconds, "computing", "one that does not communicate runs", &Shares::computing)
      .figure("copying_s", Unit::seconds, "copying", "of it: nothing but copies", &Shares::copying)
      .figure("communicating_s", Unit::seconds, "communicating", "", &Shares::communicating)
      .figure("exposed_s", Unit::seconds, "exposed", "nothing but communication, waiting included", &Shares::exposed)
      .figure("waiting_s", Unit::seconds, "waiting", "of it: longer than the transfer", &Shares::waiting)
      .figure("idle_s", Unit::seconds, "idle", "", &Shares::idle);
}

Shown<MeasuredRank> of_rank() {
  using R = MeasuredRank;
  return Shown<R>("Each trace, beside the rank of the prediction that it is of, or that stands for it.")
      .figure("rank", Unit::none, "rank", "", [](auto& r) { return *r.trace->rank; })
      .figure("file", Unit::none, "file", "", [](auto& r) { return r.trace->file; })
      .figure("gpu", Unit::none, "GPU", "", [](auto& r) { return r.trace->gpu.name; })
      .figure("multiprocessors", Unit::none, "multiprocessors", "",
              [](auto& r) { return r.trace->gpu.multiprocessors; })
      .figure("memory_bytes", Unit::bytes, "memory", "", [](auto& r) { return Bytes(r.trace->gpu.memory); })
      .figure("steps", Unit::none, "steps", "marked in the trace; 0: all of it counts as one",
              [](auto& r) { return r.measured.step_count; })
      .figure("steps_by", Unit::none, "steps by", "whose marks they are: those of the host run ahead of the GPU",
              [](auto& r) { return r.trace->steps.empty()  ? "none"
                                   : r.trace->steps_of_gpu ? "gpu"
                                                           : "host"; })
      .figure("step_s", Unit::seconds, "step", "median", [](auto& r) { return r.measured.step; })
      .figure("step_lengths_s", Unit::seconds, "steps", "", [](auto& r) { return r.measured.lengths; })
      .rows("parts", row("Where a step goes: the step, its parts, which add up to it, and of idle what is waiting."),
            &R::parts)
      .rows("passes", row("Times of kernels that compute by pass, and by pass and kind; empty: the trace tells none."),
            &R::passes)
      .rows("microbatches", row("The same by micro-batch and pass; empty: the trace names none."), &R::microbatches)
      .rows("kinds", row("Times of kernels, added up."), &R::kinds)
      .rows("communication", row("Communication by what it is for, added up."), &R::totals)
      .rows("exposed", row("What of it nothing hides, without waiting."), &R::shown)
      .group("mean_step", shares("The measured step, on average."), [](auto& r) { return &r.measured.steps; })
      .group("whole", shares("From the first kernel of the trace to the last."),
             [](auto& r) { return &r.measured.whole; })
      .rows(
          "classes", of_class(), [](auto& r) -> const auto& { return r.measured.classes; })
      .rows(
          "unknown", unknown(), [](auto& r) -> const auto& { return r.measured.unknown; })
      .figure("unknown_s", Unit::seconds, "unknown", "of all kernels that no rule knows, of all steps",
              [](auto& r) { return r.measured.unknown_time; })
      .rows(
          "collectives", moved(), [](auto& r) -> const auto& { return r.measured.moved; })
      .group(
          "launching", launching(), [](auto& r) -> const auto& { return r.measured.launching; })
      .figure("launch_gaps", Unit::none, "pauses", "short ones between kernels of the busiest stream",
              [](auto& r) { return r.measured.gaps.count; })
      .figure("launch_gaps_s", Unit::seconds, "pauses", "all of them", [](auto& r) { return r.measured.gaps.total; })
      .figure("launch_gap_s", Unit::seconds, "pause", "median", [](auto& r) { return r.measured.gaps.median; })
      .rows(
          "gemms",
          sample<traces::GemmSample>("Matrix products with known shapes.")
              .figure("m", Unit::none, "m", "", [](auto& s) { return s.gemm.m; })
              .figure("n", Unit::none, "n", "", [](auto& s) { return s.gemm.n; })
              .figure("k", Unit::none, "k", "", [](auto& s) { return s.gemm.k; })
              .figure("batch", Unit::none, "batch", "", [](auto& s) { return s.gemm.batch; })
              .figure("tflops", Unit::none, "TFLOP/s", "", [](auto& s) { return s.flop_rate() / 1e12; }),
          [](auto& r) -> const auto& { return r.samples.gemms; })
      .rows(
          "attention",
          sample<traces::AttentionSample>("Fused attention with known shapes.")
              .figure("batch", Unit::none, "batch", "", [](auto& s) { return s.attention.batch; })
              .figure("heads", Unit::none, "heads", "", [](auto& s) { return s.attention.heads; })
              .figure("queries", Unit::none, "queries", "", [](auto& s) { return s.attention.queries; })
              .figure("keys", Unit::none, "keys", "", [](auto& s) { return s.attention.keys; })
              .figure("head_dim", Unit::none, "head", "", [](auto& s) { return s.attention.head_dim; })
              .figure("backward", Unit::none, "backward", "", [](auto& s) { return s.attention.backward; }),
          [](auto& r) -> const auto& { return r.samples.attention; })
      .rows(
          "memory_bound",
          sample<traces::TrafficSample>("Memory-bound kernels with known shapes.")
              .figure("traffic_bytes", Unit::bytes, "traffic", "read and written, by the shapes",
                      [](auto& s) { return s.traffic; }),
          [](auto& r) -> const auto& { return r.samples.memory_bound; });
}

}  // namespace

const Shown<TraceReport>& trace_answer() {
  using R = TraceReport;
  static const auto kShown =
      Shown<R>("A prediction beside traces of the run.")
          .figure("predicted_s", Unit::seconds, "predicted", "the step",
                  [](auto& r) { return r.predicted.summary.iteration; })
          .figure("measured_s", Unit::seconds, "measured", "median over the steps of all ranks", &R::measured_step)
          .figure("error", Unit::change, "error", "predicted / measured - 1", &R::error)
          .figure("tolerance", Unit::share, "tolerance", "", &R::tolerance)
          .figure("ok", Unit::none, "holds", "",
                  [](auto& r) { return r.tolerance ? std::optional(r.within_tolerance()) : std::nullopt; })
          .rows("ranks", of_rank(), &R::ranks)
          .figure("not_told_apart", Unit::none, "not told apart", "what names of kernels do not tell",
                  [](auto&) {
                    return std::vector<std::string>(traces::kNotToldApart.begin(), traces::kNotToldApart.end());
                  })
          .figure("warnings", Unit::none, "warnings", "about the traces", &R::warnings);
  return kShown;
}

std::vector<AnswerOf> trace_answers() { return {{"validate --trace", validate_trace_answer()}}; }

}  // namespace rehearsal::report
