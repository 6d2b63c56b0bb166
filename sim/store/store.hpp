// Results of many scenarios in one SQLite file, which any number of threads, processes and ranks fill together, and
// which any of them may leave at any moment.
//
// A point is what was asked: a scenario file and what was set. Its row holds the digest of the scenario that came out
// of it and the answer of one version of this program, so that a row is right as long as both are the same. Points are
// claimed before they are computed. A claim counts while its process lives: one of this host that is gone is seen to
// be; one of another host has died when it has not been heard of for kLease. What is claimed twice nevertheless is
// written twice, with the same bytes.
//
// sim/design/sweep.md has the tables and says what is lost when.
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
  std::string name;    // of SQL
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
  std::string error;                           // empty: it worked
  std::vector<std::optional<double>> numbers;  // one per Column
  std::string warnings, result;                // JSON
};

struct Claims {
  struct Ours {
    std::size_t index;   // of the point
    std::string digest;  // of the row that is there already; empty where there is none
  };
  std::vector<Ours> ours;
  std::vector<std::size_t> taken, done;  // by others who live; since this store was opened
  std::size_t looked = 0;                // candidates that are in one of the three
};

// All functions may be called from several threads.
class Store {
 public:
  // Opens, or makes for writing. Throws UserError for what is no store, or one of another format, and what Database
  // throws.
  Store(const std::string& path, std::string version, std::vector<Column> columns, Access access);
  ~Store();  // gives up claims that are left

  // Takes, of the points that `candidates` count, the first `most` that are neither done nor taken.
  Claims claim(std::span<const Point> points, std::span<const std::size_t> candidates, std::size_t most);
  // One transaction: new rows, and claimed points whose rows are right as they are.
  void finish(std::span<const Row> rows, std::span<const Point> right);
  void beat();                   // says that this process lives
  std::size_t finished() const;  // points that anybody has finished since this store was opened

  std::optional<Row> row(const Point& point, bool with_result) const;
  // The row without an error that has the least of a column, of those whose `unless_zero` is not 0.
  std::optional<Row> least(const std::string& column, const std::string& unless_zero) const;
  std::vector<Point> points() const;          // of this version, in the order of bytes
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

// Whether the file is a database of SQLite, of whatever program.
bool is_database(const std::string& path);

}  // namespace rehearsal::store
