// SQLite as the store uses it: connection, statements, transactions, and translated errors. Private to this
// folder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace rehearsal::store {

enum class Access : std::uint8_t { read, write };

// Who else may write the file now. By locks: any process that the locks of the file system reach. One: this process, or
// one other; no lock is used. What it writes is appended to the journal, of which a reader sees what is committed.
enum class Writers : std::uint8_t { by_locks, one };

// By locks, unless the file system is shared by machines or has no locks.
Writers writers_of(const std::string& path);

class Database {
 public:
  // Waits for other writers. Throws UserError for a file that cannot be opened, MachineError for a full disk. No name:
  // a temporary one.
  Database(std::string path, Access access, Writers writers);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const char* sql);
  std::int64_t number(const std::string& sql);  // first column of the first row; 0 if there is none
  [[noreturn]] void fail(int code) const;       // an SQLite error code
  sqlite3* get() const { return connection_; }
  const std::string& path() const { return path_; }

 private:
  void open(Writers writers);
  void connect(const std::string& name, int flags, const char* system = nullptr);
  void write_ahead();

  std::string path_;
  Access access_;
  sqlite3* connection_ = nullptr;
};

class Statement {
 public:
  Statement(const Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Values are numbered from 1, columns from 0. Text must live until the next reset().
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::int64_t number);
  Statement& bind(int index, const std::optional<double>& number);
  Statement& bind_null(int index);
  bool step();  // whether there is a row
  void reset();
  void run();  // to the end, then reset

  std::string text(int column) const;
  std::int64_t integer(int column) const;
  std::optional<double> real(int column) const;
  bool is_null(int column) const;

 private:
  const Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

// All or nothing; takes the write lock at the beginning, so that two transactions never deadlock.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();  // rolls back unless committed
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace rehearsal::store
