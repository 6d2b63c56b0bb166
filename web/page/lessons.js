// The lessons in their order.
import balance from "./lessons/balance.js";
import context from "./lessons/context.js";
import delay from "./lessons/delay.js";
import fsdp from "./lessons/fsdp.js";
import goodput from "./lessons/goodput.js";
import offload from "./lessons/offload.js";
import plan from "./lessons/plan.js";
import recompute from "./lessons/recompute.js";
import reshard from "./lessons/reshard.js";
import ring from "./lessons/ring.js";
import schedules from "./lessons/schedules.js";
import tensor from "./lessons/tensor.js";
import trace from "./lessons/trace.js";
import zero from "./lessons/zero.js";

export const lessons = [schedules, trace, ring, delay, zero, fsdp, tensor, context, recompute, offload, reshard, balance, goodput, plan];
