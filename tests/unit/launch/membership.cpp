#include "launch/rank_environment.hpp"

#include <doctest/doctest.h>

#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "variables.hpp"

namespace rehearsal {
namespace {

using launch::Launchers;
using launch::membership;
using Settings = std::map<std::string, std::string>;
using Ranks = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::string>;

Ranks ranks(const Settings& settings, Launchers launchers = Launchers::any) {
  const auto m = membership(launchers, variables(settings));
  if (!m) return {0, 0, 0, 0, "none"};
  return {m->rank, m->size, m->local_rank, m->local_size, m->launcher};
}

std::string refusal(const Settings& settings) {
  return user_error([&] { membership(Launchers::any, variables(settings)); });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Settings kTorchrun = {
    {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"TORCHELASTIC_RUN_ID", "7"}};
const Settings kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "6"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_RANK", "3"}};
// Three nodes with 4, 4 and 2 tasks; this is the second task of the last.
const Settings kSrun = {
    {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "9"}, {"SLURM_STEP_NUM_TASKS", "10"},          {"SLURM_NTASKS", "10"},
    {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),2"}};

Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}

}  // namespace

TEST_CASE("every launcher is understood") {
  CHECK(ranks({}) == Ranks{0, 0, 0, 0, "none"});
  CHECK(ranks(kTorchrun) == Ranks{5, 8, 1, 4, "torchrun"});
  CHECK(ranks({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}) == Ranks{5, 8, 1, 0, "by hand"});
  CHECK(ranks({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == Ranks{0, 1, 0, 0, "by hand"});
  CHECK(ranks(kOpenMpi) == Ranks{3, 6, 1, 2, "mpirun"});
  CHECK(ranks({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "4"}}) ==
        Ranks{2, 4, 2, 4, "mpirun"});
  CHECK(ranks(kSrun) == Ranks{9, 10, 1, 2, "srun"});
  // Without a word to MPI its ranks would not find each other.
  CHECK(user_error([] { launch::refuse_plain_srun(variables(kSrun)); }).find("srun --mpi=pmix") != std::string::npos);
  CHECK_NOTHROW(launch::refuse_plain_srun(variables(with(kSrun, {{"PMIX_RANK", "9"}}))));
  CHECK_NOTHROW(
      launch::refuse_plain_srun(variables(with(kSrun, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}))));
  // srun --mpi=pmix says the same rank twice, but its number of ranks in Slurm's words alone.
  CHECK(ranks(with(kSrun, {{"PMIX_RANK", "9"}})) == Ranks{9, 10, 1, 2, "srun"});
}

TEST_CASE("variables that only look like a job are none") {
  // A batch script.
  CHECK(std::get<4>(ranks({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "17"}})) == "none");
  // What an image exports does not concern MPI, even when it is broken.
  for (const Settings& image : {Settings{{"RANK", "3"}}, Settings{{"RANK", "x"}, {"WORLD_SIZE", "8"}}, kTorchrun}) {
    CHECK(std::get<4>(ranks(image, Launchers::mpi)) == "none");
    CHECK(ranks(with(kOpenMpi, image), Launchers::mpi) == Ranks{3, 6, 1, 2, "mpirun"});
  }
  // MPI learns the number of ranks from its library.
  CHECK(ranks({{"PMIX_RANK", "2"}}, Launchers::mpi) == Ranks{2, 0, 0, 0, "mpirun"});
  CHECK(launch::launchers_of("mpi") == Launchers::mpi);
  CHECK(launch::launchers_of("loopback") == Launchers::mpi);
  CHECK(launch::launchers_of("cuda") == Launchers::any);
}

TEST_CASE("jobs have names of their own where the launcher numbers them") {
  const auto job = [](const Settings& settings) { return membership(Launchers::any, variables(settings)).value().job; };
  CHECK(job(kTorchrun) == "torchrun-7");
  CHECK(job(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "a/b"}})) == "torchrun-a-b");
  CHECK(job(with(kSrun, {{"SLURM_JOB_ID", "17"}})) == "srun-17-0");
  CHECK(job(with(kOpenMpi, {{"PMIX_NAMESPACE", "535625729"}, {"PMI_JOBID", "1"}})) == "mpirun-535625729");
  CHECK(job({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == "by-hand");
}

TEST_CASE("a variable that is missing, no number or too large is named") {
  CHECK(contains(refusal({{"RANK", "1"}}), "not WORLD_SIZE"));
  CHECK(contains(refusal({{"WORLD_SIZE", "4"}}), "not RANK"));
  CHECK(contains(refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}}), "not LOCAL_RANK"));
  CHECK(contains(refusal({{"PMIX_RANK", "2"}}), "PMIX_RANK=2, but not WORLD_SIZE"));
  CHECK(contains(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}), "RANK=4"));
  CHECK(contains(refusal(with(kTorchrun, {{"LOCAL_RANK", "4"}})), "LOCAL_RANK=4"));
  for (const char* text : {"", " 1", "1 ", "-1", "0x1", "one", "1.0", "99999999999999999999"}) {
    if (*text == '\0') continue;  // as if it were not set
    CAPTURE(text);
    CHECK(contains(refusal(with(kTorchrun, {{"RANK", text}})), "RANK is '"));
  }
  CHECK(contains(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "6"}})), "OMPI_COMM_WORLD_RANK=6"));
}

TEST_CASE("where several speak, torchrun wins and others must agree") {
  // srun starts one agent of torchrun per node: SLURM_PROCID is that of the agent.
  CHECK(ranks(with(kTorchrun, kSrun)) == Ranks{5, 8, 1, 4, "torchrun"});
  CHECK(ranks(with(kTorchrun, kOpenMpi)) == Ranks{5, 8, 1, 4, "torchrun"});
  // A script exports the size and srun the ranks; a scheduler shows each rank one GPU alone.
  CHECK(ranks(with(kSrun, {{"WORLD_SIZE", "10"}})) == Ranks{9, 10, 1, 2, "srun"});
  CHECK(ranks(with(kSrun, {{"WORLD_SIZE", "10"}, {"RANK", "9"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}})) ==
        Ranks{9, 10, 0, 1, "srun"});
  CHECK(contains(refusal(with(kSrun, {{"WORLD_SIZE", "8"}})), "WORLD_SIZE=8"));
  CHECK(contains(refusal(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "6"}})), "contradicts OMPI_COMM_WORLD_RANK=3"));
  // mpirun in an allocation starts its daemons with srun.
  CHECK(ranks(with(kOpenMpi, with(kSrun, {{"SLURM_PROCID", "1"}}))) == Ranks{3, 6, 1, 2, "mpirun"});
}

TEST_CASE("ranks of our own outweigh everything that they inherit") {
  const Settings ours = {{launch::kFolderVariable, "/tmp/x"}, {launch::kRanksVariable, "4"}};
  for (const auto launchers : {Launchers::mpi, Launchers::any}) {
    CHECK(ranks(with(with(kTorchrun, kOpenMpi), with(ours, {{launch::kRankVariable, "2"}})), launchers) ==
          Ranks{2, 4, 2, 4, "rehearse"});
    CHECK(ranks(with(kOpenMpi, ours), launchers) == Ranks{3, 4, 3, 4, "rehearse"});  // numbered by mpirun
    CHECK_THROWS_AS(membership(launchers, variables(ours)), MachineError);
    CHECK_THROWS_AS(membership(launchers, variables(with(ours, {{launch::kRankVariable, "4"}}))), MachineError);
  }
}

}  // namespace rehearsal
