// A program within the program: src/text/grammar_process.cc starts it, with a socket as its
// standard input and the milliseconds of CPU time that a grammar may take.
#include <cstdlib>

#include "text/grammar_compiler/serve_grammars.h"

int main(int argc, char** argv) {
  const int milliseconds = argc == 2 ? std::atoi(argv[1]) : 0;
  return milliseconds > 0 ? sluice::text::ServeGrammars(0, milliseconds) : 2;
}
