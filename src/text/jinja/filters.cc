#include "text/jinja/filters.h"

#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {

const std::map<std::string_view, const FilterEntry*>& Filters() {
  static const auto* const kFilters = [] {
    auto* all = new std::map<std::string_view, const FilterEntry*>;
    for (auto part : {TextFilters(), NumberFilters(), SequenceFilters(), LazyFilters()}) {
      for (const FilterEntry& entry : part) all->emplace(entry.name, &entry);
    }
    return all;
  }();
  return *kFilters;
}

const FilterEntry* FindFilter(std::string_view name) {
  const auto found = Filters().find(name);
  return found == Filters().end() ? nullptr : found->second;
}

AttributeGetter::AttributeGetter(Runtime& runtime, const Value& attribute) {
  if (attribute.IsNone()) return;
  if (!attribute.IsString()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& text = attribute.text();
  runtime.Work(text.size() * 16);
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('.', start), text.size());
    std::string part = text.substr(start, end - start);
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    runtime.Step();
    parts_.push_back(is_index ? Value::Integer(ParseInteger(part, 10).value_or(0))
                              : runtime.String(std::move(part)));
    start = end + 1;
  }
}

Value AttributeGetter::Get(Runtime& runtime, const Value& item, const Value* fallback) const {
  Value value = item;
  runtime.Step(parts_.size());
  for (const Value& part : parts_) {
    value = GetItem(runtime, value, part);
    if (fallback != nullptr && value.IsUndefined()) value = *fallback;
  }
  return value;
}

Value IgnoreCase(Runtime& runtime, const Value& value) {
  if (!value.IsString()) return value;
  runtime.Work(value.text().size() * 8);
  return runtime.String(ToLower(value.text()), value.markup());
}

}  // namespace sluice::text::jinja
