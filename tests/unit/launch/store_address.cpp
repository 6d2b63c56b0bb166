#include "launch/store_address.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "variables.hpp"

namespace rehearsal {
namespace {

using launch::StoreAddress;
using Settings = std::map<std::string, std::string>;

StoreAddress address(const std::string& launcher, const Settings& settings, std::size_t size = 4,
                     std::size_t local_size = 4) {
  return launch::store_address({0, size, 0, local_size, launcher}, variables(settings));
}

std::string refusal(const std::string& launcher, const Settings& settings, std::size_t local_size = 4) {
  return user_error([&] { address(launcher, settings, 4, local_size); });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("what the user says about the store comes first") {
  const Settings torch = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}};
  for (const auto& [text, folder] : {std::pair("/shared/x", "/shared/x"), {"file:///shared/y", "/shared/y"}}) {
    Settings settings = torch;
    settings["REHEARSAL_STORE"] = text;
    CHECK(address("by hand", settings).folder == folder);
  }
  for (const auto& [text, host] : {std::pair("tcp://node7:1234", "node7"), {"tcp://[fe80::1]:1234", "fe80::1"}}) {
    const auto a = address("torchrun", {{"REHEARSAL_STORE", text}});
    CHECK(a.folder.empty());
    CHECK(a.host == host);
    CHECK(a.port == 1234);
    CHECK(a.ports == 1);
  }
  for (const char* text : {"relative/path", "tcp://node7", "tcp://:17", "tcp://node7:0", "tcp://node7:65536",
                           "tcp://node7:12x", "file://x", "http://node7:80"}) {
    CAPTURE(text);
    CHECK(contains(refusal("by hand", {{"REHEARSAL_STORE", text}}), "REHEARSAL_STORE"));
  }
}

TEST_CASE("torchrun's agent keeps its port") {
  Settings settings = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "r1"}};
  CHECK(address("torchrun", settings).port == 29500);
  CHECK(address("torchrun", settings).ports == 1);
  CHECK(address("torchrun", settings).job == "torchrun r1");
  settings["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(address("torchrun", settings).host == "head");
  CHECK(address("torchrun", settings).port == 29501);
  CHECK(address("torchrun", settings).ports > 1);
  settings["MASTER_PORT"] = "65535";  // all alternatives must be ports too
  const auto last = address("torchrun", settings);
  CHECK(last.port + last.ports - 1 <= 65535);
}

TEST_CASE("launchers say where rank 0 is, or it is asked for") {
  const Settings slurm = {{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "2"},
                          {"SLURM_STEP_NODELIST", "gpu[003-005,7],login"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};
  const auto step = address("srun", slurm, 8, 2);
  CHECK(step.host == "gpu003");
  CHECK(step.job == "srun 17.2");
  CHECK(step.port >= 20000);
  CHECK(step.port + step.ports <= 32768);  // below the ports that Linux gives away
  Settings other = slurm;
  other["SLURM_STEP_ID"] = "3";
  CHECK(address("srun", other, 8, 2).port != step.port);
  CHECK(address("srun", slurm, 8, 8).host == "localhost");
  CHECK(address("srun", {{"SLURM_JOB_ID", "1"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}}, 8, 2).host == "10.0.0.1");

  CHECK(address("mpirun", {{"PMIX_NAMESPACE", "535625729"}}).host == "localhost");
  CHECK(address("mpirun", {{"PMIX_NAMESPACE", "535625729"}}).job == "mpirun 535625729");
  CHECK(contains(refusal("mpirun", {{"PMIX_NAMESPACE", "535625729"}}, 2), "-x MASTER_ADDR -x MASTER_PORT"));
  CHECK(contains(refusal("mpirun", {}), "Set MASTER_ADDR"));
  // A port may be left to us where the job has a number.
  CHECK(address("srun", {{"MASTER_ADDR", "head"}, {"SLURM_JOB_ID", "17"}}, 8, 2).port >= 20000);

  CHECK(contains(refusal("by hand", {}), "REHEARSAL_STORE=/path"));
  CHECK(contains(refusal("by hand", {{"MASTER_ADDR", "head"}}), "no MASTER_PORT"));
  CHECK(contains(refusal("by hand", {{"MASTER_PORT", "29500"}}), "no MASTER_ADDR"));
  CHECK(contains(refusal("torchrun", {}), "no MASTER_ADDR"));
  CHECK(contains(refusal("by hand", {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "port"}}), "MASTER_PORT: 'port'"));
}

TEST_CASE("the first host of a list, as Slurm writes it") {
  CHECK(launch::first_host("node1") == "node1");
  CHECK(launch::first_host("node1,node2") == "node1");
  CHECK(launch::first_host("n[003-005,7],login") == "n003");
  CHECK(launch::first_host("login,n[1-2]") == "login");
  CHECK(launch::first_host("n[9],x") == "n9");
  CHECK(launch::first_host("rack[1-2]n[01-16]-ib,x") == "rack1n01-ib");
  CHECK(launch::first_host("n[1-2") == "");
  CHECK(launch::first_host("") == "");
}

TEST_CASE("the secret of a job comes from the user or from an mpirun that has one") {
  const Settings open_mpi = {{"OMPI_MCA_orte_precondition_transports", "0b1c-2d3e"}, {"PMIX_NAMESPACE", "7"}};
  CHECK(address("mpirun", open_mpi).secret == "0b1c-2d3e");
  auto said = open_mpi;
  said["REHEARSAL_STORE_SECRET"] = "ours";
  CHECK(address("mpirun", said).secret == "ours");
  said["MASTER_ADDR"] = "head", said["MASTER_PORT"] = "29500";
  CHECK(address("torchrun", said).secret == "ours");
  said.erase("REHEARSAL_STORE_SECRET");
  CHECK(address("torchrun", said).secret.empty());  // below an mpirun that may know other ranks
  CHECK(address("mpirun", open_mpi).one_host);
  CHECK_FALSE(address("torchrun", said, 4, 2).one_host);
}

}  // namespace rehearsal
