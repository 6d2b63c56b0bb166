// Shared by all pictures of time: the colours of passes, and the time axis.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "page/canvas.hpp"

namespace rehearsal::page {

struct Filling {
  char letter;
  std::string_view name;
  Rgb color;
};
inline constexpr std::array kFillings{Filling{'F', "forward", {66, 122, 214}},
                                      Filling{'I', "backward, input gradient", {38, 156, 142}},
                                      Filling{'W', "backward, weight gradient", {240, 176, 66}},
                                      Filling{'B', "backward, both gradients", {84, 158, 84}},
                                      Filling{'S', "sends", {66, 122, 214}},
                                      Filling{'R', "receives", {38, 156, 142}},
                                      Filling{'U', "over NICs", {66, 122, 214}},
                                      Filling{'V', "over NVLink", {38, 156, 142}},
                                      Filling{'A', "forward again, recomputed", {132, 170, 226}},
                                      Filling{'O', "optimizer", {120, 94, 170}},
                                      Filling{'T', "tensor collectives", {214, 110, 80}},
                                      Filling{'D', "data collectives", {170, 70, 110}},
                                      Filling{'C', "context collectives", {150, 120, 60}},
                                      Filling{'E', "expert collectives", {60, 140, 190}},
                                      Filling{'P', "messages", {110, 120, 135}},
                                      Filling{'M', "copies between tiers, host, disks", {90, 150, 120}},
                                      Filling{'K', "kernels, measured", {88, 112, 160}},
                                      Filling{'N', "communication of no known group", {150, 132, 140}}};
Rgb color_of(char kind);                                            // grey for other kinds
Rgb tint_of(char kind, std::uint32_t chunk, std::uint32_t chunks);  // for a chunk of a rank, from dark to light

// The position of a time, or an amount, on a line of this length that represents `span`.
Length place_in(std::int64_t span, std::int64_t at, Length length);
// 1, 2 or 5 times a power of ten.
std::int64_t round_step(std::int64_t at_least);
// Ticks with their times from 0 to `span` picoseconds, below a picture with this left edge and width.
void time_axis(Canvas& out, Length left, Length width, Length bottom, std::int64_t span);

}  // namespace rehearsal::page
