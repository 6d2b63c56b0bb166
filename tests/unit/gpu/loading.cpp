// Loading code at a first launch may wait for pending messages whose other side waits for us.
#include <doctest/doctest.h>

#include <algorithm>

#include "recorder/recorder.hpp"

namespace rehearsal {
namespace {

using test::RecordingCommunicators;
using test::RecordingDevice;
using test::World;

// The recorder's complaint about a kernel that is first launched after a message.
std::size_t complaints(bool loaded) {
  World world({});
  RecordingDevice device(world), peer(world);
  const auto pool = device.make_pool();
  const auto stream = device.make_stream(0), other = peer.make_stream(0);
  const Bytes size{256};
  const auto block = device.allocate(pool, size, stream), into = peer.allocate(peer.make_pool(), size, other);
  device.fill(block, std::byte{0}, size, stream);
  kernels::Call clear;
  clear.kernel = {KernelKind::clear, {16}, {}, Precision::fp32};
  if (loaded) device.load(clear, stream);  // of operands that lie nowhere
  RecordingCommunicators here(world, device), there(world, peer);
  const std::string id = here.make_id();
  const auto left = here.join(id, 2, 0, gpu::Traffic::messages, seconds(1));
  const auto right = there.join(id, 2, 1, gpu::Traffic::messages, seconds(1));
  left->send(block, size, 1, stream), right->receive(into, size, 0, other);
  clear.operands = {block};
  device.perform(clear, stream);
  device.free(block, stream), peer.free(into, other);
  while (world.progress()) {
  }
  return static_cast<std::size_t>(std::ranges::count_if(
      world.broken(), [](const std::string& s) { return s.find("launched first") != std::string::npos; }));
}

}  // namespace

TEST_CASE("a first launch after communicators were used is found, unless its kernel was loaded before") {
  CHECK(complaints(false) == 1);
  CHECK(complaints(true) == 0);
}

}  // namespace rehearsal
