// Colours of memory categories.
#pragma once
#include <vector>

#include "graph/task_graph.hpp"
#include "page/canvas.hpp"

namespace rehearsal::report {

inline std::vector<page::Rgb> memory_colors() {  // indexed by graph::MemoryCategory
  return {{76, 92, 138},                         // parameters
          {143, 176, 217},                       // gradients
          {167, 139, 208},                       // optimizer
          {240, 176, 66},                        // activations
          {226, 120, 80},                        // recomputed
          {200, 84, 120},                        // loss
          {47, 165, 143},                        // communication
          {180, 186, 196},                       // workspace
          {92, 100, 112}};                       // buffers
}

}  // namespace rehearsal::report
