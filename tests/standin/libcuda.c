// A driver that finds no GPU, for tools/gpu-rehearsal: the CUDA runtime loads it as it loads the real one, which asks
// for every symbol by name and then for the number of devices. No kernel can run on it.
#include <string.h>

enum { kSuccess = 0, kNoDevice = 100 };

int cuInit(unsigned flags) {
  (void)flags;
  return kNoDevice;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

static int no_device(void) { return kNoDevice; }

int cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags, int* found) {
  (void)version, (void)flags;
  *function = (void*)no_device;
  if (!strcmp(symbol, "cuInit")) *function = (void*)cuInit;
  if (!strcmp(symbol, "cuDriverGetVersion")) *function = (void*)cuDriverGetVersion;
  if (!strcmp(symbol, "cuGetProcAddress")) *function = (void*)cuGetProcAddress_v2;
  if (found) *found = 0;
  return kSuccess;
}
