// Preloaded into a program: every disk looks like NFS whose locks reach nobody (mounted "nolock") or, with LOCKS=none,
// that has no locks (ENOLCK: Lustre without "flock", some containers).
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

namespace {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int control(const char* name, int file, int command, void* argument) {
  if (command != F_SETLK && command != F_SETLKW && command != F_GETLK)
    return real<int(int, int, ...)>(name)(file, command, argument);
  const char* locks = getenv("LOCKS");
  if (locks && strcmp(locks, "none") == 0) return errno = ENOLCK, -1;
  if (command == F_GETLK) static_cast<struct flock*>(argument)->l_type = F_UNLCK;
  return 0;
}

}  // namespace

extern "C" {

int fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  return control("fcntl", file, command, argument);
}

int fcntl64(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  return control("fcntl64", file, command, argument);
}

int statfs(const char* path, struct statfs* found) noexcept {
  const int status = real<int(const char*, struct statfs*)>("statfs")(path, found);
  if (status == 0) found->f_type = NFS_SUPER_MAGIC;
  return status;
}

int statfs64(const char* path, struct statfs64* found) noexcept {
  const int status = real<int(const char*, struct statfs64*)>("statfs64")(path, found);
  if (status == 0) found->f_type = NFS_SUPER_MAGIC;
  return status;
}
}
