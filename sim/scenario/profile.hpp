// Profiles of measured machines as files, and where those of this machine lie.
//
// `cluster: this-machine` takes the profile that `rehearse calibrate` wrote for this user: this-machine-BACKEND.yaml in
// Files::profiles(). Without a backend that of mpi goes before that of loopback: its messages leave the process.
#pragma once
#include <string>

#include "cluster/cluster.hpp"
#include "cost/profile.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

// The file that holds this machine's profile for a backend; empty where there is no folder for it.
std::string profile_file(const std::string& backend, const Files& files = disk());

// The file's text. Loading it gives the same profile, to the last digit.
std::string write_profile(const cost::Profile& profile);
// SHA-256 over what was measured, where and how; neither name nor summary count.
std::string profile_digest(const cost::Profile& profile);

// The type of configs/gpus that a measured GPU is: what a fit starts from (cost/gpu_fit.hpp). Throws UserError when
// there is none.
cluster::Gpu gpu_file_of(const cost::GpuIdentity& measured, const Files& files = disk());

// Throws UserError with every error of the file at once.
cost::Profile load_profile_file(const std::string& path, const Files& files = disk());

}  // namespace rehearsal::scenario
