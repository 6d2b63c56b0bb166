import {readable} from "../controls.js";
import {curves} from "../curves.js";
import {note, picture, table} from "../dom.js";
import {least, wanted} from "../tasks.js";
import {number, percent, seconds} from "../units.js";

const scenario = "scenarios/gpt3-175b-1024xa100.yaml";
const intervals = ["10min", "20min", "40min", "80min", "160min", "320min", "auto"];
const minutes = interval => Number.parseInt(interval, 10);
function job(s, interval) {
  const own = `checkpoint: {rate: ${s.rate}, async: ${s.async === "yes"}, interval: ${interval}}`;
  return `job={tokens: 300B, gpu_hour: 2, currency: USD, failures: {per_1000_node_days: ${s.failures}, restart: ${s.restart}}, ${own}}`;
}
const compared = s => ({words: ["compare", scenario, "--set", job(s, "1h"), "--vary",
  `job.checkpoint.interval=${intervals.join(",")}`,
                                "--format", "json"]});
const usual = {failures: "6.5", interval: "160min", rate: "20GB/s", restart: "10min", async: "no"};
const atBest = s => ({words: ["run", scenario, "--set", job(s, "auto"), "--format", "json"]});
const best = answer => (answer.json.rows?.at(-1) ?? answer.json).job;
const money = value => ({value, text: `${(value / 1e6).toFixed(3)} M USD`});
const days = value => ({value, text: `${value.toFixed(2)} days`});

export default {
  id: "goodput",
  name: "Goodput",
  title: "Goodput: failures and checkpoints",
  text: `<p>A GPU fails every few years; of a thousand, one fails every day or two, and all stop. What was computed since the last
    checkpoint is computed again. Writing one more often loses less and stops more often: between the two lies a best interval,
    about √(2&nbsp;·&nbsp;stall&nbsp;·&nbsp;time between failures). <em>Goodput</em> is the share of the time that trains. Here
    GPT-3 sees 300 billion tokens on 1,024 A100 (128 nodes) at 2 USD per GPU-hour.</p>`,
  controls: [
    {key: "failures", label: "Failures per 1,000 node-days", value: "6.5", steps: ["1", "2.3", "3.8", "6.5", "10", "16", "30"]},
    {key: "interval", label: "Checkpoint interval", value: "160min", steps: intervals, texts: [...intervals.slice(0, -1).map(one =>
      `${minutes(one)} min`), "auto: the best"]},
    {key: "rate", label: "Storage bandwidth", value: "20GB/s", steps: ["5GB/s", "20GB/s", "100GB/s", "500GB/s"]},
    {key: "restart", label: "Restart time", value: "10min", steps: ["2min", "10min", "30min", "60min"], texts: ["2 min",
      "10 min", "30 min", "60 min"]},
    {key: "async", label: "Written in the background", value: "no", options: ["no", "yes"]},
  ],
  commands: s => ({
    intervals: compared(s),
    one: {words: ["run", scenario, "--set", job(s, s.interval), "--format", "json", "--svg", "breakdown.svg", "--picture",
      "breakdown"],
          made: ["breakdown.svg"]},
  }),
  show({intervals: all, one}, s, choose) {
    const rows = all.json.rows.map((run, i) => ({
      current: intervals[i] === s.interval, pick: () => choose({interval: intervals[i]}),
      cells: [i < intervals.length - 1 ? `${minutes(intervals[i])} min`
        : `best: ${(run.job.checkpoint_interval_s / 60).toFixed(0)} min`,
              percent(run.job.goodput), days(run.job.days), money(run.job.cost), number(run.job.failures),
                seconds(run.job.checkpoint.stall_s),
              seconds(run.job.checkpoint.down_s)]}));
    const fixed = all.json.rows.slice(0, -1);
    return [
      table({caption: "The whole training, by how often a checkpoint is written",
             columns: ["Interval", "Goodput", "Duration", "Cost", "Failures", "Stall per checkpoint", "Downtime per failure"],
               rows}),
      curves({title: "Goodput over the interval", x: {label: "minutes between checkpoints", log: true, at: intervals.slice(0,
        -1).map(minutes)},
              y: {label: "goodput (%)"}, lines: [{name: "simulated", dots: true, current: true,
                                                 points: fixed.map((run, i) => [minutes(intervals[i]), 100 * run.job.goodput])}]}),
      picture(one.made["breakdown.svg"], "Where the time of one step goes; a failure repeats steps"),
      note(`Days: ${one.json.job.simulated.runs} trainings were simulated; 5 to 95 % of them take ${one.json.job.simulated.days.p5.toFixed(2)} to
        ${one.json.job.simulated.days.p95.toFixed(2)} days.`),
    ];
  },
  tasks: [
    {id: "interval", ask: `With 6.5 failures per 1,000 node-days, storage of 20 GB/s and a restart of 10 minutes, choose an interval
     (not “auto”) that is within 0.2 percentage points of the best goodput.`,
     check: (s, {intervals: all}) => {
       const chosen = all.json.rows[intervals.indexOf(s.interval)].job, off = 100 * (best(all).goodput - chosen.goodput);
       return wanted([s.failures === "6.5" && s.rate === "20GB/s" && s.restart === "10min" && s.async === "no",
         "Set the other settings back to their initial values."],
                     [s.interval !== "auto", "Choose a number of minutes."],
                     [off <= .2, `${s.interval.replace("min", " min")} is ${off.toFixed(2)} percentage points below the best.`]);
     },
     hints: [`√(2 · stall · time between failures): the stall is in the table, and 128 nodes with 6.5 failures in 1,000 days fail
       0.83 times a day.`,
             "The curve is nearly flat around its top."],
     why: ({intervals: all}) => `The best is ${(best(all).checkpoint_interval_s / 60).toFixed(0)} min, with
       ${percent(best(all).goodput).text}. Around it the curve is flat, so a round number will do.`},
    {id: "which", ask: `16 failures per 1,000 node-days, the best interval each time: what helps more, storage five times as fast,
     or a restart in 2 minutes instead of 10?`,
     options: ["storage five times as fast", "the quick restart"],
     commands: () => ({storage: atBest({...usual, failures: "16", rate: "100GB/s"}), restart: atBest({...usual, failures: "16",
       restart: "2min"}),
                       now: atBest({...usual, failures: "16"})}),
     right: ({storage, restart}) => least([storage, restart].map(answer => -best(answer).goodput)),
     hints: [`A restart costs its time once a failure. A checkpoint costs its stall again and again, and what is repeated depends
       on it, too.`],
     why: ({now, storage, restart}) => `From ${percent(best(now).goodput).text} to ${percent(best(storage).goodput).text} with the
       storage, to ${percent(best(restart).goodput).text} with the restart.`},
    {id: "async", ask: "30 failures per 1,000 node-days: reach a goodput of 95 % with storage of 20 GB/s.",
     check: (s, {one: {json}}) => wanted([s.failures === "30", `Failures: ${s.failures}.`], [s.rate === "20GB/s", `Storage:
       ${readable(s.rate)}.`],
                                         [json.job.goodput >= .95, `Goodput is ${percent(json.job.goodput).text}.`]),
     hints: ["Let ranks copy to their hosts, which write while training goes on.",
       "Then a checkpoint hardly stops anything: write it more often, and restart sooner."],
     why: ({one: {json}}) => `A checkpoint stops training for ${seconds(json.job.checkpoint.stall_s).text}, so it may be written
       every ${(json.job.checkpoint_interval_s / 60).toFixed(0)} min.`},
    {id: "money", ask: `Failures rise from 1 to 16 per 1,000 node-days, with storage of 20 GB/s and the best interval. About how
     much more does the training cost?`,
     options: ["about 1 %", "about 3 %", "about 8 %", "about 20 %"],
     commands: () => ({few: atBest({...usual, failures: "1"}), many: atBest({...usual, failures: "16"})}),
     right: ({few, many}) => least([.01, .03, .08, .2].map(share =>
       Math.abs(Math.log((best(many).cost / best(few).cost - 1) / share)))),
     hints: ["Read the last row for both."],
     why: ({few, many}) => `${money(best(few).cost).text} becomes ${money(best(many).cost).text},
       ${percent(best(many).cost / best(few).cost - 1).text} more: the cost of failures grows like the root of their rate while
       they are rare.`},
  ],
};
