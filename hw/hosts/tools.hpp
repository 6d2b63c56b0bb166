// Other programs, called once and waited for: ip and tc of iproute2.
#pragma once
#include <string>
#include <vector>

namespace rehearsal::hosts {

struct Said {
  int status = 0;  // 127: there is no such program
  std::string out, error;
};

// Runs a program of PATH with `text` as its standard input.
Said call(const std::vector<std::string>& command, const std::string& text = "");

// The same; throws MachineError with what it said if it fails, and with the package if there is none.
std::string call_or_throw(const std::vector<std::string>& command, const std::string& text = "");

}  // namespace rehearsal::hosts
