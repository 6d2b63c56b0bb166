// What users may say of measured size curves: keys, units, defaults (base/fields.hpp).
#pragma once
#include "base/fields.hpp"
#include "collective/size_curve.hpp"

namespace rehearsal::collective {

// The kinds that have curves, as files name them.
inline constexpr std::pair<const char*, CollectiveKind> kCurveKinds[] = {
    {"all_reduce", CollectiveKind::all_reduce},
    {"reduce_scatter", CollectiveKind::reduce_scatter},
    {"all_gather", CollectiveKind::all_gather}};

fields::Form point_list();                        // of Point
const fields::Description& measured_on_fields();  // of MeasuredOn
const fields::Description& fitted_fields();       // of FittedCurve
const fields::Description& curve_fields();        // of SizeCurves

}  // namespace rehearsal::collective
