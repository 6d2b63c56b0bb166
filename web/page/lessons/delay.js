import {curves} from "../curves.js";
import {note, picture, table} from "../dom.js";
import {block, delayed, pipedream} from "../recorded.js";
import {least, wanted} from "../tasks.js";
import {gibibytes, number, percent, seconds, whole} from "../units.js";

const scenario = "scenarios/gallery/parameter-servers-8xa100.yaml";
const delays = ["0", "1", "2", "4"], ranks = ["1", "2", "4", "8"];
const faults = slow => slow === "1" ? [] : ["--set", `faults=[{gpu: 5, slowdown: ${slow}}]`];
const served = s => [scenario, "--set", `data_parallel.servers=${s.servers}`, ...faults(s.slow)];
const compared = s => ({words: ["compare", ...served(s), "--vary", `data_parallel.delay=${delays.join(",")}`, "--format", "json"]});
const steps = curve => curve.map((_, i) => (i + 1) * block);
const last = (rate, delay) => delayed[rate][delay].at(-1);
// When the loss of a delay falls below `loss`, with steps as long as the program says: null where it never does.
function reached(run, delay, rate, loss) {
  const i = delayed[rate][delay].findIndex(one => one <= loss);
  return i < 0 ? null : (i + 1) * block * run.iteration_s;
}

export default {
  id: "delay",
  name: "Servers and delay",
  title: "Parameter servers, delay, and what it does to the loss",
  text: `<p>Workers may push gradients to servers, which update and send parameters back. Where all wait for the slowest worker,
    training is <em>synchronous</em>; a <em>delay</em> of d lets a worker compute with parameters that lack the last d updates. Steps get
    shorter where somebody is slow, and each step learns less. The first table is predicted for a GPT on eight A100; the losses
    come from a tiny GPT trained on a CPU, because a page cannot train. PipeDream delays inside a pipeline: early stages compute with
    weights that are older, and keep a version for each micro-batch under way.</p>`,
  controls: [
    {key: "slow", label: "Slowdown of worker 5 (factor)", value: "1.5", steps: ["1", "1.25", "1.5", "2", "3"]},
    {key: "servers", label: "Servers", value: "4", steps: ["1", "2", "4", "8"]},
    {key: "delay", label: "Delay in the picture", value: "0", steps: delays, unit: "steps"},
    {key: "rate", label: "Learning rate of the curves", value: "0.5", steps: Object.keys(delayed).sort()},
    {key: "ranks", label: "Ranks of PipeDream", value: "4", steps: ranks},
  ],
  commands: s => ({
    delays: compared(s),
    timeline: {words: ["run", ...served(s), "--set", `data_parallel.delay=${s.delay}`, "--format", "json", "--svg", "timeline.svg",
                       "--picture", "timeline"], made: ["timeline.svg"]},
    pipe: {words: ["schedule", "pipedream", "--pipeline", s.ranks, "--microbatches", "16", "--forward", "10ms", "--backward",
      "10ms",
                   "--weight", "10ms", "--format", "json"]},
  }),
  show({delays: all, timeline, pipe}, s, choose) {
    const rows = all.json.rows.map((run, i) => ({
      current: delays[i] === s.delay, pick: () => choose({delay: delays[i]}),
      cells: [`Delay ${delays[i]}`, seconds(run.iteration_s), number(run.servers.steps_per_s), number(run.servers.staleness.mean),
              whole(run.servers.versions), gibibytes(run.peak_memory_bytes.device),
                percent(run.breakdown_s.bubble / run.iteration_s),
              `${last(s.rate, delays[i]).toPrecision(3)}`]}));
    const line = (name, key, x, y, current) => ({name, current, points: x.map((one, i) => [one, y[i]])});
    const {weight_versions: versions, staleness} = pipe.json;
    return [
      table({caption: "GPT 350M on eight A100", columns: ["", "Step", "Steps per second", "Gradients are late by (mean, steps)",
        "Versions in use",
                                                          "On the device", "Waiting (share)", "Loss after 60 steps"], rows}),
      curves({title: `Loss by steps, learning rate ${s.rate} (recorded)`, x: {label: "steps"}, y: {label: "loss", from: 0, to: 6},
              lines: delays.map(delay => line(`delay ${delay}`, delay, steps(delayed[s.rate][delay]), delayed[s.rate][delay],
                delay === s.delay))}),
      curves({title: "The same by time, with steps as long as in the table", x: {label: "seconds"}, y: {label: "loss", from: 0,
        to: 6},
              lines: delays.map((delay, i) => line(`delay ${delay}`, delay, steps(delayed[s.rate][delay]).map(step =>
                step * all.json.rows[i].iteration_s),
                                                   delayed[s.rate][delay], delay === s.delay))}),
      picture(timeline.made["timeline.svg"], `Who works when with a delay of ${s.delay}`),
      table({caption: `PipeDream on ${s.ranks} rank${s.ranks === "1" ? "" : "s"}`, columns: ["", "Versions of the weights",
        "Gradients are late by (updates)"],
             rows: versions.map((kept, rank) => ({cells: [`Rank ${rank}`, whole(kept), whole(staleness[rank])]}))}),
      curves({title: "PipeDream: loss by passes over 16 micro-batches (recorded)", x: {label: "passes"}, y: {label: "loss",
        from: 0},
              lines: ranks.map(count => ({name: `${count} rank${count === "1" ? "" : "s"}`, current: count === s.ranks,
                                          points: pipedream[count].map((loss, i) => [i + 1, loss])}))}),
      note("Recorded: web/page/recorded.js names the commands of rehearse measure that trained them."),
    ];
  },
  tasks: [
    {id: "synchronous", ask: `Worker 5 is slow. How much longer does a synchronous step (delay 0) take than with eight equal workers?`,
     options: ["hardly", "by about an eighth: one of eight is slow", "by about as much as worker 5 is slower"],
     commands: () => ({slow: compared({servers: "4", slow: "1.5"}), even: compared({servers: "4", slow: "1"})}),
     right: ({slow, even}) => least([1, 1 + .5 / 8, 1.5].map(ratio =>
       Math.abs(slow.json.rows[0].iteration_s / even.json.rows[0].iteration_s - ratio))),
     hints: ["Set the slow worker to 1, then to 1.5, and compare the first row."],
     why: ({slow, even}) => `${seconds(even.json.rows[0].iteration_s).text} becomes ${seconds(slow.json.rows[0].iteration_s).text}:
       everybody waits for the slowest.`},
    {id: "hide", ask: `Worker 5 at 1.5 times: choose servers and a delay so that a step takes at most 1 % longer than worker 5
     computes.`,
     check: (s, {timeline: {json}}) => {
       const busy = Math.max(...json.ranks.map(rank => rank.busy_s));
       return wanted([s.slow === "1.5", "Leave worker 5 at 1.5 times."],
                     [json.iteration_s <= 1.01 * busy, `A step takes ${seconds(json.iteration_s).text}, worker 5 computes for
                       ${seconds(busy).text}.`]);
     },
     hints: ["A delay hides the way to the servers and back.", "With four servers, choose the row of delay 1."],
     why: `With a delay the next step begins while gradients travel. What stays is the slow worker itself: a bounded delay only
       lends time.`},
    {id: "steps", ask: "Learning rate 1: one delay diverges. Which of the others has learned the least after 60 steps?",
     options: delays.map(delay => `delay ${delay}`),
     right: () => least(delays.map(delay => last("1", delay)), loss => loss < delayed["1"]["0"][0] ? -loss : 0),
     hints: ["Set the learning rate of the curves to 1. One curve leaves the picture."],
     why: () => `After 60 steps: ${delays.map(delay => `${last("1", delay).toPrecision(3)} with ${delay}`).join(", ")}. The larger
       the step, the less delay it bears.`},
    {id: "time", ask: "Learning rate 0.5, worker 5 at 1.5 times, 4 servers: which delay reaches a loss of 1 first by the clock?",
     options: delays.map(delay => `delay ${delay}`), commands: () => ({all: compared({servers: "4", slow: "1.5"})}),
     right: ({all}) => least(delays.map((delay, i) => reached(all.json.rows[i], delay, "0.5", 1) ?? Infinity)),
     hints: ["Look at the second plot: its steps are as long as in the table."],
     why: ({all}) => delays.map((delay, i) => {
       const time = reached(all.json.rows[i], delay, "0.5", 1);
       return time === null ? `with ${delay} not within 60 steps` : `${seconds(time).text} with ${delay}`;
     }).join(", ") + `. Steps that are ${percent(1 - all.json.rows[1].iteration_s / all.json.rows[0].iteration_s).text} shorter do
       not pay for gradients that are a step old.`},
    {id: "versions", ask: `PipeDream: find a pipeline whose first rank keeps eight versions of its weights, and look at what the
     loss pays.`,
     check: (s, {pipe: {json}}) => wanted([Math.max(...json.weight_versions) === 8, `Rank 0 keeps ${json.weight_versions[0]}.`]),
     hints: ["Rank r of p keeps p − r versions."],
     why: (_, s) => `Rank 0 has ${s.ranks} micro-batches under way, each with weights of its own; after 16 passes the loss is
       ${pipedream[s.ranks].at(-1)} where one rank without delay has ${pipedream["1"].at(-1)}.`},
  ],
};
