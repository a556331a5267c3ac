// A program within the program: src/text/grammar_process.cc starts it, with a socket as its
// standard input.
#include "text/grammar_compiler/serve_grammars.h"

int main() { return sluice::text::ServeGrammars(0); }
