// Quantities as users write them: `10ms 3us 80GiB 80GB 450GB/s 400Gb/s 989TFLOP/s` (contract, section 3).
// GB = 1e9 bytes, GiB = 2^30 bytes, Gb = 1e9 bits. A bare number is an error, except a bare 0.
#pragma once
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace rehearsal {

// Each throws UserError with what was found, what is allowed and an example. Negative and non-finite values are
// refused.
Time parse_time(std::string_view text);               // ps ns us ms s min h
Bytes parse_bytes(std::string_view text);             // B kB MB GB TB PB KiB MiB GiB TiB
Bandwidth parse_bandwidth(std::string_view text);     // <bytes>/s or <bits>/s: GB/s GiB/s Gb/s
FlopRate parse_flop_rate(std::string_view text);      // FLOP/s GFLOP/s TFLOP/s PFLOP/s
Duration parse_duration(std::string_view text);       // ms s min h d y; a year has 365 d
Power parse_power(std::string_view text);             // W kW MW
CarbonIntensity parse_carbon(std::string_view text);  // g/kWh kg/kWh
Count parse_count(std::string_view text);             // a number, or one with k M B T

// A plain finite number; throws UserError.
double parse_number(std::string_view text);

// For people: "12.3 ms", "1.21 s", "79.1 GiB".
std::string show(Time time);
std::string show(Bytes bytes);
std::string show(Duration duration);  // "54.2 days", "3.4 h", "10.0 min"
std::string show(Count count);        // "15.6 T", "1.2 k"

}  // namespace rehearsal
