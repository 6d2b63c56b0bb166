// A job with one GPU per process, in one thread: every rank has its own recording device, communicators and executor,
// and the ranks take turns. The code of a process is the same as in a real job.
#pragma once
#include <map>

#include "backend/backend.hpp"
#include "recorder/recorder.hpp"

namespace rehearsal::test {

std::unique_ptr<backend::Backend> processes_in_one_thread(World& world);

}  // namespace rehearsal::test
