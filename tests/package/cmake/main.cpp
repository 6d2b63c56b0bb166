#include <rehearsal.h>

#include <iostream>

int main() {
  rehearsal_answer* answer = rehearsal_ask(R"(["run", "of-memory.yaml"])", R"({"of-memory.yaml":
    {"version": 1, "model": "llama3-8b", "cluster": {"use": "dgx-h100", "nodes": 1},
     "parallelism": {"tensor": 2, "data": 4, "zero": 1}, "batch": {"global": 64, "micro": 1}}})");
  const int status = rehearsal_status(answer);
  std::cout << rehearsal_out(answer, nullptr) << rehearsal_err(answer, nullptr);
  rehearsal_free(answer);
  return status;
}
