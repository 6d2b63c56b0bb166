#include "traces/nsys.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <regex>

#include "traces/collector.hpp"
#include "traces/refuse.hpp"

namespace rehearsal::traces {
namespace {

class Database {
 public:
  explicit Database(const std::string& file) : file_(file) {
    std::string name = "file:";
    for (const char c : file.starts_with('/') ? file : "./" + file)
      name += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", c) : std::string(1, c);
    name += "?immutable=1";  // as it is: no journal beside it is looked at or made
    if (sqlite3_open_v2(name.c_str(), &connection_, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr) != SQLITE_OK) {
      const std::string why = sqlite3_errmsg(connection_);
      sqlite3_close(connection_);
      refuse(file, fmt::format("cannot be read: {}", why));
    }
  }
  ~Database() { sqlite3_close(connection_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Calls `row` with the statement at each row.
  template <class F>
  void each(const std::string& sql, const F& row) const {
    sqlite3_stmt* statement = nullptr;
    int code = sqlite3_prepare_v2(connection_, sql.c_str(), -1, &statement, nullptr);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) row(statement), code = SQLITE_OK;
    sqlite3_finalize(statement);
    if (code != SQLITE_DONE) refuse(file_, fmt::format("cannot be read: {}", sqlite3_errmsg(connection_)));
  }

  std::vector<std::string> columns(std::string_view table) const {
    std::vector<std::string> all;
    each(fmt::format("PRAGMA table_info({})", table),
         [&](sqlite3_stmt* row) { all.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(row, 1))); });
    return all;
  }

 private:
  const std::string& file_;
  sqlite3* connection_ = nullptr;
};

std::string text_at(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text ? std::string(text, std::size_t(sqlite3_column_bytes(row, column))) : "";
}

bool holds(const std::vector<std::string>& columns, std::string_view name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

class Reader {
 public:
  Reader(const std::string& file, const KernelClasses& classes) : file_(file), database_(file), collector_(classes) {}

  std::vector<Trace> run() {
    const auto kernels = database_.columns("CUPTI_ACTIVITY_KIND_KERNEL");
    if (kernels.empty())
      refuse(file_,
             "has no table CUPTI_ACTIVITY_KIND_KERNEL: no kernels were recorded (nsys profile --trace=cuda,nvtx) or "
             "it is no export of Nsight Systems (nsys export --type sqlite)");
    for (const auto* column : {"start", "end", "deviceId", "streamId"})
      if (!holds(kernels, column)) refuse(file_, fmt::format("CUPTI_ACTIVITY_KIND_KERNEL has no column '{}'", column));
    const auto* name = holds(kernels, "demangledName") ? "demangledName" : "shortName";
    if (!holds(kernels, name)) refuse(file_, "CUPTI_ACTIVITY_KIND_KERNEL has no column of names");
    activities("CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("(SELECT value FROM StringIds WHERE id = a.{})", name), {});
    for (const auto* table : {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"})
      if (!database_.columns(table).empty()) activities(table, fmt::format("'{}'", table + 20), Kind::copy);
    launches();
    ranges();
    devices();
    auto traces = std::move(collector_).finish(file_, header_);
    if (traces.empty()) refuse(file_, "has no kernel");
    return traces;
  }

 private:
  void activities(const std::string& table, const std::string& name, std::optional<Kind> kind) {
    const auto columns = database_.columns(table);
    const auto or_null = [&](const char* column) {
      return holds(columns, column) ? fmt::format("a.{}", column) : std::string("NULL");
    };
    Event event;
    database_.each(fmt::format("SELECT a.start, a.\"end\", a.deviceId, a.streamId, {}, {}, {} FROM {} a", name,
                               or_null("correlationId"), or_null("globalPid"), table),
                   [&](sqlite3_stmt* row) {
                     times(row, event);
                     event.device = sqlite3_column_int64(row, 2), event.stream = sqlite3_column_int64(row, 3);
                     event.name = text_at(row, 4).substr(0, Event::kLongestText);
                     event.correlation = correlation(row, 5), event.process = process(sqlite3_column_int64(row, 6));
                     collector_.kernel(event, kind);
                   });
  }

  static void times(sqlite3_stmt* row, Event& event) {
    event.start = sqlite3_column_int64(row, 0);
    event.duration = sqlite3_column_int64(row, 1) - *event.start;
  }
  static std::uint64_t correlation(sqlite3_stmt* row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? kNoId : std::uint64_t(sqlite3_column_int64(row, column));
  }
  // globalPid and globalTid: machine and process above 24 bits, and below them the thread.
  std::uint32_t process(std::int64_t global) {
    return processes_.try_emplace(global >> 24, std::uint32_t(processes_.size())).first->second;
  }

  // Calls of the CUDA runtime, of which some launch kernels.
  void launches() {
    const auto columns = database_.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
    for (const auto* column : {"start", "end", "correlationId", "globalTid", "nameId"})
      if (!holds(columns, column)) return;
    Event event;
    database_.each(
        "SELECT r.start, r.\"end\", r.correlationId, r.globalTid, (SELECT value FROM StringIds WHERE id = r.nameId) "
        "FROM CUPTI_ACTIVITY_KIND_RUNTIME r",
        [&](sqlite3_stmt* row) {
          times(row, event);
          event.correlation = correlation(row, 2), event.thread = sqlite3_column_int64(row, 3);
          event.process = process(event.thread), event.name = text_at(row, 4).substr(0, Event::kLongestText);
          collector_.launch(event);
        });
  }

  // NVTX ranges of the host: steps, whose text counts ("ProfilerStep#3", "step 3", "iteration: 3"), and passes.
  void ranges() {
    const auto columns = database_.columns("NVTX_EVENTS");
    if (!holds(columns, "start") || !holds(columns, "end") || !holds(columns, "text")) return;
    const auto* text =
        holds(columns, "textId") ? "coalesce(n.text, (SELECT value FROM StringIds WHERE id = n.textId))" : "n.text";
    const std::regex counts("^(ProfilerStep|(train(ing)?[ _-]?)?(step|iteration|iter))[ #:=_-]*([0-9]{1,9})$",
                            std::regex::ECMAScript | std::regex::icase);
    Event event;
    database_.each(fmt::format("SELECT n.start, n.\"end\", {}, {} FROM NVTX_EVENTS n WHERE n.\"end\" IS NOT NULL", text,
                               holds(columns, "globalTid") ? "n.globalTid" : "0"),
                   [&](sqlite3_stmt* row) {
                     times(row, event);
                     event.thread = sqlite3_column_int64(row, 3), event.process = process(event.thread);
                     event.name = text_at(row, 2).substr(0, Event::kLongestText);
                     std::smatch parts;
                     if (event.name.size() > 64 || !std::regex_match(event.name, parts, counts))
                       collector_.range(event);
                     else
                       collector_.step(std::stoll(parts[5]), *event.start, *event.start + *event.duration, false,
                                       event);
                   });
  }

  void devices() {
    const auto columns = database_.columns("TARGET_INFO_GPU");
    if (!holds(columns, "id") || !holds(columns, "name")) return;
    const auto or_zero = [&](const char* column) { return holds(columns, column) ? column : "0"; };
    database_.each(fmt::format("SELECT id, name, {}, {}, {}, {} FROM TARGET_INFO_GPU", or_zero("totalMemory"),
                               or_zero("smCount"), or_zero("computeMajor"), or_zero("computeMinor")),
                   [&](sqlite3_stmt* row) {
                     header_.devices.push_back({sqlite3_column_int64(row, 0), readable(text_at(row, 1)),
                                                sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3),
                                                sqlite3_column_int64(row, 4), sqlite3_column_int64(row, 5)});
                   });
  }

  const std::string& file_;
  Database database_;
  Collector collector_;
  std::map<std::int64_t, std::uint32_t> processes_;
  Header header_;
};

}  // namespace

std::vector<Trace> read_nsys(const std::string& file, const KernelClasses& classes) {
  return Reader(file, classes).run();
}

}  // namespace rehearsal::traces
