#include "store/database.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::store {
namespace {

constexpr int kPatience = 60'000;  // ms to wait for another transaction, which takes a few ms

// File systems shared between machines, from linux/magic.h and, if it has no name for them, from their own sources
// (Lustre lustre_user.h, GPFS gpfs.h, BeeGFS's client).
bool shared_by_machines(const std::string& folder) {
  struct statfs found {};
  if (statfs(folder.c_str(), &found) != 0) return false;
  switch (static_cast<std::uint32_t>(found.f_type)) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case CEPH_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case V9FS_MAGIC:
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
      return true;
    default:
      return false;
  }
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

bool has_locks(const std::string& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return true;  // then something else is wrong
  struct flock lock {};
  lock.l_type = F_RDLCK, lock.l_whence = SEEK_SET;
  const bool none = fcntl(opened, F_GETLK, &lock) != 0 && (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP);
  ::close(opened);
  return !none;
}

// Escapes a path for a URI.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", c) : std::string(1, c);
  return text;
}

// The reason that a file cannot be opened: SQLite tries several ways and reports only the last failure.
std::string why_closed(const std::string& path, bool writing) {
  std::error_code unknown;
  const auto folder = folder_of(path);
  if (access(folder.c_str(), F_OK) != 0) return std::strerror(errno);
  if (std::filesystem::is_directory(path, unknown)) return std::strerror(EISDIR);
  const bool there = access(path.c_str(), F_OK) == 0;
  if (!there && !writing) return std::strerror(ENOENT);
  if (there && access(path.c_str(), writing ? R_OK | W_OK : R_OK) != 0) return std::strerror(errno);
  return access(folder.c_str(), W_OK) != 0 ? std::strerror(errno) : "";
}

}  // namespace

Writers writers_of(const std::string& path) {
  const auto folder = folder_of(path);
  return shared_by_machines(folder) || !has_locks(folder) ? Writers::one : Writers::by_locks;
}

Database::Database(std::string path, Access access, Writers writers) : path_(std::move(path)), access_(access) {
  try {
    open(writers);
  } catch (...) {
    sqlite3_close(connection_);
    throw;
  }
}

void Database::open(Writers writers) {
  constexpr const char* kNoLocks = "unix-none";  // SQLite's own name
  // the prefix "./" keeps a name that begins with "file:" from being read as a URI
  const std::string name = path_.empty() || path_.starts_with('/') ? path_ : "./" + path_;
  if (access_ == Access::write) {
    connect(name, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, writers == Writers::one ? kNoLocks : nullptr);
    if (writers == Writers::by_locks) return write_ahead();
    // The file itself stays as it is until the end, and a commit is on the disk before others are told of it.
    return run(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=FULL");
  }
  std::error_code unknown;
  const auto journal = [&] { return std::filesystem::exists(path_ + "-wal", unknown); };
  if (writers == Writers::by_locks) {
    connect(name, SQLITE_OPEN_READONLY);
    const int code = sqlite3_exec(connection_, "PRAGMA schema_version", nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return;
    // Even a reader keeps an index beside the file. If that is impossible, no other process can write either, and a
    // file without journal needs no index.
    if ((code & 0xff) != SQLITE_CANTOPEN || !std::filesystem::exists(path_, unknown) || journal()) fail(code);
    sqlite3_close(std::exchange(connection_, nullptr));
  }
  connect("file:" + escaped(name) + (journal() ? "?mode=ro" : "?immutable=1"), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
          kNoLocks);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  run("PRAGMA locking_mode=EXCLUSIVE");
}

void Database::connect(const std::string& name, int flags, const char* system) {
  if (const int code = sqlite3_open_v2(name.c_str(), &connection_, flags, system); code != SQLITE_OK) fail(code);
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_busy_timeout(connection_, kPatience);
}

// Readers and a writer do not wait for each other, and a commit is a single append.
void Database::write_ahead() {
  // SQLite itself does not wait for the lock that changing the journal requires.
  for (int waited = 0;; waited += 20) {
    const int code = sqlite3_exec(connection_, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) break;
    if ((code & 0xff) != SQLITE_BUSY || waited >= kPatience) fail(code);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Committed data survives the end of any process; a power failure may lose the last commits but never the file.
  run("PRAGMA synchronous=NORMAL");
}

Database::~Database() { sqlite3_close(connection_); }

void Database::run(const char* sql) {
  if (const int code = sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr); code != SQLITE_OK) fail(code);
}

std::int64_t Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

void Database::fail(int code) const {
  const int error = connection_ ? sqlite3_system_errno(connection_) : 0;
  const std::string why = connection_ ? sqlite3_errmsg(connection_) : sqlite3_errstr(code);
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      throw UserError(fmt::format("'{}' is no SQLite file, and is left as it is; give --store another name", path_));
    case SQLITE_CORRUPT:
      throw UserError(
          fmt::format("the store '{}' is damaged ({}); \"sqlite3 '{}' .recover | sqlite3 saved.sqlite\" saves what can "
                      "be read, and "
                      "a sweep into that file computes the rest",
                      path_, why, path_));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      if (!full) {
        const auto closed = why_closed(path_, access_ == Access::write);
        const auto& said = closed.empty() ? why : closed;
        throw UserError(
            access_ == Access::read
                ? fmt::format("cannot read the store '{}': {}", path_, said)
                : fmt::format("cannot write the store '{}': {}; give --store a file in a folder that exists "
                              "and may be written, since the journal stands beside it",
                              path_, said));
      }
      [[fallthrough]];
    case SQLITE_FULL:
    case SQLITE_IOERR:
      throw MachineError(fmt::format(
          "cannot write the store '{}': {}; what was there is still there: make room and run the same command again",
          path_,
          (code & 0xff) == SQLITE_FULL && !full ? "the disk is full"
          : error                               ? std::strerror(error)
                                                : why));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw MachineError(
          fmt::format("another program has locked the store '{}' for {} s; end it and run the same command again",
                      path_, kPatience / 1000));
    case SQLITE_NOMEM:
      throw std::bad_alloc();
    default:
      throw InternalError(fmt::format("SQLite on '{}': {} ({})", path_, why, code));
  }
}

Statement::Statement(const Database& database, std::string_view sql) : database_(database) {
  const int code = sqlite3_prepare_v2(database.get(), sql.data(), int(sql.size()), &statement_, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int index, std::string_view text) {
  const int code = sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) database_.fail(code);
  return *this;
}

Statement& Statement::bind(int index, std::int64_t number) {
  if (const int code = sqlite3_bind_int64(statement_, index, number); code != SQLITE_OK) database_.fail(code);
  return *this;
}

Statement& Statement::bind(int index, const std::optional<double>& number) {
  const int code = number ? sqlite3_bind_double(statement_, index, *number) : sqlite3_bind_null(statement_, index);
  if (code != SQLITE_OK) database_.fail(code);
  return *this;
}

Statement& Statement::bind_null(int index) { return bind(index, std::optional<double>()); }

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  reset();  // for the next thread, which would otherwise be told of a misuse
  database_.fail(code);
}

void Statement::reset() { sqlite3_reset(statement_); }

void Statement::run() {
  while (step()) {
  }
  reset();
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text ? std::string(text, std::size_t(sqlite3_column_bytes(statement_, column))) : "";
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<double> Statement::real(int column) const {
  if (is_null(column)) return std::nullopt;
  return sqlite3_column_double(statement_, column);
}

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

Transaction::Transaction(Database& database) : database_(database) { database_.run("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  // fails if SQLite has already rolled back by itself
  if (open_) sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace rehearsal::store
