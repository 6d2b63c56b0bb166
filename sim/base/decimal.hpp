// Amounts for people, in decimal units of fitting size, as for links, storage, electricity and in papers: 112.4 GB,
// 28.03 GWh. Never an exponent, never two prefixes.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal {

// "521 GB" for 5.21e11 and "B", with at most `digits` significant digits. Below one: m, u, n.
std::string decimal(double amount, std::string_view unit, int digits = 4);

// A mean number of events: "0.0075", "21.8", "1,254"; "less than 0.001".
std::string show_events(double count);

// A share near one, with the digits that tell it from one: "97.2 %", "99.95 %". `like`: as many as that share needs.
std::string show_share(double share, double like);

}  // namespace rehearsal
