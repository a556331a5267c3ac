// The tests that Jinja ships (`x is defined`). Any thread; a call belongs to one rendering.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct TestEntry {
  std::string_view name;
  bool (*call)(Runtime& runtime, const Value& subject, const Arguments& arguments);
};

std::span<const TestEntry> Tests();
// Null if there is no test of that name.
const TestEntry* FindTest(std::string_view name);

}  // namespace sluice::text::jinja
