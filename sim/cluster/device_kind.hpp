// What kinds of device are called.
#pragma once
#include "cluster/topology.hpp"

namespace rehearsal::cluster {

const char* name(DeviceKind kind);  // "GPU"

}  // namespace rehearsal::cluster
