// `rehearse hosts`: the request of the command line to hosts of this machine (hw/hosts), and what it prints.
#pragma once
#include <map>
#include <string>

#include "cli/performer.hpp"

namespace rehearsal::perform {

int hosts(const cli::HostsRequest& request, const cli::CommonOptions& common);

// `arguments`: the set, the host, and what is to run there.
int enter_host(const cli::Arguments& arguments);

cli::HostLinks host_links();

}  // namespace rehearsal::perform
