/* The same by dlopen: what a language without a compiler does. */
#include <dlfcn.h>
#include <rehearsal.h>
#include <stdio.h>
#include <string.h>

/* POSIX promises that an address of a function fits; ISO C has no such conversion. */
static void find(void* library, const char* name, void* function) {
  void* address = dlsym(library, name);
  if (address == NULL) fprintf(stderr, "%s\n", dlerror());
  memcpy(function, &address, sizeof address);
}

int main(void) {
  rehearsal_answer* (*ask)(const char*, const char*);
  int (*status)(const rehearsal_answer*);
  const char* (*out)(const rehearsal_answer*, size_t*);
  void (*release)(rehearsal_answer*);
  rehearsal_answer* answer;
  int done;
  void* library = dlopen("librehearsal.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  find(library, "rehearsal_ask", &ask);
  find(library, "rehearsal_status", &status);
  find(library, "rehearsal_out", &out);
  find(library, "rehearsal_free", &release);
  answer = ask("[\"list\", \"schedules\"]", NULL);
  done = status(answer) == 0 && strstr(out(answer, NULL), "1f1b") != NULL ? 0 : 1;
  release(answer);
  return done;
}
