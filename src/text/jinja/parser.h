// Builds a ParsedTemplate from tokens. Any thread.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace sluice::text::jinja {

// Throws SyntaxFailure. REQUIRES: `source` is UTF-8.
ParsedTemplate ParseTemplate(std::string_view source);

// Resolves what Jinja settles before it renders (analysis.cc): which names a frame hides.
void Analyze(ParsedTemplate* parsed);

}  // namespace sluice::text::jinja
