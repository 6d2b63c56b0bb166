// Keys and values that have been renamed. Files with the old names stay readable forever; everything written, listed or
// explained uses the new ones. Digests keep the first names (digest.cpp), so that a renaming changes none.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal::scenario {

// The current name. `above`: the key of the mapping that holds `key`; empty at the top of a file.
std::string_view key_of_today(std::string_view above, std::string_view key);
// The current names of a whole path: "software.fp8_gather" is "framework.fp8_gather".
std::string path_of_today(std::string_view path);
// The current name of a value of `key`.
std::string_view value_of_today(std::string_view key, std::string_view value);

// The first name of a current dotted key such as "framework.fp8_gather", and of its values.
std::string first_key(std::string_view key);
std::string_view first_value(std::string_view key, std::string_view value);

}  // namespace rehearsal::scenario
