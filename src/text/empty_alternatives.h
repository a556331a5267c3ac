// Grammars of rules whose alternatives may be nothing at all.
#pragma once

#include <string>
#include <string_view>

namespace sluice::text {

// GBNF lets an alternative have no elements, `ws ::= | " " ws`, where the library's form of EBNF
// wants the empty string: the same rules with `""` there.
std::string WithEmptyAlternatives(std::string_view rules);

}  // namespace sluice::text
