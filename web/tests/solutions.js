// How each task may be solved, found by working through the page: settings that solve it, or the choice that is right. Where a
// change of the simulator makes another choice right, this is where it shows.
export const solutions = {
  schedules: {gpipe: {left: "gpipe", m: "27"}, memory: {left: "gpipe", right: "1f1b", m: "16"}, short: "zb-auto", none: {right: "zb-v"}},
  trace: {slow: "rank 5", idle: "others, which compute", mend: {from: "5"}, work: "it has more layers than others",
          link: "what goes to and from rank 3 takes long"},
  ring: {twice: {ranks: "7"}, halves: "both the same", small: {algorithm: "tree-all-reduce", ranks: "8", node: "1", size: "32KiB"},
         node: "about twice as long"},
  delay: {synchronous: "by about as much as worker 5 is slower", hide: {delay: "1"}, steps: "delay 2", time: "delay 0", versions: {ranks: "8"}},
  zero: {share: {n: "256"}, lowest: {stage: "2"}, traffic: "stage 3: half as much again", left: "parameters"},
  fsdp: {hide: {prefetch: "1"}, keep: "about a quarter", short: {prefetch: "1", sequence: "1024"}, nodes: "hardly changes"},
  tensor: {fit: {micro: "4", degree: "4"}, half: {wire: "25GB/s"}, slow: "2", tokens: "stays about the same"},
  context: {fit: {sequence: "131072", degree: "4"}, mask: "a quarter to a half longer", bytes: "all-to-all",
            wire: {wire: "25GB/s", sequence: "131072"}},
  recompute: {long: {sequence: "32768", mode: "full"}, price: "a third", cheap: {attention: "unfused", mode: "selective"}, flash: "nothing"},
  offload: {efficiency: {steps: "32"}, bottleneck: "the memory", disk: {optimizer: "nvme", steps: "16"}, without: "about seven times"},
  reshard: {once: {from: "S0RR", to: "RRR", strategy: "local-allgather"}, planner: "nearly twice as long", free: {from: "S0RR", to: "S0RR"},
            nic: "about a quarter"},
  balance: {even: {skew: "1.2", nodes: "1"}, greedy: {skew: "2"}, alone: "one expert alone has more than that share", more: "rises"},
  goodput: {interval: {interval: "80min"}, which: "storage five times as fast",
            async: {failures: "30", async: "yes", interval: "10min", restart: "2min"}, money: "about 8 %"},
  plan: {budget: {deadline: "4d"}, double: "up by a tenth to a quarter", memory: {recompute: "none", margin: "10%"},
         impossible: {tokens: "400B", deadline: "4d"}, gpus: "no, the cheapest has more GPUs"},
};
