#include "store/store.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "store/workers.hpp"

namespace rehearsal::store {
namespace {

constexpr std::int64_t kProgram = 0x52485253;  // "RHRS": PRAGMA application_id
constexpr std::int64_t kFormat = 1;            // PRAGMA user_version

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

std::string named(const std::vector<Column>& columns) {
  std::string text;
  for (const auto& c : columns) text += quoted(c.name) + (c.whole ? " INTEGER, " : " REAL, ");
  return text;
}

std::string listed(const std::vector<Column>& columns) {
  std::string text;
  for (const auto& c : columns) text += quoted(c.name) + ", ";
  return text;
}

}  // namespace

struct Store::Prepared {
  Prepared(const std::string& path, Access access) : database(path, access) {}

  mutable std::mutex mutex;
  Database database;
  Worker self;
  std::int64_t worker = 0, opened = 0;  // id of this process; the commit counter when the store was opened
  struct Commands {
    explicit Commands(const Database& d, const std::vector<Column>& columns)
        : look(d,
               "SELECT w.worker, w.tick, r.digest FROM (SELECT ?1 AS version, ?2 AS file, ?3 AS \"set\") AS p "
               "LEFT JOIN work AS w ON w.version = p.version AND w.file = p.file AND w.\"set\" = p.\"set\" "
               "LEFT JOIN results AS r ON r.version = p.version AND r.file = p.file AND r.\"set\" = p.\"set\""),
          mark(d, "INSERT OR REPLACE INTO work(version, file, \"set\", worker, tick) VALUES (?1, ?2, ?3, ?4, ?5)"),
          keep(d,
               fmt::format("INSERT OR REPLACE INTO results(file, \"set\", digest, error, warnings, result, {}version) "
                           "VALUES (?2, ?3, ?4, ?5, ?6, ?7{}, ?1)",
                           listed(columns), placeholders(columns.size()))),
          tick(d, "UPDATE clock SET tick = tick + 1 RETURNING tick") {}
    static std::string placeholders(std::size_t count) {
      std::string text;
      for (std::size_t i = 0; i < count; i++) text += fmt::format(", ?{}", 8 + i);
      return text;
    }
    Statement look, mark, keep, tick;
  };
  std::optional<Commands> commands;
  std::map<std::int64_t, bool> works;  // whether workers met in this transaction are alive
};

Store::Store(const std::string& path, std::string version, std::vector<Column> columns, Access access)
    : version_(std::move(version)), columns_(std::move(columns)), prepared_(std::make_unique<Prepared>(path, access)) {
  if (access == Access::write) make();
  check();
  if (access == Access::write) enlist();
}

// Two processes may create the same file at once: the second one finds it complete.
void Store::make() {
  auto& database = prepared_->database;
  Transaction transaction(database);
  if (database.number("SELECT count(*) FROM sqlite_schema") > 0) return;
  database.run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kProgram, kFormat).c_str());
  database.run(fmt::format("CREATE TABLE results(file TEXT NOT NULL, \"set\" TEXT NOT NULL, {} error TEXT, digest TEXT "
                           "NOT NULL, version TEXT NOT NULL, warnings TEXT, result TEXT, "
                           "PRIMARY KEY(version, file, \"set\"))",
                           named(columns_))
                   .c_str());
  database.run(
      "CREATE TABLE work(version TEXT, file TEXT, \"set\" TEXT, worker INTEGER, tick INTEGER NOT NULL, "
      "PRIMARY KEY(version, file, \"set\")) WITHOUT ROWID;"
      "CREATE INDEX work_by_tick ON work(tick) WHERE worker IS NULL;"
      "CREATE TABLE workers(id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT, process INTEGER, born INTEGER, "
      "seen INTEGER);"
      "CREATE TABLE clock(tick INTEGER NOT NULL);"
      "INSERT INTO clock VALUES (0)");
  transaction.commit();
}

void Store::check() const {
  auto& database = prepared_->database;
  const auto& path = database.path();
  if (database.number("SELECT count(*) FROM sqlite_schema") == 0)
    throw UserError(
        fmt::format("the store '{}' is empty: whoever began to make it was stopped; sweep into it again", path));
  if (database.number("PRAGMA application_id") != kProgram)
    throw UserError(
        fmt::format("'{}' is a database of another program, no store of a sweep, and is left as it is", path));
  std::string found;
  Statement columns(database, "SELECT name FROM pragma_table_info('results')");
  while (columns.step()) found += quoted(columns.text(0)) + ", ";
  const auto expected =
      "\"file\", \"set\", " + listed(columns_) + "\"error\", \"digest\", \"version\", \"warnings\", \"result\", ";
  if (database.number("PRAGMA user_version") != kFormat || found != expected)
    throw UserError(
        fmt::format("the store '{}' was made by a version of rehearse that keeps other columns than {}; give --store "
                    "another name, and read the old one with sqlite3 or the program that made it",
                    path, version_));
}

void Store::enlist() {
  auto& p = *prepared_;
  p.self = this_worker();
  Transaction transaction(p.database);
  // Ended workers of this host are removed: a claim without a worker is free.
  std::vector<std::int64_t> gone;
  Statement all(p.database, "SELECT id, host, process, born FROM workers");
  while (all.step())
    if (is_gone({all.text(1), all.integer(2), all.integer(3)})) gone.push_back(all.integer(0));
  all.reset();
  Statement forget(p.database, "DELETE FROM workers WHERE id = ?1");
  for (const auto id : gone) forget.bind(1, id).run();
  Statement add(p.database, "INSERT INTO workers(host, process, born, seen) VALUES (?1, ?2, ?3, ?4) RETURNING id");
  add.bind(1, p.self.host).bind(2, p.self.process).bind(3, p.self.born).bind(4, now());
  if (add.step()) p.worker = add.integer(0);
  add.reset();
  p.opened = p.database.number("SELECT tick FROM clock");
  transaction.commit();
  p.commands.emplace(p.database, columns_);
}

Store::~Store() {
  if (!prepared_->commands) return;
  try {
    Transaction transaction(prepared_->database);
    Statement(prepared_->database, "DELETE FROM work WHERE worker = ?1").bind(1, prepared_->worker).run();
    Statement(prepared_->database, "DELETE FROM workers WHERE id = ?1").bind(1, prepared_->worker).run();
    transaction.commit();
  } catch (const std::exception&) {  // then they are free because this process has ended
  }
}

bool Store::works(std::int64_t worker) {
  auto& p = *prepared_;
  if (worker == p.worker) return true;
  const auto [known, fresh] = p.works.try_emplace(worker, false);
  if (!fresh) return known->second;
  Statement find(p.database, "SELECT host, process, born, seen FROM workers WHERE id = ?1");
  find.bind(1, worker);
  if (find.step()) {
    const Worker other{find.text(0), find.integer(1), find.integer(2)};
    known->second = !is_gone(other) && now() - find.integer(3) <= kLease.count();
  }
  return known->second;
}

Claims Store::claim(std::span<const Point> points, std::span<const std::size_t> candidates, std::size_t most) {
  auto& p = *prepared_;
  const std::scoped_lock lock(p.mutex);
  p.works.clear();
  auto& [look, mark, keep, tick] = *p.commands;
  Claims claims;
  Transaction transaction(p.database);
  for (const auto index : candidates) {
    if (claims.ours.size() == most) break;
    claims.looked++;
    const auto& point = points[index];
    look.bind(1, version_).bind(2, point.file).bind(3, point.set).step();
    const bool finished = look.is_null(0) && !look.is_null(1) && look.integer(1) > p.opened;
    const auto worker = look.is_null(0) ? 0 : look.integer(0);
    auto digest = look.text(2);
    look.reset();
    if (finished && !digest.empty()) {
      claims.done.push_back(index);
    } else if (worker != 0 && works(worker)) {
      claims.taken.push_back(index);
    } else {
      mark.bind(1, version_).bind(2, point.file).bind(3, point.set).bind(4, p.worker).bind(5, std::int64_t{0}).run();
      claims.ours.push_back({index, std::move(digest)});
    }
  }
  transaction.commit();
  return claims;
}

void Store::finish(std::span<const Row> rows, std::span<const Point> right) {
  auto& p = *prepared_;
  const std::scoped_lock lock(p.mutex);
  auto& [look, mark, keep, tick] = *p.commands;
  Transaction transaction(p.database);
  tick.step();
  const auto at = tick.integer(0);
  tick.reset();
  const auto done = [&](const Point& point) {
    mark.bind(1, version_).bind(2, point.file).bind(3, point.set).bind_null(4).bind(5, at).run();
  };
  for (const auto& row : rows) {
    INVARIANT(row.numbers.size() == columns_.size(), "a row has a number for each column");
    keep.bind(1, version_).bind(2, row.point.file).bind(3, row.point.set).bind(4, row.digest);
    const auto text = [&](int index, const std::string& value) {
      value.empty() ? keep.bind_null(index) : keep.bind(index, value);
    };
    text(5, row.error), text(6, row.warnings), text(7, row.result);
    int index = 8;
    for (const auto& number : row.numbers) keep.bind(index++, number);
    keep.run();
    done(row.point);
  }
  for (const auto& point : right) done(point);
  transaction.commit();
}

void Store::beat() {
  auto& p = *prepared_;
  const std::scoped_lock lock(p.mutex);
  Statement(p.database, "UPDATE workers SET seen = ?1 WHERE id = ?2").bind(1, now()).bind(2, p.worker).run();
}

std::size_t Store::finished() const {
  auto& p = *prepared_;
  const std::scoped_lock lock(p.mutex);
  return std::size_t(
      p.database.number(fmt::format("SELECT count(*) FROM work WHERE worker IS NULL AND tick > {}", p.opened)));
}

namespace {

std::string select(const std::vector<Column>& columns, bool with_result) {
  return fmt::format("SELECT file, \"set\", digest, error, warnings, {}{} FROM results ", listed(columns),
                     with_result ? "result" : "''");
}

Row read_row(const Statement& statement, std::size_t columns) {
  Row row{{statement.text(0), statement.text(1)}, statement.text(2), statement.text(3), {}, statement.text(4), ""};
  for (std::size_t i = 0; i < columns; i++) row.numbers.push_back(statement.real(5 + int(i)));
  row.result = statement.text(5 + int(columns));
  return row;
}

}  // namespace

std::optional<Row> Store::row(const Point& point, bool with_result) const {
  const std::scoped_lock lock(prepared_->mutex);
  Statement find(prepared_->database,
                 select(columns_, with_result) + "WHERE version = ?1 AND file = ?2 AND \"set\" = ?3");
  find.bind(1, version_).bind(2, point.file).bind(3, point.set);
  return find.step() ? std::optional(read_row(find, columns_.size())) : std::nullopt;
}

std::optional<Row> Store::least(const std::string& column, const std::string& unless_zero) const {
  const std::scoped_lock lock(prepared_->mutex);
  Statement find(
      prepared_->database,
      select(columns_, false) + fmt::format("WHERE version = ?1 AND {0} IS NOT NULL AND {1} IS NOT 0 ORDER BY "
                                            "{0}, file, \"set\" LIMIT 1",
                                            quoted(column), quoted(unless_zero)));
  find.bind(1, version_);
  return find.step() ? std::optional(read_row(find, columns_.size())) : std::nullopt;
}

std::vector<Point> Store::points() const {
  const std::scoped_lock lock(prepared_->mutex);
  std::vector<Point> all;
  Statement find(prepared_->database, "SELECT file, \"set\" FROM results WHERE version = ?1 ORDER BY file, \"set\"");
  find.bind(1, version_);
  while (find.step()) all.push_back({find.text(0), find.text(1)});
  return all;
}

std::vector<std::string> Store::versions() const {
  const std::scoped_lock lock(prepared_->mutex);
  std::vector<std::string> all;
  Statement find(prepared_->database, "SELECT DISTINCT version FROM results ORDER BY version");
  while (find.step()) all.push_back(find.text(0));
  return all;
}

bool is_database(const std::string& path) {
  static constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  std::ifstream in(path, std::ios::binary);
  std::string head(kMagic.size(), '\0');
  return in.read(head.data(), std::streamsize(head.size())) && head == kMagic;
}

}  // namespace rehearsal::store
