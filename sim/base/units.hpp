// Quantities are types: a Time is never a Bytes, and neither is a bare number.
// Time is a whole number of picoseconds (int64: +-106 days), so addition is associative and equality exact.
#pragma once
#include <cmath>
#include <compare>
#include <cstdint>

namespace rehearsal {

// An integer quantity. `Tag` only keeps different quantities apart.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.count_ + b.count_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.count_ - b.count_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.count_); }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity(a.count_ * n); }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return a * n; }
  friend constexpr double operator/(Quantity a, Quantity b) { return double(a.count_) / double(b.count_); }
  constexpr Quantity& operator+=(Quantity b) { return count_ += b.count_, *this; }
  constexpr Quantity& operator-=(Quantity b) { return count_ -= b.count_, *this; }

 private:
  std::int64_t count_ = 0;
};

using Time = Quantity<struct TimeTag>;    // picoseconds
using Bytes = Quantity<struct BytesTag>;  // bytes; also abstract memory units in scenarios without a model

// One rounding: the quotient of two exact doubles is the double nearest to the time (0.033, not 0.033000000000000002).
constexpr double to_seconds(Time t) { return double(t.count()) / 1e12; }
// Nearest picosecond. The models work in seconds (double) and round once, here.
inline Time seconds(double s) { return Time(std::llround(s * 1e12)); }
constexpr Time picoseconds(std::int64_t n) { return Time(n); }
inline Bytes bytes(double n) { return Bytes(std::llround(n)); }

// A real-valued quantity: work and rates, whose ranges exceed 2^63 (a step of a 1T model is 1e23 FLOP).
template <class Tag>
class RealQuantity {
 public:
  constexpr RealQuantity() = default;
  constexpr explicit RealQuantity(double value) : value_(value) {}
  constexpr double value() const { return value_; }

  friend constexpr auto operator<=>(RealQuantity, RealQuantity) = default;
  friend constexpr RealQuantity operator+(RealQuantity a, RealQuantity b) { return RealQuantity(a.value_ + b.value_); }
  friend constexpr RealQuantity operator-(RealQuantity a, RealQuantity b) { return RealQuantity(a.value_ - b.value_); }
  friend constexpr RealQuantity operator*(RealQuantity a, double x) { return RealQuantity(a.value_ * x); }
  friend constexpr RealQuantity operator*(double x, RealQuantity a) { return a * x; }
  friend constexpr RealQuantity operator/(RealQuantity a, double x) { return RealQuantity(a.value_ / x); }
  friend constexpr double operator/(RealQuantity a, RealQuantity b) { return a.value_ / b.value_; }
  constexpr RealQuantity& operator+=(RealQuantity b) { return value_ += b.value_, *this; }

 private:
  double value_ = 0;
};

using Flops = RealQuantity<struct FlopsTag>;          // floating-point operations
using FlopRate = RealQuantity<struct FlopRateTag>;    // FLOP/s
using Bandwidth = RealQuantity<struct BandwidthTag>;  // bytes/s

// Of whole runs, which last longer than a Time can be.
using Duration = RealQuantity<struct DurationTag>;                // seconds
using Power = RealQuantity<struct PowerTag>;                      // watts
using CarbonIntensity = RealQuantity<struct CarbonIntensityTag>;  // kg of CO2 a kWh
using Count = RealQuantity<struct CountTag>;                      // tokens, steps, money: 2T is 2e12

constexpr double seconds_for(Flops work, FlopRate rate) { return work.value() / rate.value(); }
constexpr double seconds_for(Bytes size, Bandwidth rate) { return double(size.count()) / rate.value(); }

}  // namespace rehearsal
