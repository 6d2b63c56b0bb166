// The lessons in their order.
import balance from "./lessons/balance.js";
import offload from "./lessons/offload.js";
import recompute from "./lessons/recompute.js";
import reshard from "./lessons/reshard.js";
import ring from "./lessons/ring.js";
import schedules from "./lessons/schedules.js";
import tensor from "./lessons/tensor.js";
import zero from "./lessons/zero.js";

export const lessons = [schedules, zero, tensor, recompute, offload, ring, reshard, balance];
