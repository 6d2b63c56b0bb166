// Environment variables that CUDA and NCCL read once, at startup or at the first launch.
#pragma once

namespace rehearsal::cuda {

// Must be called before any use of CUDA, while there is only one thread. Does not override the user's settings.
void prepare_environment();

// Called before a communicator is made; the first one decides, for NCCL looks once. A rank has one communicator per
// channel on one GPU. With NCCL_LAUNCH_ORDER_IMPLICIT the order of their kernels on a device is the order of the calls;
// without it, NCCL (2.26 and later) requires the same order on all ranks, or may hang. But with it a recorded kernel of
// NCCL has a launch completion event, and cuGraphUpload crashes (H100, NCCL 2.28.3, driver 580.159.04). So it is set
// for communicators with peers alone, unless the user has chosen.
void order_launches(bool peers);

// The user has set it.
bool order_is_given();

}  // namespace rehearsal::cuda
