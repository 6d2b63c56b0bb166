// A plan or a collective that a backend performed by itself, beside what was predicted of it.
#pragma once
#include <optional>
#include <string>

#include "backend/backend.hpp"
#include "page/page.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

struct PerformedAlone {
  const timeline::Timeline& timeline;
  double predicted;                                      // s
  std::optional<backend::Collectives> collectives = {};  // where one was performed
};
Shown<PerformedAlone> performed_alone();

// "1.20 s over mpi, median of 3; ...; predicted 2.3 % shorter"
std::string performed_note(const PerformedAlone& performed, const page::Paint& paint);

}  // namespace rehearsal::report
