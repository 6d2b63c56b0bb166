// Lines of progress as trainers print them; sources are named where lines are those of real runs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "interchange/log.hpp"

using namespace rehearsal::interchange;

TEST_CASE("Megatron: iterations, means over the log interval, memory in 2^20 bytes") {
  // NVIDIA/Megatron-LM issue 756 (Mixtral 8x7B on 16 H100).
  const auto log = read_log(
      "[Rank 1] (after 1 iterations) memory (MB) | allocated: 54250.97802734375 | max allocated: 54250.98583984375 | "
      "reserved: 61480.0 | max reserved: 61480.0\n"
      " [2024-04-06 02:55:45] iteration        2/     100 | consumed samples:          256 | elapsed time per "
      "iteration "
      "(ms): 5630.1 | throughput per GPU (TFLOP/s/GPU): 231.9 | learning rate: 4.000000E-07 | global batch size:   128 "
      "| lm loss: 2.021530E+00 | loss scale: 1.0 | grad norm: 6.895 | number of skipped iterations:   0 |\n"
      " [2024-04-06 02:55:50] iteration        3/     100 | consumed samples:          384 | elapsed time per "
      "iteration "
      "(ms): 5410.6 | throughput per GPU (TFLOP/s/GPU): 241.4 | learning rate: 6.000000E-07 | global batch size:   128 "
      "|\n");
  REQUIRE(log);
  CHECK(log->dialect == "Megatron");
  REQUIRE(log->steps.size() == 2);
  CHECK(log->steps[0].iteration == 2);
  CHECK(*log->steps[0].seconds == doctest::Approx(5.6301));
  CHECK(*log->steps[1].tflops == 241.4);
  CHECK(log->steps[1].count == 1);
  CHECK(*log->allocated == doctest::Approx(54250.98583984375 * 0x1p20));
  CHECK(*log->reserved == 61480. * 0x1p20);
}

TEST_CASE("Megatron-Bridge prints Megatron's line and its own: one step each") {
  // NVIDIA-NeMo/Megatron-Bridge pull request 841.
  const auto log = read_log(
      " [2025-10-02 22:52:07] iteration       10/      50 | consumed samples:         5120 | elapsed time per "
      "iteration "
      "(ms): 13212.7 | global batch size:   512 |\n"
      "Step Time : 14.26s GPU utilization: 58.2TFLOP/s/GPU\n"
      " [2025-10-02 22:54:30] iteration       20/      50 | consumed samples:        10240 | elapsed time per "
      "iteration "
      "(ms): 14260.3 | global batch size:   512 |\n");
  REQUIRE(log);
  REQUIRE(log->steps.size() == 2);
  CHECK(log->steps[0].count == 10);
  CHECK(log->steps[1].count == 10);
  const auto alone = read_log(
      "Step Time : 12.78s GPU utilization: 528.1 TFLOP/s/GPU\nStep Time : 12.70s GPU "
      "utilization: 531.4 TFLOP/s/GPU\n");
  REQUIRE(alone);
  CHECK(alone->dialect == "Megatron-Bridge");
  REQUIRE(alone->steps.size() == 2);
  CHECK(*alone->steps[1].seconds == 12.70);
  CHECK(*alone->steps[0].tflops == 528.1);
}

TEST_CASE("Primus prints two numbers, of which the first is of now, and the memory of the device") {
  // The form of AMD-AGI/Primus, trainer.py `training_log`.
  const auto log = read_log(
      " iteration        5/      50 | consumed samples:          640 | elapsed time per iteration (ms): "
      "10212.5/10300.1 "
      "| hip mem usage/free/total/usage_ratio: 150.50GiB/41.50GiB/192.00GiB/78.39% | throughput per GPU (TFLOP/s/GPU): "
      "601.2/598.0 | tokens per GPU (tokens/s/GPU): 12833.1/12800.5 | global batch size:   128 |\n"
      " iteration        6/      50 | consumed samples:          768 | elapsed time per iteration (ms): "
      "10100.0/10260.0 "
      "| hip mem usage/free/total/usage_ratio: 151.00GiB/41.00GiB/192.00GiB/78.65% | Compute per GPU (TFLOP/s/GPU): "
      "607.9/600.0 |\n");
  REQUIRE(log);
  CHECK(*log->steps[0].seconds == doctest::Approx(10.2125));
  CHECK(*log->steps[0].tflops == 601.2);
  CHECK(*log->steps[1].tflops == 607.9);
  CHECK(*log->device == 151 * 0x1p30);
}

TEST_CASE("torchtitan: a line of each rank is one step; rates with separated thousands") {
  // pytorch/torchtitan pull request 2389.
  std::string text;
  for (const char* tps : {"10,050", "10,049", "10,051"})
    text += fmt::format(
        "[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  4  loss:  7.62585  grad_norm: 26.6250  memory: "
        "66.91GiB(37.51%)  tps: {}  tflops: 314.71  mfu: 13.99%\n",
        tps);
  text +=
      "[titan] 2026-02-24 19:46:19,145 - root - INFO - step:  5  loss:  7.07623  grad_norm: 46.5000  memory: "
      "66.91GiB(37.51%)  tps: 10,007  tflops: 313.36  mfu: 13.93%\n";
  const auto log = read_log(text);
  REQUIRE(log);
  CHECK(log->dialect == "torchtitan");
  REQUIRE(log->steps.size() == 2);
  CHECK(*log->steps[0].tokens_per_s_gpu == doctest::Approx(10050));
  CHECK(*log->reserved == doctest::Approx(66.91 * 0x1p30));
  const auto times = steady(*log, 0, 16384);
  REQUIRE(times);
  CHECK(times->seconds == doctest::Approx(16384 / 10007.));  // of two lines the first is warm-up
  CHECK_FALSE(steady(*log, 8, 0));                           // rates of tokens, and nobody says how many
}

TEST_CASE("DeepSpeed and the Trainer say rates of samples") {
  // A log of DeepSpeed-Chat of 2023-11.
  const auto log = read_log(
      "[2023-11-07 01:55:23,711] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=4, lr=[4.9e-05]\n"
      "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, "
      "RunningAvgSamplesPerSec=25.025771473496132, CurrSamplesPerSec=25.704280480541442, MemAllocated=4.32GB, "
      "MaxMemAllocated=38.49GB\n");
  REQUIRE(log);
  CHECK(log->dialect == "DeepSpeed");
  CHECK(log->steps[0].iteration == 10);
  CHECK(*log->allocated == doctest::Approx(38.49 * 0x1p30));
  CHECK(steady(*log, 128, 0)->seconds == doctest::Approx(128 / 25.704280480541442));
  const auto trainer = read_log(
      "{'loss': 0.27, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 2.9}\n"
      "{'train_runtime': 9117.7233, 'train_samples_per_second': 0.663, 'train_steps_per_second': 0.041, 'train_loss': "
      "0.268, 'epoch': 3.0}\n");
  REQUIRE(trainer);
  CHECK(trainer->dialect == "Hugging Face Trainer");
  CHECK(*trainer->steps[0].seconds == doctest::Approx(1 / .041));
  CHECK(!trainer->note.empty());
  const auto quoted =  // transformers 5.17 (tests/interchange/hf-arguments/train.log)
      read_log("{'train_runtime': '4.901', 'train_samples_per_second': '12.24', 'train_steps_per_second': '3.061'}\n");
  REQUIRE(quoted);
  CHECK(*quoted->steps[0].seconds == doctest::Approx(1 / 3.061));
}

TEST_CASE("warm-up is dropped, stragglers are named, each line counts as its iterations") {
  std::string text;
  const auto line = [&](int iteration, double ms) {
    text += fmt::format(" iteration {:8}/     200 | elapsed time per iteration (ms): {:.1f} |\n", iteration, ms);
  };
  for (int i = 1; i <= 100; ++i) line(i, i == 1 ? 30000 : i <= 10 ? 1500 : i == 40 || i == 77 ? 1300 : 1000);
  const auto steps = steady(*read_log(text), 0, 0);
  REQUIRE(steps);
  CHECK(steps->dropped == 10);
  CHECK(steps->iterations == 90);
  CHECK(steps->seconds == 1);
  CHECK(steps->low == 1);
  CHECK(steps->stragglers == std::vector<std::int64_t>{40, 77});
  // Four lines of twenty iterations each: the first is warm-up, two long lines outweigh none.
  text.clear();
  for (int i = 20; i <= 80; i += 20) line(i, i == 20 ? 9000 : 1000 + i);
  const auto means = steady(*read_log(text), 0, 0);
  REQUIRE(means);
  CHECK(means->dropped == 20);
  CHECK(means->iterations == 60);
  CHECK(means->seconds == doctest::Approx(1.06));
}

TEST_CASE("a log of one step, of none, and of garbage") {
  const auto one = read_log(" iteration 1/ 1 | elapsed time per iteration (ms): 12.5 |");
  REQUIRE(one);
  CHECK(steady(*one, 0, 0)->seconds == doctest::Approx(.0125));
  CHECK(steady(*one, 0, 0)->dropped == 0);
  CHECK_FALSE(read_log("Traceback (most recent call last):\n"));
  CHECK_FALSE(read_log(""));
  CHECK_FALSE(read_log("iteration 1/1 | elapsed time per iteration (ms): nan |"));
  CHECK_FALSE(read_log("iteration 1/1 | elapsed time per iteration (ms): -5 |"));
  CHECK_FALSE(read_log("iteration 1/1 | elapsed time per iteration (ms): 1e999 |"));
  CHECK_FALSE(read_log(std::string("iteration\0 elapsed time per iteration (ms):", 43)));
}

TEST_CASE("torchtitan colours its lines, also in files") {
  // The form of pytorch/torchtitan, components/metrics.py, with the escapes of tools/utils.py `Color`.
  const auto log = read_log(
      "[rank0]:[titan] - root - INFO - \x1b[31mstep:  5  \x1b[32mloss:  7.07  \x1b[38;5;208mgrad_norm:  1.5  \x1b[33m"
      "memory: 66.91GiB(37.51%)  \x1b[34mtps: 10,007  \x1b[36mtflops: 313.36  \x1b[35mmfu: 13.93%\x1b[39m\n");
  REQUIRE(log);
  CHECK(log->dialect == "torchtitan");
  CHECK(log->steps[0].iteration == 5);
  CHECK(*log->steps[0].tokens_per_s_gpu == 10007);
  CHECK(*log->steps[0].tflops == 313.36);
  CHECK(*log->reserved == doctest::Approx(66.91 * 0x1p30));
  CHECK(log_dialects().find(", DeepSpeed,") != std::string::npos);
}

TEST_CASE("iterations that a resumed run does not hold weigh nothing; ranks out of step are one line; absurd times") {
  std::string text;
  const auto line = [&](int iteration, const char* ms) {
    text += fmt::format(" iteration {:8}/    9000 | elapsed time per iteration (ms): {} |\n", iteration, ms);
  };
  for (int i = 1; i <= 50; ++i) line(i, "1000");
  line(5000, "30000");
  for (int i = 5001; i <= 5009; ++i) line(i, "2000");
  const auto resumed = steady(*read_log(text), 0, 0);
  CHECK(resumed->seconds == 1);
  CHECK(resumed->restarts == 1);
  CHECK(resumed->dropped == 10);
  CHECK(resumed->iterations == 50);
  text.clear();
  for (int i = 1; i <= 20; ++i) line(i + 1, "1000"), line(i, "3000");
  const auto ranks = read_log(text);
  CHECK(ranks->steps.size() == 21);
  CHECK(*ranks->steps[5].seconds == 2);
  text.clear();
  line(1, "1e300"), line(2, "1e-300"), line(3, "1000");
  CHECK(read_log(text)->steps.size() == 1);
}

TEST_CASE("a resumed run warms up again: where its iterations go back, or where it says that it starts") {
  std::string text = "[before the start of training step] datetime: 2026-01-02 03:04:05 \n";
  const auto line = [&](int iteration, double ms) {
    text += fmt::format(" iteration {:8}/     100 | elapsed time per iteration (ms): {:.1f} |\n", iteration, ms);
  };
  for (int i = 1; i <= 40; ++i) line(i, i <= 4 ? 3000 : 1000);
  for (int i = 31; i <= 60; ++i) line(i, i <= 34 ? 5000 : 1000);  // from a checkpoint at 30
  // From one at the last iteration: only the start tells. Its first line is not a second rank's.
  text += "[before the start of training step] datetime: 2026-01-02 05:04:05 \n";
  for (int i = 61; i <= 70; ++i) line(i, i <= 64 ? 7000 : 1000);
  text += "[before the start of training step] datetime: 2026-01-02 06:04:05 \n";
  for (int i = 70; i <= 79; ++i) line(i, i <= 73 ? 9000 : 1000);
  const auto log = read_log(text);
  REQUIRE(log->steps.size() == 90);
  CHECK_FALSE(log->steps[0].restarted);
  CHECK(log->steps[40].restarted);
  CHECK(log->steps[70].restarted);
  CHECK(log->steps[80].restarted);
  const auto steps = steady(*log, 0, 0);
  CHECK(steps->restarts == 3);
  CHECK(steps->dropped == 9 + 4 + 4 + 4);  // a tenth of 90 in front
  CHECK(steps->iterations == 90 - steps->dropped);
  CHECK(steps->stragglers.empty());
  CHECK(steps->high == 1);
}
