#include "interchange/megatron_write.hpp"
namespace rehearsal::interchange {
std::string write_megatron(const scenario::Scenario&, Lacks&) { return ""; }
}  // namespace rehearsal::interchange
