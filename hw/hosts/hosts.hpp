// Hosts of this machine that stand for the nodes of a cluster: made, shown, used and removed. `up` and `down` need
// root; what is used of other programs is ip and tc (iproute2).
#pragma once
#include <string>
#include <vector>

#include "base/json.hpp"
#include "hosts/plan.hpp"

namespace rehearsal::hosts {

// Of the plan what is performed here, and what not.
struct Made {
  std::string set;                   // its name
  std::string scenario;              // whose cluster it is, as the user named it
  std::vector<std::string> changes;  // KEY=VALUE, which describe the scaled cluster
  bool netem = false;                // whether this kernel delays packets
};

// The answer of `up` and `show`, which is also what is kept of a set.
Json state(const Plan& plan, const Made& made);

// Makes them; a set of that name is removed first. Returns the state. Whatever happens, nothing is left of a set that
// could not be made; of one whose process was killed, nothing after the next call.
Json up(const Plan& plan, Made made);

// Ends all processes on the hosts and removes them. False if there was no such set.
bool down(const std::string& set);

// The state, with what has passed each link since ("bytes", "dropped"), and whether it is up now. Throws UserError if
// there is no such set.
Json show(const std::string& set);

// UserError that says how to make them, and which sets there are.
Json require(const std::string& set);

// Throws UserError if a set was made of another cluster than this.
void require_same(const Json& state, const Plan& plan);

struct Command {
  std::vector<std::string> words;
  // Once on the first host; or as often as there are ranks, each on its host, told by RANK, WORLD_SIZE, LOCAL_RANK,
  // LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT who it is, as torchrun does.
  bool every_rank = false;
};
// Runs a command on the hosts with this process's standard streams, in an environment in which mpirun starts ranks on
// all of them. What it leaves running is ended. Returns its exit status, that of the first that failed.
int run(const std::string& set, const Command& command);

// As ssh does: this process becomes a shell on a host, by name or address, that runs the words. Does not return.
[[noreturn]] void enter(const std::string& set, const std::string& host, const std::vector<std::string>& words);

}  // namespace rehearsal::hosts
