// A job with a GPU per process, in one thread: every rank has a recording device of its own, its own communicators and
// its own crew, and they take turns. What a process does is the same code as in a real job.
#pragma once
#include <map>

#include "backend/backend.hpp"
#include "recorder/recorder.hpp"

namespace rehearsal::test {

std::unique_ptr<backend::Backend> processes_in_one_thread(World& world);

}  // namespace rehearsal::test
