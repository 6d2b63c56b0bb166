#include "launch/store_address.hpp"

#include <fmt/format.h>

#include <charconv>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace rehearsal::launch {
namespace {

// Derived ports lie below those that Linux assigns itself (32768 to 60999) and above the registered services common on
// clusters.
constexpr std::uint16_t kFirstPort = 20000, kPorts = 10000;
constexpr std::uint16_t kAlternatives = 8;

std::uint16_t derived_port(std::string_view job) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a, 64 bits
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<std::uint16_t>(kFirstPort + hash % (kPorts / kAlternatives) * kAlternatives);
}

std::uint16_t port_number(const std::string& text, const std::string& where) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0)
    throw UserError(fmt::format("{}: '{}' is not a port; ports are numbers from 1 to 65535", where, text));
  return port;
}

StoreAddress said(const std::string& text) {
  auto malformed = [&] {
    return UserError(
        fmt::format("{} is '{}'; it must be an absolute path, file:///path or tcp://host:port", kStoreVariable, text));
  };
  StoreAddress address;
  if (text.starts_with("tcp://")) {
    const std::string rest = text.substr(6);
    const auto colon = rest.rfind(':');  // of "host:port" or "[::1]:port"
    if (colon == rest.npos || colon == 0) throw malformed();
    address.host = rest.substr(0, colon);
    if (address.host.starts_with("[") && address.host.ends_with("]"))
      address.host = address.host.substr(1, address.host.size() - 2);
    address.port = port_number(rest.substr(colon + 1), kStoreVariable);
    return address;
  }
  address.folder = text.starts_with("file://") ? text.substr(7) : text;
  if (!address.folder.is_absolute()) throw malformed();
  return address;
}

// The same on all ranks of a job. A restart of torchrun keeps the name, because its agents count restarts themselves.
std::string job_name(const RankEnvironment& mine, const Variables& variables) {
  if (mine.launcher == "torchrun") return "torchrun " + variables("TORCHELASTIC_RUN_ID").value_or("");
  if (mine.launcher == "srun")
    return fmt::format("srun {}.{}", variables("SLURM_JOB_ID").value_or(""), variables("SLURM_STEP_ID").value_or(""));
  if (mine.launcher == "mpirun")
    for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"})
      if (const auto value = variables(name)) return "mpirun " + *value;
  return "";
}

[[noreturn]] void unknown(const RankEnvironment& mine, const std::string& why) {
  const char* hint = mine.launcher == "mpirun" ? "; mpirun passes them on with -x MASTER_ADDR -x MASTER_PORT" : "";
  throw UserError(
      fmt::format("the ranks cannot find each other: {}. Set MASTER_ADDR (the host of rank 0) and MASTER_PORT (a free "
                  "port there) for all ranks{}; or {}=/path of a new folder that all of them see",
                  why, hint, kStoreVariable));
}

StoreAddress from_launcher(const RankEnvironment& mine, const Variables& variables) {
  StoreAddress address;
  address.job = job_name(mine, variables);
  if (address.job.empty()) unknown(mine, "nothing in the environment says where rank 0 is");
  address.port = derived_port(address.job), address.ports = kAlternatives;
  if (mine.local_size == mine.size) {
    address.host = "localhost";
    return address;
  }
  if (mine.launcher != "srun")
    unknown(mine, fmt::format("they run on several hosts, and {} does not say on which rank 0 does", mine.launcher));
  // Rank 0 is on the first node of the step. SLURM_LAUNCH_NODE_IPADDR is the address of srun itself, perhaps a login
  // node.
  if (const auto nodes = variables("SLURM_STEP_NODELIST")) address.host = first_host(*nodes);
  if (address.host.empty()) address.host = variables("SLURM_LAUNCH_NODE_IPADDR").value_or("");
  if (address.host.empty()) unknown(mine, "srun names no node (SLURM_STEP_NODELIST)");
  return address;
}

}  // namespace

std::string first_host(const std::string& list) {
  const auto bracket = list.find('['), comma = list.find(',');
  if (bracket == list.npos || comma < bracket) return list.substr(0, comma);
  const auto close = list.find(']', bracket);
  if (close == list.npos) return "";
  const std::string inside = list.substr(bracket + 1, close - bracket - 1);
  const std::string rest = list.substr(close + 1);  // "rack[1-2]n[01-16]": a name may have several brackets
  return list.substr(0, bracket) + inside.substr(0, inside.find_first_of("-,")) + first_host(rest);
}

namespace {

StoreAddress meeting_place(const RankEnvironment& mine, const Variables& variables) {
  if (const auto text = variables(kStoreVariable)) {
    StoreAddress address = said(*text);
    address.job = job_name(mine, variables);
    return address;
  }
  const auto host = variables("MASTER_ADDR"), port = variables("MASTER_PORT");
  if (!host) {
    if (mine.launcher == "torchrun" || (port && mine.launcher == "by hand"))
      throw UserError("the environment has no MASTER_ADDR: set it to the host of rank 0");
    return from_launcher(mine, variables);
  }
  StoreAddress address;
  address.host = *host, address.job = job_name(mine, variables);
  if (port) {
    address.port = port_number(*port, "MASTER_PORT");
    // torchrun's agent has a server there, and any program may hold the ports behind it.
    if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True") {
      if (address.port > UINT16_MAX - kAlternatives) address.port = UINT16_MAX - kAlternatives;
      ++address.port, address.ports = kAlternatives;
    }
  } else if (!address.job.empty() && mine.launcher != "torchrun") {
    address.port = derived_port(address.job), address.ports = kAlternatives;
  } else {
    throw UserError(
        fmt::format("MASTER_ADDR={} in the environment, but no MASTER_PORT: set it to a free port there", *host));
  }
  return address;
}

std::string secret(const RankEnvironment& mine, const Variables& variables) {
  if (const auto said = variables(kSecretVariable)) return *said;
  // Open MPI draws 128 random bits per job for networks that need a key.
  if (mine.launcher == "mpirun") return variables("OMPI_MCA_orte_precondition_transports").value_or("");
  return "";
}

}  // namespace

StoreAddress store_address(const RankEnvironment& mine, const Variables& variables) {
  StoreAddress address = meeting_place(mine, variables);
  address.secret = secret(mine, variables);
  address.one_host = mine.local_size == mine.size;
  return address;
}

}  // namespace rehearsal::launch
