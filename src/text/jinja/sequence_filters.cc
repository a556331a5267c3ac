// Filters over sequences and mappings that give a value at once.

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

Value Default(Runtime&, const Value& subject, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"}, 0);
  if (subject.IsUndefined() || (bound.Flag(1, false) && !Truthy(subject))) {
    return bound.Or(0, Value::Constant(""));
  }
  return subject;
}

Value LengthFilter(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("length", arguments, {}, 0);
  return Value::Integer(LengthOf(subject));
}

Value First(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("first", arguments, {}, 0);
  Value item;
  if (Iterate(runtime, subject)->Next(runtime, &item)) return item;
  return runtime.Undefined("No first item, sequence was empty.");
}

Value Last(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("last", arguments, {}, 0);
  if (subject.Is(Kind::kIterator) || !Length(subject)) {
    Fail("'", TypeName(subject), "' object is not reversible");
  }
  if (*Length(subject) == 0) return runtime.Undefined("No last item, sequence was empty.");
  if (subject.IsString() || subject.IsSequence() || subject.Is(Kind::kRange)) {
    return *FindItem(runtime, subject, Value::Integer(-1));
  }
  return Collect(runtime, subject).back();
}

Value ListFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("list", arguments, {}, 0);
  return runtime.List(Collect(runtime, subject));
}

Value Join(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"}, 0);
  const std::string delimiter = bound.Has(0) ? ToString(runtime, bound[0]) : "";
  const AttributeGetter getter(runtime, bound.Or(1, Value()));
  std::shared_ptr<Iterator> iterator = Iterate(runtime, subject);
  TextBuilder out(runtime);
  Value item;
  bool first = true;
  while (iterator->Next(runtime, &item)) {
    if (!first) out.Append(delimiter);
    first = false;
    item = getter.Get(runtime, item);
    if (item.IsString()) {
      out.Append(item.text());
    } else {
      out.Append(ToString(runtime, item));
    }
  }
  return out.Finish();
}

Value Reverse(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("reverse", arguments, {}, 0);
  if (subject.IsString()) {
    return Slice(runtime, subject, Value(), Value(), Value::Integer(-1));
  }
  if (!IsIterable(subject)) Fail("argument must be iterable");
  Value items = subject.IsSequence() ? subject : runtime.List(Collect(runtime, subject));
  // What Python can reverse becomes a lazy sequence; a generator becomes a list.
  if (!subject.Is(Kind::kIterator)) {
    return {Kind::kIterator, std::make_shared<SequenceIterator>(runtime, items, true)};
  }
  return Slice(runtime, items, Value(), Value(), Value::Integer(-1));
}

// ---- Sorting

// Lists of keys in Python's order.
bool KeysLess(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!Equal(runtime, a[i], b[i])) return Less(runtime, a[i], b[i]);
  }
  return a.size() < b.size();
}

struct Keyed {
  std::vector<Value> keys;
  Value item;
};

void SortKeyed(Runtime& runtime, std::vector<Keyed>* items, bool reverse) {
  std::stable_sort(items->begin(), items->end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? KeysLess(runtime, b.keys, a.keys) : KeysLess(runtime, a.keys, b.keys);
  });
}

Value Unkey(Runtime& runtime, std::vector<Keyed> items) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (Keyed& keyed : items) out.push_back(std::move(keyed.item));
  return runtime.List(std::move(out));
}

Value Sort(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  const bool case_sensitive = bound.Flag(1, false);
  std::vector<AttributeGetter> getters;
  const Value attribute = bound.Or(2, Value());
  if (attribute.IsString()) {
    const std::string& text = attribute.text();
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find(',', start), text.size());
      getters.emplace_back(runtime, runtime.String(text.substr(start, end - start)));
      start = end + 1;
    }
  } else {
    getters.emplace_back(runtime, attribute);
  }
  std::vector<Keyed> keyed;
  for (Value& item : Collect(runtime, subject)) {
    Keyed entry;
    for (const AttributeGetter& getter : getters) {
      Value key = getter.Get(runtime, item);
      entry.keys.push_back(case_sensitive ? key : IgnoreCase(runtime, key));
    }
    entry.item = std::move(item);
    keyed.push_back(std::move(entry));
  }
  SortKeyed(runtime, &keyed, bound.Flag(0, false));
  return Unkey(runtime, std::move(keyed));
}

Value DictSort(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  const bool case_sensitive = bound.Flag(0, false);
  const std::string by = bound.Has(1) && bound[1].IsString() ? bound.Text(1) : "key";
  if ((bound.Has(1) && !bound[1].IsString()) || (by != "key" && by != "value")) {
    Fail("dictsort sorts by \"key\" or \"value\"");
  }
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (!subject.Is(Kind::kDict)) Fail("dictsort needs a dict, not ", TypeName(subject));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : subject.dict().entries) {
    const Value& chosen = by == "key" ? key : value;
    keyed.push_back(
        {{case_sensitive ? chosen : IgnoreCase(runtime, chosen)}, runtime.Tuple({key, value})});
  }
  SortKeyed(runtime, &keyed, bound.Flag(2, false));
  return Unkey(runtime, std::move(keyed));
}

template <bool largest>
Value Extreme(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"}, 0);
  const bool case_sensitive = bound.Flag(0, false);
  const AttributeGetter getter(runtime, bound.Or(1, Value()));
  std::shared_ptr<Iterator> iterator = Iterate(runtime, subject);
  Value item;
  Value best;
  Value best_key;
  bool found = false;
  while (iterator->Next(runtime, &item)) {
    Value key = getter.Get(runtime, item);
    if (!case_sensitive) key = IgnoreCase(runtime, key);
    if (found && !(largest ? Less(runtime, best_key, key, ">") : Less(runtime, key, best_key))) {
      continue;
    }
    found = true;
    best = item;
    best_key = std::move(key);
  }
  if (!found) return runtime.Undefined("No aggregated item, sequence was empty.");
  return best;
}

Value GroupBy(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.Flag(2, false);
  const AttributeGetter getter(runtime, bound[0]);
  const Value fallback = bound.Or(1, Value());
  const Value* default_value = bound.IsNoneOrAbsent(1) ? nullptr : &fallback;
  std::vector<Keyed> keyed;
  for (Value& item : Collect(runtime, subject)) {
    Value key = getter.Get(runtime, item, default_value);
    keyed.push_back({{case_sensitive ? key : IgnoreCase(runtime, key)}, std::move(item)});
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return Less(runtime, a.keys[0], b.keys[0]);
  });
  std::vector<Value> groups;
  for (size_t start = 0; start < keyed.size();) {
    std::vector<Value> members;
    size_t end = start;
    while (end < keyed.size() && Equal(runtime, keyed[end].keys[0], keyed[start].keys[0])) {
      members.push_back(keyed[end++].item);
    }
    if (end == start) members.push_back(keyed[end++].item);  // NaN is not equal to itself
    const Value key = case_sensitive ? keyed[start].keys[0]
                                     : getter.Get(runtime, keyed[start].item, default_value);
    groups.push_back(runtime.Tuple({key, runtime.List(std::move(members))}, true));
    start = end;
  }
  return runtime.List(std::move(groups));
}

Value Sum(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"}, 0);
  const AttributeGetter getter(runtime, bound.Or(0, Value()));
  Value total = bound.Or(1, Value::Integer(0));
  if (total.IsString()) Fail("sum cannot add strings; use join");
  std::shared_ptr<Iterator> iterator = Iterate(runtime, subject);
  Value item;
  while (iterator->Next(runtime, &item)) {
    total = Binary(runtime, BinaryOp::kAdd, total, getter.Get(runtime, item));
  }
  return total;
}

Value Attr(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  const std::string& name = bound.Text(0);
  if (std::optional<Value> value = FindAttribute(runtime, subject, name)) return *value;
  return runtime.Undefined(StrCat("'", TypeName(subject), " object' has no attribute '",
                                  Utf8Prefix(name, kQuotedBytesMax), "'"));
}

constexpr FilterEntry kFilters[] = {
    {"attr", Attr},          {"count", LengthFilter},  {"d", Default},       {"default", Default},
    {"dictsort", DictSort},  {"first", First},         {"groupby", GroupBy}, {"join", Join},
    {"last", Last},          {"length", LengthFilter}, {"list", ListFilter}, {"max", Extreme<true>},
    {"min", Extreme<false>}, {"reverse", Reverse},     {"sort", Sort},       {"sum", Sum},
};

}  // namespace

std::span<const FilterEntry> SequenceFilters() { return kFilters; }

}  // namespace sluice::text::jinja
