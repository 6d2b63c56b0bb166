// Results of many scenarios, filled concurrently by any number of processes, each of which may end at any moment: in
// one SQLite file, or in a folder where every process writes a file of its own (a shard) and reads those of all.
//
// A point identifies a request: a scenario file and its settings. Its row holds the digest of the resulting scenario
// and the result of one version of this program, and is valid while both stay the same.
//
// sim/design/sweep.md has the tables and explains what can be lost.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/claims.hpp"

namespace rehearsal::store {

struct Column {
  std::string name;    // in SQL
  bool whole = false;  // an integer
};

struct Point {
  std::string file;
  std::string set;  // a JSON object on one line
  auto operator<=>(const Point&) const = default;
};

struct Row {
  Point point;
  std::string digest;
  std::string error;                           // empty: successful
  std::vector<std::optional<double>> numbers;  // one per Column
  std::string warnings, result;                // JSON
};

// All functions may be called from several threads.
class Store {
 public:
  // Opens a store to read; with `self`, to write as that process, and makes the store where there is none. Throws
  // UserError if it is no store or has another format, if another process writes the file and locks cannot be relied
  // on, and whatever Database throws.
  Store(const std::string& path, std::string version, std::vector<Column> columns, Claims* self = nullptr);
  ~Store();

  void write(std::span<const Row> rows);  // one transaction
  void refresh();                         // of a folder: reads what other processes have written since

  std::string digest(const Point& point) const;  // of its row; empty if there is none
  std::optional<Row> row(const Point& point, bool with_result) const;
  // The row without error that has the minimum of a column, among those whose `unless_zero` is not 0.
  std::optional<Row> least(const std::string& column, const std::string& unless_zero) const;
  std::vector<Point> points() const;          // of this version, in byte order
  std::vector<std::string> versions() const;  // all that have rows

 private:
  struct Files;
  void read(const std::string& shard);

  std::string version_;
  std::vector<Column> columns_;
  std::unique_ptr<Files> files_;
};

// Whether it is a folder, or an SQLite database of any program.
bool is_store(const std::string& path);

}  // namespace rehearsal::store
