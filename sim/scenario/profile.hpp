// Profiles of measured machines as files, and where the profiles of this machine are stored.
//
// `cluster: this-machine` takes the profile that `rehearse calibrate` wrote for this user: this-machine-BACKEND.yaml in
// Files::profiles(). Without a backend, mpi is preferred to loopback: its messages leave the process.
#pragma once
#include <string>

#include "cluster/cluster.hpp"
#include "cost/profile.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

// The file for this machine's profile of a backend; empty if there is no folder for profiles.
std::string profile_file(const std::string& backend, const Files& files = disk());

// The file's text. Loading it restores the same profile, to the last digit.
std::string write_profile(const cost::Profile& profile);
// SHA-256 of the measured values, where and how they were measured; excludes name and summary.
std::string profile_digest(const cost::Profile& profile);

// The GPU type in configs/gpus that a measured GPU has: the starting point of a fit (cost/gpu_fit.hpp). Throws
// UserError if there is none.
cluster::Gpu gpu_file_of(const cost::GpuIdentity& measured, const Files& files = disk());

// Throws UserError with every error of the file at once.
cost::Profile load_profile_file(const std::string& path, const Files& files = disk());

}  // namespace rehearsal::scenario
