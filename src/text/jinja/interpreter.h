// Renders a parsed template with the variables of `context`, an object, under the runtime's limits.
// For one rendering's thread.
#pragma once

#include <string>

#include "base/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace sluice::text::jinja {

// Throws Failure. The template must outlive the runtime's values.
std::string Render(const ParsedTemplate& parsed, const OrderedJson& context, Runtime& runtime);

}  // namespace sluice::text::jinja
