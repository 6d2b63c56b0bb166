// A plan or a collective that a backend performed by itself, beside what was predicted of it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "backend/backend.hpp"
#include "page/page.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

struct PerformedAlone {
  const timeline::Timeline& timeline;
  double predicted;                                      // s
  std::optional<backend::Collectives> collectives = {};  // where one was performed
  std::vector<answer::Measured::Link> links = {};        // over hosts of this machine
};
Shown<PerformedAlone> performed_alone();

// "  Measured    1.20 s over mpi, median of 3; ...; predicted 2.3 % shorter", and what else there is to say, with
// labels of a width; below all else, what disturbed it.
std::string performed_lines(const PerformedAlone& performed, int label, const page::Paint& paint);
// The same for a page.
std::vector<page::Fact> performed_facts(const PerformedAlone& performed);

}  // namespace rehearsal::report
