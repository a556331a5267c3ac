#include "text/grammar_program.h"

asm(".section .rodata\n"
    ".global sluice_grammar_program, sluice_grammar_program_end\n"
    "sluice_grammar_program:\n"
    ".incbin \"" SLUICE_GRAMMAR_PROGRAM
    "\"\n"
    "sluice_grammar_program_end:\n"
    ".previous\n");

extern const char sluice_grammar_program[], sluice_grammar_program_end[];

namespace sluice::text {

std::string_view GrammarProgram() {
  return {sluice_grammar_program,
          static_cast<size_t>(sluice_grammar_program_end - sluice_grammar_program)};
}

}  // namespace sluice::text
