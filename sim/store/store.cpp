#include "store/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "store/database.hpp"

namespace rehearsal::store {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kProgram = 0x52485253;  // "RHRS": PRAGMA application_id
constexpr std::int64_t kFormat = 2;            // PRAGMA user_version; 1 had claims as well, in tables that nobody reads
constexpr std::size_t kOpen = 100;             // shards kept open for their results
constexpr int kTries = 5;                      // to read a shard while its owner closes it

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

// Two processes may create the same file at once: the second one finds it complete.
void make(Database& database, const std::vector<Column>& columns) {
  Transaction transaction(database);
  if (database.number("SELECT count(*) FROM sqlite_schema") > 0) return;
  database.run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={};"
                           "CREATE TABLE results(file TEXT NOT NULL, \"set\" TEXT NOT NULL, {} error TEXT, digest TEXT "
                           "NOT NULL, version TEXT NOT NULL, warnings TEXT, result TEXT, "
                           "PRIMARY KEY(version, file, \"set\"))",
                           kProgram, kFormat, named(columns))
                   .c_str());
  transaction.commit();
}

bool is_empty(Database& database) { return database.number("SELECT count(*) FROM sqlite_schema") == 0; }

void check(Database& database, const std::string& version, const std::vector<Column>& columns) {
  const auto& path = database.path();
  if (is_empty(database))
    throw UserError(
        fmt::format("the store '{}' is empty: whoever began to make it was stopped; sweep into it again", path));
  if (database.number("PRAGMA application_id") != kProgram)
    throw UserError(
        fmt::format("'{}' is a database of another program, no store of a sweep, and is left as it is", path));
  std::string found;
  Statement names(database, "SELECT name FROM pragma_table_info('results')");
  while (names.step()) found += quoted(names.text(0)) + ", ";
  const auto expected =
      "\"file\", \"set\", " + listed(columns) + "\"error\", \"digest\", \"version\", \"warnings\", \"result\", ";
  const auto format = database.number("PRAGMA user_version");
  if (format < 1 || format > kFormat || found != expected)
    throw UserError(
        fmt::format("the store '{}' was made by a version of rehearse that keeps other columns than {}; give --store "
                    "another name, and read the old one with sqlite3 or the program that made it",
                    path, version));
}

std::string select(const std::vector<Column>& columns, bool with_result) {
  return fmt::format("SELECT file, \"set\", digest, error, warnings, {}{}, version FROM results ", listed(columns),
                     with_result ? "result" : "''");
}

Row read_row(const Statement& statement, std::size_t columns) {
  Row row{{statement.text(0), statement.text(1)}, statement.text(2), statement.text(3), {}, statement.text(4), ""};
  for (std::size_t i = 0; i < columns; i++) row.numbers.push_back(statement.real(5 + int(i)));
  row.result = statement.text(5 + int(columns));
  return row;
}

// Writes rows of one version into a file.
class Keep {
 public:
  Keep(const Database& database, const std::vector<Column>& columns)
      : columns_(columns.size()),
        keep_(database,
              fmt::format("INSERT OR REPLACE INTO results(file, \"set\", digest, error, warnings, {}result, version) "
                          "VALUES (?, ?, ?, ?, ?, {}?, ?)",
                          listed(columns), placeholders(columns.size()))) {}

  void operator()(const Row& row, const std::string& version) {
    INVARIANT(row.numbers.size() == columns_, "a row has a number for each column");
    int index = 3;
    const auto text = [&](const std::string& value) {
      value.empty() ? keep_.bind_null(++index) : keep_.bind(++index, value);
    };
    keep_.bind(1, row.point.file).bind(2, row.point.set).bind(3, row.digest);
    text(row.error), text(row.warnings);
    for (const auto& number : row.numbers) keep_.bind(++index, number);
    text(row.result), text(version);
    keep_.run();
  }

 private:
  static std::string placeholders(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; i++) text += "?, ";
    return text;
  }
  std::size_t columns_;
  Statement keep_;
};

// Size and time of a shard and its journal, by which a change is seen. Opened: a network file system then asks its
// server.
using Stamp = std::array<std::int64_t, 4>;
Stamp stamp_of(const std::string& path) {
  Stamp stamp{};
  for (std::size_t i = 0; i < 2; i++) {
    const int opened = ::open((path + (i == 0 ? "" : "-wal")).c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found {};
    if (opened < 0) continue;
    if (fstat(opened, &found) == 0)
      stamp[2 * i] = found.st_size, stamp[2 * i + 1] = found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec;
    ::close(opened);
  }
  return stamp;
}

// HOST-PROCESS-START.EDITION.sqlite: a process that begins a shard has read all of earlier editions, so that its rows
// count where theirs differ.
struct Shard {
  std::int64_t edition;
  std::string path;
  auto operator<=>(const Shard&) const = default;
};

std::vector<Shard> shards_of(const std::string& folder) {
  std::vector<Shard> all;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() != ".sqlite") continue;
    const auto edition = entry.path().stem().extension().string();
    all.push_back({edition.empty() ? 0 : std::atoll(edition.c_str() + 1), entry.path().string()});
  }
  if (failed) throw UserError(fmt::format("cannot read the store '{}': {}", folder, failed.message()));
  std::sort(all.begin(), all.end());
  return all;
}

Writers writers_to(const std::string& path, Claims* self) {
  if (is_folder(path)) return Writers::one;
  const auto writers = writers_of(path);
  if (writers == Writers::one && self)
    self->take_all(
        fmt::format("the locks of this file system do not keep the writers of a file '{}' apart; give --store "
                    "a folder, where each process writes its own: --store {}/",
                    path, fs::path(path).replace_extension().string()));
  return writers;
}

void keep(Database& database, const std::vector<Column>& columns, std::span<const Row> rows,
          const std::string& version) {
  Transaction transaction(database);
  Keep keep(database, columns);
  for (const auto& row : rows) keep(row, version);
  transaction.commit();
}

}  // namespace

// A folder is seen through a temporary database: the rows of all shards, each with the name of its shard for a result.
struct Store::Files {
  std::string path, self;  // self: the process that writes, if it does
  bool folder = is_folder(path);
  Database view;
  std::unique_ptr<Database> shard;          // once this process has rows
  std::map<std::string, Stamp> read;        // shards
  std::map<std::string, Database> results;  // shards
  std::int64_t edition = 0;                 // of the latest shard
  std::optional<Statement> digest;
  std::mutex mutex;

  Files(std::string name, std::string process, Writers writers)
      : path(std::move(name)),
        self(std::move(process)),
        view(folder ? "" : path, folder || !self.empty() ? Access::write : Access::read, writers) {}
};

Store::Store(const std::string& path, std::string version, std::vector<Column> columns, Claims* self)
    : version_(std::move(version)),
      columns_(std::move(columns)),
      files_(std::make_unique<Files>(path, self ? self->name() : "", writers_to(path, self))) {
  auto& view = files_->view;
  if (files_->folder || self) make(view, columns_);
  check(view, version_, columns_);
  files_->digest.emplace(view, "SELECT digest FROM results WHERE version = ? AND file = ? AND \"set\" = ?");
  refresh();
}

Store::~Store() = default;

void Store::write(std::span<const Row> rows) {
  auto& f = *files_;
  const std::scoped_lock lock(f.mutex);
  if (!f.folder) return keep(f.view, columns_, rows, version_);
  if (!f.shard) {
    const auto name = fs::path(f.path) / fmt::format("{}.{}.sqlite", f.self, f.edition + 1);
    f.shard = std::make_unique<Database>(name.string(), Access::write, Writers::one);
    make(*f.shard, columns_);
  }
  keep(*f.shard, columns_, rows, version_);
  f.results.clear();  // they see what was committed when they were opened
  std::vector<Row> seen(rows.begin(), rows.end());
  for (auto& row : seen) row.result = f.shard->path();
  keep(f.view, columns_, seen, version_);
}

void Store::refresh() {
  auto& f = *files_;
  const std::scoped_lock lock(f.mutex);
  if (!f.folder) return;
  f.results.clear();
  bool changed = false;
  for (const auto& [edition, path] : shards_of(f.path)) {
    const auto stamp = stamp_of(path);
    changed = changed || f.read[path] != stamp;  // then those of later editions are read again: their rows count
    if (!changed) continue;
    read(path);
    f.read[path] = stamp;
    f.edition = edition;
  }
}

void Store::read(const std::string& path) {
  auto& view = files_->view;
  for (int tries = 1;; tries++) {
    try {
      Database shard(path, Access::read, Writers::one);
      if (is_empty(shard)) return;
      check(shard, version_, columns_);
      Transaction transaction(view);
      Keep keep(view, columns_);
      Statement rows(shard, select(columns_, false));
      while (rows.step()) {
        auto row = read_row(rows, columns_.size());
        row.result = path;
        keep(row, rows.text(6 + int(columns_.size())));
      }
      return transaction.commit();
    } catch (const std::exception&) {
      if (tries == kTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

std::string Store::digest(const Point& point) const {
  const std::scoped_lock lock(files_->mutex);
  auto& find = *files_->digest;
  find.bind(1, version_).bind(2, point.file).bind(3, point.set);
  auto digest = find.step() ? find.text(0) : "";
  find.reset();
  return digest;
}

std::optional<Row> Store::row(const Point& point, bool with_result) const {
  auto& f = *files_;
  const std::scoped_lock lock(f.mutex);
  const auto find = [&](const Database& database, bool result) {
    Statement rows(database, select(columns_, result) + "WHERE version = ?1 AND file = ?2 AND \"set\" = ?3");
    rows.bind(1, version_).bind(2, point.file).bind(3, point.set);
    return rows.step() ? std::optional(read_row(rows, columns_.size())) : std::nullopt;
  };
  auto row = find(f.view, with_result);
  if (!row || !with_result || !f.folder) return row;
  if (f.results.size() >= kOpen) f.results.clear();
  return find(f.results.try_emplace(row->result, row->result, Access::read, Writers::one).first->second, true);
}

std::optional<Row> Store::least(const std::string& column, const std::string& unless_zero) const {
  const std::scoped_lock lock(files_->mutex);
  Statement find(files_->view, select(columns_, false) +
                                   fmt::format("WHERE version = ?1 AND {0} IS NOT NULL AND {1} IS NOT 0 ORDER BY "
                                               "{0}, file, \"set\" LIMIT 1",
                                               quoted(column), quoted(unless_zero)));
  find.bind(1, version_);
  return find.step() ? std::optional(read_row(find, columns_.size())) : std::nullopt;
}

std::vector<Point> Store::points() const {
  const std::scoped_lock lock(files_->mutex);
  std::vector<Point> all;
  Statement find(files_->view, "SELECT file, \"set\" FROM results WHERE version = ?1 ORDER BY file, \"set\"");
  find.bind(1, version_);
  while (find.step()) all.push_back({find.text(0), find.text(1)});
  return all;
}

std::vector<std::string> Store::versions() const {
  const std::scoped_lock lock(files_->mutex);
  std::vector<std::string> all;
  Statement find(files_->view, "SELECT DISTINCT version FROM results ORDER BY version");
  while (find.step()) all.push_back(find.text(0));
  return all;
}

bool is_store(const std::string& path) {
  static constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  if (is_folder(path)) return true;
  std::ifstream in(path, std::ios::binary);
  std::string head(kMagic.size(), '\0');
  return in.read(head.data(), std::streamsize(head.size())) && head == kMagic;
}

}  // namespace rehearsal::store
