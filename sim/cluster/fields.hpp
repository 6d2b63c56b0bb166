// What users may specify of a GPU and of a cluster: keys, units, ranges, defaults (base/fields.hpp).
#pragma once
#include "base/fields.hpp"
#include "cluster/cluster.hpp"
#include "cluster/faults.hpp"

namespace rehearsal::cluster {

// Share of the rate sold that crosses a fabric: adaptive routing of InfiniBand .96; RoCE tuned by many queue pairs or
// spraying .92; plain ECMP .6 across leaves, where the slowest of colliding flows decides (a third to two thirds of the
// rate, Monte Carlo; 70 of 100 Gb/s in the field), and under one leaf, where there is one way and nothing to choose,
// what adaptive routing passes. NIC efficiencies were measured over InfiniBand. TCP in Ethernet frames of 1500 bytes:
// 1448 of the 1538 that a frame takes on the wire are payload (RFC 9293; IEEE 802.3), and one or a few long streams
// fill it (measured over hosts, sim/design/hosts.md).
inline constexpr double kFabricInfiniband = .96, kFabricRoceTuned = .92, kFabricEcmp = .6,
                        kFabricEcmpOneLeaf = kFabricInfiniband, kFabricTcp = 1448. / 1538;

const fields::Description& gpu_fields();           // of Gpu
const fields::Description& host_fields();          // of Host
const fields::Description& interconnect_fields();  // of Interconnect
const fields::Description& cluster_fields();       // of ClusterSpec; the GPU is described by itself
fields::Form fault_list();                         // of Fault
fields::Form written_links();                      // of WrittenLink

}  // namespace rehearsal::cluster
