// Shared by all commands: options, help, and writing results so that no file is ever left half written.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/command.hpp"
#include "cli/session.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {

enum class Format : std::uint8_t { text, json, csv };
enum class Color : std::uint8_t { automatic, always, never };
enum class Watching : std::uint8_t { automatic, never, plain, json };  // how progress is shown

// --format --output --set --quiet --color: accepted by every command; --progress by those that may take long.
struct CommonOptions {
  explicit CommonOptions(Session& asked_by) : session(asked_by) {}

  Session& session;
  Format format = Format::text;
  bool format_given = false;
  bool sarif = false;            // --format sarif; `format` is json then
  std::string output;            // empty = standard output
  std::vector<std::string> set;  // KEY=VALUE, in the order given; only commands that read a scenario use them
  bool quiet = false;
  Color color = Color::automatic;
  Watching progress = Watching::automatic;
  std::string command;  // its name
};

// The words around a command's options in `--help`.
struct CommandText {
  std::string name;                       // "schedule"
  std::string operands;                   // "NAME [OPTIONS]"
  std::string summary;                    // what it does; lines are wrapped by the author
  std::string more;                       // after the options: names, conventions; may be empty
  std::string example;                    // one or more command lines, indented by two spaces
  bool takes_set = false;                 // reads a scenario; otherwise --set is refused
  std::vector<std::string> choices = {};  // all possible operands, if there are few
  bool takes_sarif = false;               // --format sarif too
  bool takes_long = false;                // may take longer than a second: --progress
};

// Destination of an option's value; monostate: only CommandLine::given has the text. A switch sets a bool.
using Destination = std::variant<std::monostate, bool*, int*, unsigned*, std::string*, std::vector<std::string>*>;

struct Option {
  std::string name;        // without dashes
  std::string value_name;  // "FILE"; empty = a switch
  std::string help;        // lines are broken by the author
  Destination to = {};
  bool several = false;                   // takes all words up to the next option
  std::vector<std::string> choices = {};  // its values, which completion offers
  bool others = false;                    // values that are none of the choices too
};
using OptionList = std::vector<Option>;

struct CommandLine {
  std::map<std::string, std::vector<std::string>, std::less<>> given;  // options by name, with their values
  std::vector<std::string> operands;                                   // arguments that are not options

  bool has(std::string_view option) const { return given.contains(option); }
};

// A command's description of itself, thrown by parse() when its only argument is kDescribe, which no command line can
// contain. `rehearse completion` uses it, so that options are defined only once.
struct Described {
  CommandText text;
  OptionList options;  // the command's own and the common ones
};
extern const std::string kDescribe;

// Parses the command's own options (the common ones are added here). Nothing = help was requested and printed.
// Throws UserError that suggests the nearest spelling of an unknown option. An --output that cannot be written is
// refused here, before any work is done.
std::optional<CommandLine> parse(const CommandText& text, const OptionList& own, const Arguments& arguments,
                                 CommonOptions& common);

// The one operand of a command; throws UserError when there is none or more than one. `what` = "the name of a
// schedule".
const std::string& one_operand(const CommandText& text, const CommandLine& line, std::string_view what);

// Standard output was closed by its reader.
class ClosedPipe : public std::exception {
 public:
  const char* what() const noexcept override { return "standard output was closed"; }
};

// A result being written. A regular file appears under its name only on commit(): until then its bytes are in an
// unnamed (or temporary) file of the same folder, which disappears with this object. Standard output ("" or "-"), pipes
// and devices are written directly. A file whose name ends in .gz is compressed. A file "memory:NAME" is the session's.
// Throws UserError if the file cannot be created, MachineError if the disk is full, ClosedPipe.
class AtomicFile {
 public:
  // `option`: the option that named the file, for messages.
  AtomicFile(Session& session, std::string path, std::string option = "--output");
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws as the constructor does, and leaves nothing behind: to refuse a bad name before the work. Pipes and
  // devices are not opened, since that may block.
  static void check(Session& session, const std::string& path, const std::string& option);

  void write(std::string_view text);
  void flush();   // passes on what was written; matters for standard output only
  void commit();  // gives the file its name; must be the last call

 private:
  void open_beside();
  void push(std::string_view text);
  [[noreturn]] void fail(int error) const;

  Session& session_;
  std::string path_;    // as the user gave it, for messages
  std::string target_;  // with symbolic links followed
  std::string option_;
  std::string temporary_;  // empty if there is none
  std::string buffer_;
  int descriptor_ = -1;
  bool direct_ = false;            // written in place: a pipe or a device
  bool standard_ = false;          // the session's standard output
  std::string* memory_ = nullptr;  // a file of the session
  void* gzip_ = nullptr;
};

void write_file(const CommonOptions& common, const std::string& path, std::string_view text);
// For data that is never held in memory as a whole: `write` receives piece after piece.
using Pieces = std::function<void(std::string_view)>;
void write_streamed(const CommonOptions& common, const std::string& path,
                    const std::function<void(const Pieces&)>& write);
void write_stdout(const CommonOptions& common, std::string_view text);

// Writes to an open file or stream, which errors call `what`. Throws as AtomicFile does.
void write_descriptor(int descriptor, std::string_view text, const std::string& what);

// "rehearse: warning: ..." on standard error, one line each unless a terminal is narrower; nothing with --quiet.
void warn(const CommonOptions& common, const std::vector<std::string>& warnings);

// Writes the report to --output.
void emit_report(const CommonOptions& common, std::string_view text);

// A result in each format that --format supports.
struct Forms {
  std::function<std::string()> text, json, csv;
};
// Creates the requested one and writes it.
void emit_report(const CommonOptions& common, const Forms& forms);

// For text reports: whether to use colour, and the number of columns (80 if the output is not a terminal
// and COLUMNS is not set).
page::TextStyle text_style(const CommonOptions& common);

}  // namespace rehearsal::cli
