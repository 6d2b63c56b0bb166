#include "cli/command.hpp"

int main(int argc, char** argv) { return rehearsal::cli::run_program({argv + (argc > 0 ? 1 : 0), argv + argc}); }
