// Three kinds of failure, three exits (contract, section 2):
//   UserError     the input is wrong        exit 2   says where and how to mend it
//   MachineError  this machine lacks it     exit 3   no GPU, no MPI, out of memory, a peer that died
//   INVARIANT     a bug of ours             exit 70  throws InternalError
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal {

// Where an input is wrong. `file` may name an option ("--set"); line and column count from 1, 0 = unknown.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
};

struct Diagnostic {
  Location where;
  std::string message;
};

// The text with control characters escaped, so that a file cannot write to the terminal through a message.
std::string printable(std::string_view text);

// One line per diagnostic: `file:line:column: error: message`; the location is left out where it is unknown.
std::string format(const std::vector<Diagnostic>& diagnostics, std::string_view severity = "error");

class UserError : public std::runtime_error {
 public:
  explicit UserError(std::string message);
  explicit UserError(std::vector<Diagnostic> diagnostics);
  UserError(const UserError&);
  UserError& operator=(const UserError&);
  ~UserError() override;
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

class MachineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  MachineError(const MachineError&);
  ~MachineError() override;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void invariant_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace rehearsal

// Checks what only a bug of ours can break; never what a user typed.
#define INVARIANT(condition, message) \
  ((condition) ? void(0) : ::rehearsal::invariant_failed(#condition, __FILE__, __LINE__, message))
