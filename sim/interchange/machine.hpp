// Machines of other tools' files, beside those of configs/clusters.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/draft.hpp"
#include "scenario/files.hpp"

namespace rehearsal::interchange {

// What a file says of a machine, in FLOP/s and bytes/s; 0: it does not.
struct Sheet {
  std::string gpu = {};         // part of its name: "A100"
  double peak = 0;              // dense, in 16 bits
  double memory_bandwidth = 0;  // of a GPU
  double memory = 0;            // of a GPU, bytes
  double scale_up = 0;          // out of a GPU inside its node
  double node_out = 0;          // out of all NICs of a node
  std::int64_t gpus_per_node = 0;
};

// The name of the cluster of configs/clusters whose data sheet is nearest to this; empty if none has such a GPU.
std::string nearest_cluster(const Sheet& sheet, const scenario::Files& files);

// Bytes or FLOP a second, and sizes, as scenarios have them: "450GB/s", "312TFLOP/s", "80GiB", "1MiB".
std::string bandwidth_text(double bytes_per_second);
std::string flop_rate_text(double flops_per_second);
std::string size_text(double bytes);
std::string time_text(double seconds);

// Completes `cluster` of a draft by what its base says: the names of the parts that a file says only some keys of, and
// the machine that measured collectives were measured on.
void complete_machine(ScenarioDraft& draft, const scenario::Files& files);

// A line of a text with its number, without the end of the line and control sequences of terminals.
struct Line {
  int number;
  std::string text;
};
std::vector<Line> lines_of(std::string_view text);
std::vector<std::string> words_of(std::string_view line, std::string_view between = " \t");

}  // namespace rehearsal::interchange
