// What users may specify of parallelism: keys, ranges, defaults (base/fields.hpp).
#pragma once
#include "base/fields.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::plan {

fields::Form stage_list();                          // of StageLayout
const fields::Description& parallelism_fields();    // of Parallelism
const fields::Description& resharding_fields();     // of Resharding
const fields::Description& batch_fields();          // of Batch
const fields::Description& partition_fields();      // of Partition
const fields::Description& data_parallel_fields();  // of DataParallel

}  // namespace rehearsal::plan
