// Network namespaces with names, as iproute2 keeps them in /run/netns: listed, entered, emptied and removed.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace rehearsal::hosts {

// Whether this process may make namespaces. Throws UserError that says which right is missing and how to get it, and
// MachineError where the machine forbids them to everybody.
void require_rights();

std::vector<std::string> namespaces_with(const std::string& prefix);  // sorted

// Ends all processes in these namespaces, then removes them: with them go their interfaces, and the other ends of
// those. Throws MachineError if this process is in one, or a process does not end.
void remove(const std::vector<std::string>& names);

// Runs `work` in a child of this process that is in the namespace. Throws MachineError with what `work` threw.
void inside(const std::string& name, const std::function<void()>& work);

// This process moves into the namespace and is called `host` there; /etc/hosts is `hosts_file`. For a process that will
// run another program. Throws MachineError.
void enter(const std::string& name, const std::string& host, const std::filesystem::path& hosts_file);

}  // namespace rehearsal::hosts
