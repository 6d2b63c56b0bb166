#include "rehearsal.h"

int main(int argc, char** argv) { return rehearsal_main(argc > 0 ? argc - 1 : 0, argv + (argc > 0 ? 1 : 0)); }
