#include "cli/compare_store.hpp"
#include "base/program.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/stored_rows.hpp"

namespace rehearsal::cli {

bool is_store(const std::string& path) { return store::is_store(path); }

int show_store(const std::string& path, const TableOptions& options, const CommonOptions& common) {
  const store::Store store(path, program_version(), stored_columns());
  auto points = store.points();
  if (points.empty()) {
    const auto others = store.versions();
    throw UserError(
        others.empty()
            ? fmt::format("compare: the store '{}' has no rows yet{}", path,
                          store::is_folder(path) ? "; scenarios of a folder are named one by one: *.yaml" : "")
            : fmt::format("compare: the store '{}' has rows of version {} only, and this is {}; run the "
                          "sweep again for rows of this version",
                          path, fmt::join(others, ", "), program_version()));
  }
  std::vector<report::CompareRow> rows;
  for (const auto& point : points) rows.push_back(row_of(*store.row(point, false), settings_of(point)));
  const auto order = by_value(rows);
  std::vector<report::CompareRow> ordered;
  for (const auto i : order) ordered.push_back(std::move(rows[i]));
  emit_rows(common, options, {}, ordered,
            [&](std::size_t i) { return store.row(points[order[i]], true).value().result; });
  return 0;
}

}  // namespace rehearsal::cli
