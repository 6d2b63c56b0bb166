// Amounts for people in decimal units that fit their size, as links, storage, electricity and papers count: 112.4 GB,
// 28.03 GWh. Never an exponent, never a unit upon a unit.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal {

// "521 GB" of 5.21e11 and "B"; `digits` significant ones at most. Below one of the unit: m, u, n.
std::string decimal(double amount, std::string_view unit, int digits = 4);

// A mean number of events: "0.0075", "21.8", "1,254"; "less than 0.001".
std::string show_events(double count);

// Of a share near one the digits that tell it from one: "97.2 %", "99.95 %". `like`: with as many as that one needs.
std::string show_share(double share, double like);

}  // namespace rehearsal
