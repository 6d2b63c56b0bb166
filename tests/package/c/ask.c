/* The library as a program in C uses it: ask SCENARIO. */
#include <rehearsal.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char words[4096];
  size_t bytes = 0;
  rehearsal_answer* answer;
  int status;
  if (argc != 2 || strlen(argv[1]) > 4000) return 64;
  sprintf(words, "[\"run\", \"%s\", \"--format\", \"json\"]", argv[1]);
  answer = rehearsal_ask(words, NULL);
  status = rehearsal_status(answer);
  if (status == 0)
    printf("%s %d %s\n", rehearsal_version(), REHEARSAL_ABI, strstr(rehearsal_out(answer, &bytes), "\"iteration_s\": "));
  else
    fputs(rehearsal_err(answer, NULL), stderr);
  rehearsal_free(answer);
  return status;
}
