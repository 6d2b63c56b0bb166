// What all commands share: options, help, and writing results so that no file is ever left half written.
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
#include "page/layout.hpp"

namespace rehearsal::cli {

enum class Format : std::uint8_t { text, json, csv };
enum class Color : std::uint8_t { automatic, always, never };

// --format --output --set --quiet --color: taken by every command.
struct CommonOptions {
  Format format = Format::text;
  bool format_given = false;
  std::string output;            // empty = standard output
  std::vector<std::string> set;  // KEY=VALUE, in the order given; only commands that read a scenario use them
  bool quiet = false;
  Color color = Color::automatic;
};

// The words around a command's options in `--help`.
struct CommandText {
  std::string name;                       // "schedule"
  std::string operands;                   // "NAME [OPTIONS]"
  std::string summary;                    // what it does; lines are wrapped by the author
  std::string more;                       // after the options: names, conventions; may be empty
  std::string example;                    // one or more command lines, indented by two spaces
  bool takes_set = false;                 // reads a scenario; otherwise --set is refused
  std::vector<std::string> choices = {};  // all operands that there are, where they are few
};

// Where the value of an option goes; nowhere: CommandLine::given has its text. A switch sets a bool.
using Destination = std::variant<std::monostate, bool*, int*, unsigned*, std::string*, std::vector<std::string>*>;

struct Option {
  std::string name;        // without dashes
  std::string value_name;  // "FILE"; empty = a switch
  std::string help;        // lines are broken by the author
  Destination to = {};
  bool several = false;                   // takes all words up to the next option
  std::vector<std::string> choices = {};  // values to offer
};
using OptionList = std::vector<Option>;

struct CommandLine {
  std::map<std::string, std::vector<std::string>, std::less<>> given;  // options by name, with their words
  std::vector<std::string> operands;                                   // what is not an option

  bool has(std::string_view option) const { return given.contains(option); }
};

// What a command says of itself when its only argument is kDescribe, which no command line can hold: parse() throws it.
// `rehearse completion` asks so, and nobody writes the options down a second time.
struct Described {
  CommandText text;
  OptionList options;  // its own and the common ones
};
extern const std::string kDescribe;

// Parses the command's own options (not the common ones: those are added here). Nothing = help was asked and printed.
// Throws UserError that names the nearest spelling of an unknown option. An --output that cannot be written is refused
// here, before any work is done.
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

// A result under way. A regular file comes into being under its name only by commit(): until then the bytes live in an
// unnamed (or temporary) file of the same folder, which vanishes with this object. Standard output ("" or "-"), pipes
// and devices are written as they are. A name that ends in .gz is compressed.
// Throws UserError when the file cannot be made, MachineError when the disk is full, ClosedPipe.
class AtomicFile {
 public:
  // `option`: who named it, for messages.
  explicit AtomicFile(std::string path, std::string option = "--output");
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws as the constructor does, and leaves nothing behind: for refusing a bad name before the work. Pipes and
  // devices are not touched, since opening one may block.
  static void check(const std::string& path, const std::string& option);

  void write(std::string_view text);
  void flush();   // hands what was written to the reader; matters for standard output only
  void commit();  // puts the file under its name; nothing may be written afterwards

 private:
  void open_beside();
  void push(const char* data, std::size_t size);
  [[noreturn]] void fail(int error) const;

  std::string path_;    // as the user gave it, for messages
  std::string target_;  // with symbolic links followed
  std::string option_;
  std::string temporary_;  // name of the temporary file; empty when it has none
  std::string buffer_;
  int descriptor_ = -1;
  bool direct_ = false;  // no renaming: standard output, a pipe or a device
  void* gzip_ = nullptr;
};

void write_file(const std::string& path, std::string_view text);
// For what never stands in memory: `write` hands over piece after piece.
using Pieces = std::function<void(std::string_view)>;
void write_streamed(const std::string& path, const std::function<void(const Pieces&)>& write);
void write_stdout(std::string_view text);

// Writes the report where --output says.
void emit_report(const CommonOptions& common, std::string_view text);

// An answer in each form that --format knows.
struct Forms {
  std::function<std::string()> text, json, csv;
};
// Makes the one that was asked for, and writes it.
void emit_report(const CommonOptions& common, const Forms& forms);

// Of a report in text: whether it should be coloured, and how many columns it has (80 when it does not go to a terminal
// and COLUMNS is not set).
page::TextStyle text_style(const CommonOptions& common);

}  // namespace rehearsal::cli
