// Arrays that NumPy saves (numpy.save): the NPY format 1.0 to 3.0 (numpy/lib/format.py).
#pragma once
#include <string>
#include <vector>

#include "scenario/files.hpp"

namespace rehearsal::scenario {

// A table of numbers, row by row: whole numbers of 8 to 64 bits, or floating-point ones of 32 or 64. Throws UserError:
// another type or number of dimensions, with what to save instead.
std::vector<std::vector<double>> read_npy_rows(const std::string& path, const Files& files);

}  // namespace rehearsal::scenario
