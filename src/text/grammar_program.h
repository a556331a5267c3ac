// The program that compiles grammars (apps/grammar_compiler.cc), as bytes within this one: so that
// whatever holds the engine can start it, wherever it was installed.
#pragma once

#include <string_view>

namespace sluice::text {

std::string_view GrammarProgram();

}  // namespace sluice::text
