// The fields that users can set in a scenario, part by part: the structs of this folder and, through them, of all
// others (base/fields.hpp). `scenario_fields` is the whole: what a digest must cover and what a test can vary.
#pragma once
#include "base/fields.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

struct ClusterChoice;
struct GpuChoice;
struct TrainingChoice;

const fields::Description& schedule_fields();         // of ScheduleChoice
const fields::Description& optimizer_sync_fields();   // of OptimizerSync
const fields::Description& simulate_fields();         // of Simulate
const fields::Description& cost_fields();             // of AbstractCosts
const fields::Description& plan_fields();             // of PlanSpace
const fields::Description& plan_cluster_fields();     // of PlanSpace::Cluster, besides those of `cluster`
const fields::Description& gpu_choice_fields();       // of GpuChoice
const fields::Description& cluster_choice_fields();   // of ClusterChoice
const fields::Description& training_choice_fields();  // of TrainingChoice
const fields::Description& scenario_fields();         // of Scenario

}  // namespace rehearsal::scenario
