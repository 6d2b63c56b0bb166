// `rehearse calibrate` of a GPU: measured by the backend (gpu/probe.hpp), fitted and written as a profile.
//
// The whole GPU gives what configs/profiles holds of one: matrix products with their model, other kernels, links,
// launch costs. With several ranks it is measured as virtual stages see it: kernels while all partitions are busy,
// messages and rings as copies within its memory; that profile has no section of a GPU, because no part of one is a
// GPU.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cli/performer.hpp"
#include "cost/gpu_fit.hpp"
#include "cost/profile.hpp"
#include "gpu/probe.hpp"

namespace rehearsal::perform {

// The profile of what was measured, fitted and with its digest. Throws UserError for a GPU of which there is no file.
// `held_out`: other kernels than matrix products with what their fit predicts.
cost::Profile profile_of(const gpu::Probe& probe, std::vector<cost::Judged>& held_out);

// What NCCL says to two ranks on one GPU. It may hang whatever it was told of patience: then `hangs`, and a thread is
// left behind that keeps the backend.
struct Refusal {
  std::string words;
  bool hangs = false;
};
Refusal refusal(const std::shared_ptr<backend::Backend>& backend, Time patience, Time grace);

int calibrate_gpu(const cli::Calibration& what, const cli::CommonOptions& common);

}  // namespace rehearsal::perform
