// Keys and values that were called otherwise once. Files with the old names are read for good; what is written, listed
// and explained has the new ones. Digests keep the first names (digest.cpp), so that a new name changes none.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal::scenario {

// The name of today. `above`: the key of the mapping that `key` stands in, empty at the top of a file.
std::string_view key_of_today(std::string_view above, std::string_view key);
// Of a whole path: "software.fp8_gather" is "framework.fp8_gather".
std::string path_of_today(std::string_view path);
// Of a value below `key`.
std::string_view value_of_today(std::string_view key, std::string_view value);

// Of a dotted key of today, such as "framework.fp8_gather", and of a value of it.
std::string first_key(std::string_view key);
std::string_view first_value(std::string_view key, std::string_view value);

}  // namespace rehearsal::scenario
