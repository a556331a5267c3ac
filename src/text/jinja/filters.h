// The filters that Jinja ships, and tojson as transformers defines it. Any thread; a call belongs
// to one rendering. Filters and tests throw Failure where Jinja raises.
//
// random, urlize, wordwrap, striptags and pprint are known but refused: the first gives another
// text each time, the others lay out HTML pages and debugging output, which no chat template does.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct FilterEntry {
  std::string_view name;
  // subject|name(arguments)
  Value (*call)(Runtime& runtime, const Value& subject, const Arguments& arguments);
};

// The parts of the table, each in its own file, and all together, by name.
std::span<const FilterEntry> TextFilters();
std::span<const FilterEntry> NumberFilters();
std::span<const FilterEntry> SequenceFilters();
std::span<const FilterEntry> LazyFilters();
const std::map<std::string_view, const FilterEntry*>& Filters();
// Null if there is no filter of that name.
const FilterEntry* FindFilter(std::string_view name);

// json.dumps(value, ensure_ascii, indent, separators, sort_keys)
Value ToJson(Runtime& runtime, const Value& subject, const Arguments& arguments);

// Looks up "a.b.0" step by step, as the `attribute` argument of filters means it.
class AttributeGetter {
 public:
  // `attribute` is None (the item itself), a str or an int.
  AttributeGetter(Runtime& runtime, const Value& attribute);
  // `fallback` takes the place of what is undefined on the way, if it is not null.
  Value Get(Runtime& runtime, const Value& item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

// Strings in lower case; other values as they are.
Value IgnoreCase(Runtime& runtime, const Value& value);

}  // namespace sluice::text::jinja
