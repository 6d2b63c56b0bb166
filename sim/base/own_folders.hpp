// Where this code lies on the disk, to find what was installed with it. In a header, so that the core asks no system
// unless a room that does includes it.
#pragma once
#ifndef __EMSCRIPTEN__
#include <dlfcn.h>
#endif

#include <filesystem>
#include <vector>

namespace rehearsal {

// The folder of the shared library that this code is part of, if it is, and that of the running program.
inline std::vector<std::filesystem::path> own_folders() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  std::error_code unknown;
#ifndef __EMSCRIPTEN__  // a page in a browser is in no folder
  // Of a program, dladdr knows the name it was started by, which may be relative to anything.
  static const char here = 0;
  Dl_info info{};
  if (dladdr(&here, &info) != 0 && info.dli_fname)
    if (const fs::path file = fs::weakly_canonical(info.dli_fname, unknown);
        !unknown && file.filename().string().find(".so") != std::string::npos)
      folders.push_back(file.parent_path());
#endif
  if (const fs::path self = fs::read_symlink("/proc/self/exe", unknown).parent_path();
      !unknown && (folders.empty() || folders.front() != self))
    folders.push_back(self);
  return folders;
}

}  // namespace rehearsal
