// A model by itself, in closed form (models/closed_forms.hpp), as text and JSON.
#pragma once
#include <string>

#include "models/transformer.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

std::string model_text(const models::Transformer& model);
Shown<models::Transformer> model_answer();

}  // namespace rehearsal::report
