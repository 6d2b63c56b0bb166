// For the generated list of formats.
#pragma once
#include "interchange/format.hpp"
