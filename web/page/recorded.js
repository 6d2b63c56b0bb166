// Written by web/record.js. Losses of real trainings on a CPU, by this program's own kernels; the last of each kind of command:
//   rehearse measure scenarios/measure/gpt-tiny-servers-this-machine.yaml --backend loopback --verify --steps 1 --format json --quiet --set model.hidden=32 --set model.heads=2 --set model.sequence=16 --set model.layers=2 --set training.optimizer=sgd --set training.learning_rate=1 --set data_parallel.delay=4 --set simulate.iterations=60
//   rehearse measure scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --backend loopback --verify --steps 16 --format json --quiet --set model.hidden=32 --set model.heads=2 --set model.sequence=16 --set model.layers=8 --set model.tie_embeddings=false --set batch.global=16 --set batch.micro=1 --set schedule=pipedream --set training.learning_rate=0.003 --set 'parallelism={pipeline: 8}'
// A tiny GPT, the same sequences in every step.

// By learning rate (SGD) and delay: two workers and two servers. Each number is the mean of 6 steps.
export const block = 6;
export const delayed = {
 "1": {
  "0": [ 4.378, 3.672, 2.577, 1.793, 0.9423, 0.4738, 0.2346, 0.1374, 0.09486, 0.07168 ],
  "1": [ 4.462, 4.096, 3.854, 3.605, 2.948, 2.031, 1.461, 0.9935, 0.569, 0.3367 ],
  "2": [ 4.573, 4.181, 4.369, 4.433, 4.233, 3.88, 3.689, 3.149, 2.795, 2.807 ],
  "4": [ 4.607, 4.421, 4.325, 5.332, 9.535, 34.45, 105.5, 638.3, 26470, 927200 ]
 },
 "0.25": {
  "0": [ 4.504, 4.276, 3.95, 3.631, 3.282, 2.859, 2.45, 2.113, 1.724, 1.376 ],
  "1": [ 4.536, 4.387, 4.161, 3.888, 3.564, 3.278, 2.917, 2.596, 2.336, 1.953 ],
  "2": [ 4.572, 4.433, 4.322, 4.09, 3.861, 3.656, 3.337, 2.967, 2.642, 2.459 ],
  "4": [ 4.61, 4.49, 4.334, 4.317, 4.246, 4.021, 4.039, 3.622, 3.453, 3.408 ]
 },
 "0.5": {
  "0": [ 4.46, 4.019, 3.389, 2.732, 2.17, 1.475, 1.024, 0.7067, 0.3907, 0.2713 ],
  "1": [ 4.51, 4.245, 3.892, 3.43, 2.817, 2.296, 1.995, 1.469, 1.187, 0.8962 ],
  "2": [ 4.57, 4.315, 4.2, 4.044, 3.619, 3.347, 2.91, 2.493, 2.079, 1.828 ],
  "4": [ 4.607, 4.464, 4.165, 4.38, 4.154, 4.487, 4.094, 3.885, 3.889, 4.182 ]
 }
};

// By ranks: PipeDream (AdamW, a rate of 0.003), each number the mean of 16 updates.
export const pipedream = {
 "1": [ 5.03, 4.376, 3.73, 3.331, 2.799, 2.472, 2.186, 1.721, 1.362, 1.044, 0.8231, 0.6233, 0.5092, 0.3742, 0.2818, 0.2012 ],
 "2": [ 5.08, 4.445, 3.887, 3.515, 3.233, 2.72, 2.329, 1.977, 1.667, 1.352, 1.211, 1.024, 0.7565, 0.5564, 0.428, 0.3136 ],
 "4": [ 5.107, 4.601, 4.139, 3.635, 3.402, 3.122, 2.889, 2.477, 2.003, 1.698, 1.511, 1.238, 0.9425, 0.7005, 0.5452, 0.4194 ],
 "8": [ 5.148, 4.67, 4.204, 3.997, 3.923, 3.64, 3.301, 3.055, 2.734, 2.542, 2.298, 1.915, 1.648, 1.448, 1.234, 1.033 ]
};
