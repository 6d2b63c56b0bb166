// Megatron-Core's layouts of a pipeline, and stages without layers.
#include <doctest/doctest.h>

#include <string>

#include "answer/estimate.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using contract::Sets;

namespace {

const std::string kModel =
    "version: 1\nmodel: {use: deepseek-v3, layers: 6, dense_layers: 1, mtp_layers: 1, sequence: 4096}\n"
    "cluster: {use: dgx-h100, nodes: 4}\nparallelism: {pipeline: 4, chunks: 2, data: 8, expert: 8, zero: 1}\n"
    "batch: {global: 128, micro: 1}\nframework: megatron-2025\nschedule: interleaved-1f1b\n";

Time step(const Sets& sets) { return contract::predicted(kModel, sets).summary.iteration; }
Sets layout(const char* text) { return {std::string("partition={layout: \"") + text + "\"}"}; }

}  // namespace

TEST_CASE("a layout that says what a list says is the same answer") {
  CHECK(step(layout("Et|t|t|t|t|t||mL")) == step({"partition=[1, 1, 1, 1, 1, 1, 0, 0]"}));
  CHECK(step(layout("E|t|(t|)*5mL")) == step({"partition=[0, 1, 1, 1, 1, 1, 1, 0]"}));
}

TEST_CASE("modules and losses on stages of their own are one answer at every detail, and the estimate's") {
  contract::settle();
  for (const char* text : {"E|t|t|tt|t|t|m|LL", "Et|t|t|t|t|t|mL|L", "Ett|tt|t|t||m||L"}) {
    CAPTURE(text);
    const auto sets = contract::with(layout(text), {"simulate.contention=off"});
    const Time whole = step(sets);
    for (const char* detail : {"simulate.detail=layer", "simulate.detail=operator", "simulate.symmetry=off"})
      CHECK(step(contract::with(sets, {detail})) == whole);
    CHECK(answer::estimate(scenario::load_text(kModel, "scenario", sets)).iteration == whole);
  }
}

TEST_CASE("a module away from the loss shortens the step of the last stage") {
  CHECK(step(layout("E|t|t|tt|t|t|m|LL")) < step({"partition=[0, 1, 1, 2, 1, 1, 0, 0]"}));
}

TEST_CASE("what crosses to the stage of a loss is a hidden state for each loss to come") {
  // Activations of 4096 tokens and 7168 columns; 16 micro-batches, back and forth: 6 hops of one, one of two.
  const auto sent = [](const Sets& sets) {
    const auto p = contract::predicted(kModel, contract::with(sets, {"simulate.contention=off"}));
    double bytes = 0;
    for (const auto& rank : p.graph().ranks())
      for (const auto work : p.graph().program_of(rank).work)
        if (const auto* message = std::get_if<graph::Message>(&p.graph().work(work)))
          bytes += double(message->size.count());
    return bytes;
  };
  const double one = 2. * 16 * 4096 * 7168 * 2;
  CHECK(sent({"partition=[0, 1, 1, 1, 1, 1, 1, 0]"}) == 7 * one);
  CHECK(sent(layout("E|t|t|tt|t|t|m|LL")) == 8 * one);
}

TEST_CASE("native kernels have layers on every stage between the ends") {
  const std::string native =
      "version: 1\nmodel: {family: gpt, layers: 2, hidden: 64, heads: 4, vocabulary: 512, sequence: 32}\n"
      "cluster: this-machine\nparallelism: {pipeline: 4}\nbatch: {global: 4, micro: 1}\nframework: native\n"
      "training: {precision: fp32, gradient_precision: fp32}\n";
  CHECK(contract::says(contract::refusal(native, {"partition=[1, 0, 1, 0]"}), "layers on every stage"));
}
