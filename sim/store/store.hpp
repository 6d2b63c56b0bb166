// Results of many scenarios in one SQLite file, filled concurrently by any number of threads, processes and ranks, each
// of which may end at any moment.
//
// A point identifies a request: a scenario file and its settings. Its row holds the digest of the resulting scenario
// and the result of one version of this program, and is valid while both stay the same. Points are claimed before they
// are computed. A claim is valid while its process lives: on this host the end of a process is detected; a process on
// another host counts as ended when it has not reported for kLease. If a point is claimed twice after all, it is
// written twice with the same bytes.
//
// sim/design/sweep.md has the tables and explains what can be lost.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace rehearsal::store {

inline constexpr std::chrono::seconds kLease{60}, kBeat{10};

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

struct Claims {
  struct Ours {
    std::size_t index;   // of the point
    std::string digest;  // of the stored row; empty if there is none
  };
  std::vector<Ours> ours;
  std::vector<std::size_t> taken, done;  // claimed by other live processes; finished since this store was opened
  std::size_t looked = 0;                // candidates in any of the three lists
};

// All functions may be called from several threads.
class Store {
 public:
  // Opens the file, or creates it for writing. Throws UserError if it is no store or has another format, and whatever
  // Database throws.
  Store(const std::string& path, std::string version, std::vector<Column> columns, Access access);
  ~Store();  // releases remaining claims

  // Claims the first `most` points among `candidates` that are neither done nor taken.
  Claims claim(std::span<const Point> points, std::span<const std::size_t> candidates, std::size_t most);
  // One transaction: new rows, and claimed points whose stored rows are still right.
  void finish(std::span<const Row> rows, std::span<const Point> right);
  void beat();                   // reports that this process lives
  std::size_t finished() const;  // points finished by any process since this store was opened

  std::optional<Row> row(const Point& point, bool with_result) const;
  // The row without error that has the minimum of a column, among those whose `unless_zero` is not 0.
  std::optional<Row> least(const std::string& column, const std::string& unless_zero) const;
  std::vector<Point> points() const;          // of this version, in byte order
  std::vector<std::string> versions() const;  // all that have rows

 private:
  struct Prepared;
  void make();
  void check() const;
  void enlist();
  bool works(std::int64_t worker);

  std::string version_;
  std::vector<Column> columns_;
  std::unique_ptr<Prepared> prepared_;
};

// Whether the file is an SQLite database of any program.
bool is_database(const std::string& path);

}  // namespace rehearsal::store
