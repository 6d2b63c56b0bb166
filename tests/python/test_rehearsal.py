"""What the Python package promises. Run with PYTHONPATH=python and REHEARSAL_LIBRARY, as tests/CMakeLists.txt does."""

import concurrent.futures
import copy
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import rehearsal as rh

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEACHING = str(ROOT / "scenarios/teaching-1f1b-8-stages.yaml")
GPT3 = str(ROOT / "scenarios/gpt3-175b-1024xa100.yaml")
LLAMA = {"version": 1, "model": "llama3-8b", "cluster": "dgx-h100", "batch": {"global": 64, "sequence": 8192, "micro": 1},
         "parallelism": {"tensor": 2, "data": 4}}


class Runs(unittest.TestCase):
    def test_every_key_of_the_json_is_an_attribute(self):
        result = rh.run(GPT3)
        data = json.loads(result._answer.out)
        for key, value in data.items():
            if not isinstance(value, (dict, list)):
                self.assertEqual(getattr(result, key), value)
            self.assertIn(key, dir(result))
        self.assertEqual(result.peak_memory_bytes.device, data["peak_memory_bytes"]["device"])
        self.assertEqual(result["traffic"]["links"][0]["name"], data["traffic"]["links"][0]["name"])
        self.assertGreater(result.parameters, 170e9)
        with self.assertRaises(AttributeError):
            result.iteration

    def test_settings_and_dicts(self):
        self.assertEqual(rh.run(LLAMA, set={"batch.micro": 2}).scenario.file, "scenario.yaml")
        self.assertNotEqual(rh.run(LLAMA).iteration_s, rh.run(LLAMA, set={"parallelism": {"tensor": 4, "data": 2}}).iteration_s)
        self.assertEqual(rh.Scenario(LLAMA, set={"batch.micro": 2}).run().iteration_s,
                         rh.run(LLAMA, set={"batch.micro": 2}).iteration_s)

    def test_errors_carry_the_remedy(self):
        with self.assertRaises(rh.Error) as wrong:
            rh.run(GPT3, set={"batch.mirco": 1})
        self.assertIn("did you mean 'micro'?", str(wrong.exception))
        found = rh.check({**LLAMA, "modle": 1})
        self.assertEqual([(row["severity"], "modle" in row["message"]) for row in found], [("error", True)])
        self.assertEqual(len(rh.check(LLAMA)), 0)

    def test_pages_and_pictures(self):
        result = rh.run(LLAMA)
        self.assertTrue(result.html().lower().startswith("<!doctype html>"))
        self.assertIn("<svg", result.svg("timeline"))
        self.assertIn("<iframe", result._repr_html_())
        with self.assertRaises(rh.Error):
            result.svg("nothing")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(rh.Error):
                result.trace("memory:t")  # nobody would see it
            result.trace(f"{folder}/t.json.gz")
            self.assertGreater(os.path.getsize(f"{folder}/t.json.gz"), 1000)
            result.memory_snapshot(f"{folder}/m.pickle")
            with open(f"{folder}/m.pickle", "rb") as file:
                snapshot = pickle.load(file)
            self.assertEqual(len(snapshot["device_traces"]), len(result.ranks))
            self.check_snapshot(snapshot)
            result.save(f"{folder}/r.json")
            self.assertEqual(json.loads(pathlib.Path(f"{folder}/r.json").read_text())["iteration_s"], result.iteration_s)

    def check_snapshot(self, snapshot):
        """What is live never overlaps, stays in its segment, and is freed as it was allocated."""
        for segment, trace in zip(snapshot["segments"], snapshot["device_traces"]):
            live, end = {}, segment["address"] + segment["total_size"]
            self.assertEqual(sum(block["size"] for block in segment["blocks"]), segment["total_size"])
            for event in trace:
                at, size = event["addr"], event["size"]
                if event["action"] == "alloc":
                    self.assertTrue(segment["address"] <= at and at + size <= end)
                    self.assertTrue(all(at + size <= a or a + s <= at for a, s in live.items()))
                    live[at] = size
                else:
                    self.assertEqual(live.pop(at), size)
            self.assertEqual(live, {})

    def test_other_questions(self):
        plan = rh.plan(LLAMA, time_limit=20)
        self.assertTrue(plan.best.fits)
        self.assertIn("parallelism.tensor", plan.best["set"])
        self.assertGreater(len(rh.explain(TEACHING).sensitivities), 3)
        zb = rh.schedule("zb-h1", pipeline=4, microbatches=8, forward=5e-3, backward=5e-3, weight=5e-3)
        self.assertAlmostEqual(zb.makespan_s, .135)
        self.assertGreater(rh.collective("all-reduce", ranks=8, cluster="dgx-h100", size=1 << 20).time_s, 0)
        self.assertIn("llama3-8b", rh.list("models").name)
        self.assertTrue(rh.measure(TEACHING, iterations=1, warmup=0).iteration_s > 0)


class Tables(unittest.TestCase):
    def test_timeline_and_memory(self):
        result = rh.run(GPT3)
        self.assertAlmostEqual(max(result.timeline.end_s), result.iteration_s)
        self.assertEqual(len(result.ranks), len(result["ranks"]))
        self.assertEqual(set(result.memory.columns), {"rank", "tier", "category", "time_s", "bytes"})
        self.assertEqual(result.timeline[0]["pass"], "forward")
        kept = result.timeline.start_s  # outlives its answer
        del result
        self.assertGreaterEqual(min(kept), 0)

    def test_other_libraries(self):
        table = rh.run(TEACHING).timeline
        self.assertEqual(len(table.to_csv().splitlines()), len(table) + 1)
        self.assertIn("<table>", table._repr_html_())
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        frame = table.to_pandas()
        self.assertEqual(list(frame.columns), table.columns)
        self.assertEqual(frame["pass"].iloc[3], table[3]["pass"])
        through = pandas.api.interchange.from_dataframe(table)
        self.assertEqual(through["pass"].tolist(), list(table["pass"]))
        self.assertEqual(through["end_s"].tolist(), list(table.end_s))
        mixed = rh.Table({"text": ["a", None, "ü"], "number": [1, 2, 3], "maybe": [1.5, None, 2]})
        through = pandas.api.interchange.from_dataframe(mixed)
        self.assertEqual(through["text"].tolist()[::2], ["a", "ü"])
        self.assertEqual(through["number"].tolist(), [1, 2, 3])
        self.assertTrue(pandas.isna(through["maybe"][1]))

    def test_compare(self):
        vary = {"batch.micro": [1, 2], "schedule": ["1f1b", "zb-h1"]}
        table = rh.compare(GPT3, vary)
        self.assertEqual(len(table), 4)
        self.assertEqual(table[3]["batch.micro"], 2)
        self.assertIs(table[0]["fits"], True)
        for pool in concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor:
            with pool(2) as executor:
                spread = rh.compare(GPT3, vary, map=executor.map)
            self.assertEqual(list(spread["iteration_s"]), list(table["iteration_s"]))
        with tempfile.TemporaryDirectory() as folder:
            for store in "s.sqlite", "s/":
                swept = rh.sweep(GPT3, f"{folder}/{store}", vary)
                self.assertEqual(list(swept["mfu"]), list(table["mfu"]))


def predicted(scenario):
    return rh.run(scenario)


class Copies(unittest.TestCase):
    def test_answers_cross_processes(self):
        result = rh.run(TEACHING)
        for copied in pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result):
            self.assertEqual(copied.iteration_s, result.iteration_s)
            self.assertEqual(len(copied.timeline), len(result.timeline))
        with concurrent.futures.ProcessPoolExecutor(2) as executor:
            self.assertEqual([*executor.map(predicted, [TEACHING])][0].iteration_s, result.iteration_s)
            with self.assertRaises(rh.Error):
                [*executor.map(predicted, ["no-such-file.yaml"])]
            wrong = rh.compare(GPT3, {"batch.micro": [1, -1]}, map=executor.map)
        self.assertIsNone(wrong[0]["error"])
        self.assertIn("whole number", wrong[1]["error"])

    def test_an_answer_stays_what_it_was(self):
        scenario = {**LLAMA, "batch": dict(LLAMA["batch"])}
        result = rh.run(scenario)
        scenario["batch"]["micro"] = 2
        self.assertIn(f"{result.iteration_s:.3f} s", result.text())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "s.yaml")
            path.write_text(json.dumps(LLAMA))
            result = rh.run(path)
        self.assertIn(f"{result.iteration_s:.3f} s", result.text())

    def test_files_with_jobs_are_shown(self):
        jobs = rh.run(next((ROOT / "scenarios/jobs").glob("*.yaml")))
        self.assertIn("jobs", repr(jobs))
        self.assertIn("<pre>", jobs._repr_html_())
        with self.assertRaises(rh.Error):
            jobs.timeline

    def test_dicts_are_swept(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(len(rh.sweep(LLAMA, f"{folder}/s.sqlite", {"batch.micro": [1, 2]})), 2)


class Threads(unittest.TestCase):
    def test_eight_at_once(self):
        alone = rh.run(TEACHING)._answer.out
        with concurrent.futures.ThreadPoolExecutor(8) as executor:
            self.assertEqual(set(executor.map(lambda _: rh.run(TEACHING)._answer.out, range(64))), {alone})

    def test_jobs_are_a_number(self):
        for wrong in True, False:
            with self.assertRaises(TypeError):
                rh.compare(TEACHING, {"schedule": ["1f1b", "gpipe"]}, jobs=wrong)

    def test_ctrl_c(self):
        program = textwrap.dedent(f"""
            import rehearsal as rh, sys
            print("ready", flush=True)
            try:
                rh.compare({GPT3!r}, {{"batch.micro": [1, 2, 4, 8], "schedule": ["1f1b", "gpipe", "zb-h1"],
                                      "training.recompute": ["none", "full"], "parallelism.zero": [0, 1]}}, jobs=1)
            except KeyboardInterrupt:
                print("interrupted", rh.run({TEACHING!r}).iteration_s)
            """)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
            child.stdout.readline()
            time.sleep(.5)
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=60)
        self.assertIn("interrupted 1.4", said)

    def test_files_of_other_tools(self):
        samples = ROOT / "tests/interchange"
        model = samples / "hf-config/Qwen--Qwen3-32B_config.json"
        scenario = rh.imports(model, world=64, cluster="dgx-h100", set={"batch.sequence": 4096})
        self.assertEqual(scenario.run().gpus, 64)
        self.assertEqual(scenario.imported.not_understood, [])
        self.assertIn("Qwen--Qwen3-32B_config.json:", {k["key"]: k["origin"] for k in scenario.imported.settings}["model.layers"])
        again = rh.imports(arguments=scenario.export("megatron").split(), world=64, cluster="dgx-h100")
        self.assertEqual(again.run().parameters, scenario.run().parameters)
        log = rh.validate(log=samples / "megatron-forms/llama3-8b.log", cluster="dgx-h100")
        self.assertAlmostEqual(log.logs[0]["measured_s"], 11.1476)
        with self.assertRaisesRegex(rh.Error, "no format"):
            rh.imports(ROOT / "README.md")
        with self.assertRaises(TypeError):
            rh.validate(GPT3, log=["a"], trace=["b"])

    def test_two_interrupts(self):
        program = f"import rehearsal as rh\nprint('ready', flush=True)\ntry: rh.explain({GPT3!r})\nexcept KeyboardInterrupt: print('out')"
        for wait in .05, .2, .4:
            with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as child:
                child.stdout.readline()
                for _ in range(2):
                    time.sleep(wait)
                    child.send_signal(signal.SIGINT)
                child.communicate(timeout=60)
            self.assertIn(child.returncode, (0, 1, -signal.SIGINT))  # never by a signal of its own

    def test_progress_that_fails_is_heard(self):
        with self.assertRaises(ZeroDivisionError):
            rh.plan(str(ROOT / "scenarios/plan/gpt3-175b-1024xa100.yaml"), time_limit=20, progress=lambda line: 1 / 0)

    def test_progress(self):
        lines = []
        rh.plan(str(ROOT / "scenarios/plan/gpt3-175b-1024xa100.yaml"), time_limit=1.5, progress=lines.append)
        self.assertTrue(any("layouts" in line for line in lines))


if __name__ == "__main__":
    unittest.main()
