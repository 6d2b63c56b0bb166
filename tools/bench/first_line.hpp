// What a command says first: the processor, the commit.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

inline std::string first_line_of(const char* command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command, "r"), pclose);
  char line[256] = "";
  if (!pipe || !std::fgets(line, sizeof line, pipe.get())) return "unknown";
  std::string text = line;
  text.erase(text.find_last_not_of("\n ") + 1);
  return text.empty() ? "unknown" : text;
}
