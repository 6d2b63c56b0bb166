// The entry of librehearsal_perform.so.
#include "modules/module.hpp"

#include "launch/launch.hpp"
#include "perform/backends.hpp"
#include "perform/calibrate.hpp"
#include "perform/hosts.hpp"

namespace rehearsal::perform {
namespace {

class Performer : public cli::Performer {
 public:
  std::vector<cli::BackendEntry> backends() const override { return perform::backends(); }
  std::unique_ptr<backend::Backend> open(const std::string& name, const cli::Arguments& arguments) const override {
    return open_backend(name, arguments);
  }
  bool reports(const std::string& backend) const override { return launch::reports(backend); }
  void refuse_crowding(const backend::RunOptions& options, std::size_t here) const override {
    launch::refuse_crowding(options, here);
  }
  bool is_rank() const override { return launch::is_rank(); }
  int hosts(const cli::HostsRequest& request, const cli::CommonOptions& common) const override {
    return perform::hosts(request, common);
  }
  int enter_host(const cli::Arguments& arguments) const override { return perform::enter_host(arguments); }
  cli::HostLinks host_links() const override { return perform::host_links(); }
  int calibrate(const cli::Calibration& what, const cli::Arguments& arguments,
                const cli::CommonOptions& common) const override {
    return perform::calibrate(what, arguments, common);
  }
};

void* make_performer() { return static_cast<cli::Performer*>(new Performer); }

}  // namespace
}  // namespace rehearsal::perform

extern "C" [[gnu::visibility("default")]] int rehearsal_performer(const char* build_id, void** out,
                                                                  rehearsal::modules::ModuleError* error) {
  return rehearsal::modules::enter_module(build_id, rehearsal::perform::make_performer, out, error);
}
