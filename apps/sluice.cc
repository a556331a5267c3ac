// The program.
#include "cli/cli.h"

int main(int argc, char** argv) { return sluice::cli::Run(argc, argv); }
