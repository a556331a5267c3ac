#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_parts.h"

namespace sluice::text::jinja {
namespace {

// Both have __int__-like values; ints compare exactly, also with floats of any size.
int CompareNumbers(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  const double x = a.AsDouble();
  const double y = b.AsDouble();
  return x < y ? -1 : x > y ? 1 : 0;
}

bool EqualNumbers(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return a.integer() == b.integer();
  return a.AsDouble() == b.AsDouble();
}

// What Python's containers take for equal without asking: the same object.
bool SameObject(const Value& a, const Value& b) {
  return a.object() != nullptr && a.object() == b.object();
}

bool EqualItems(Runtime& runtime, const Value& a, const Value& b) {
  if (a.items().size() != b.items().size()) return false;
  runtime.Step(a.items().size() / 16);
  for (size_t i = 0; i < a.items().size(); ++i) {
    const Value& x = a.items()[i];
    const Value& y = b.items()[i];
    if (!SameObject(x, y) && !Equal(runtime, x, y)) return false;
  }
  return true;
}

bool EqualDicts(Runtime& runtime, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  runtime.Step(a.entries.size());
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(runtime, key);
    if (other == nullptr) return false;
    if (!SameObject(value, *other) && !Equal(runtime, value, *other)) return false;
  }
  return true;
}

bool EqualRanges(const RangeObject& a, const RangeObject& b) {
  if (a.size != b.size) return false;
  if (a.size == 0) return true;
  return a.start == b.start && (a.size == 1 || a.step == b.step);
}

bool EqualKeys(Runtime& runtime, const Value& a, const Value& b) {
  const DictObject& x = a.As<ViewObject>().dict.dict();
  const DictObject& y = b.As<ViewObject>().dict.dict();
  if (a.As<ViewObject>().what != b.As<ViewObject>().what) return false;
  if (a.As<ViewObject>().what == ViewKind::kItems) return EqualDicts(runtime, x, y);
  if (a.As<ViewObject>().what == ViewKind::kValues || x.entries.size() != y.entries.size()) {
    return false;
  }
  runtime.Step(x.entries.size());
  for (const auto& entry : x.entries) {
    if (y.Find(runtime, entry.first) == nullptr) return false;
  }
  return true;
}

[[noreturn]] void NoOrder(std::string_view symbol, const Value& a, const Value& b) {
  if (a.IsUndefined()) Fail(a.undefined_message());
  if (b.IsUndefined()) Fail(b.undefined_message());
  Fail("'", symbol, "' is not supported between '", TypeName(a), "' and '", TypeName(b), "'");
}

bool ContainsItem(Runtime& runtime, const std::vector<Value>& items, const Value& item) {
  for (const Value& candidate : items) {
    runtime.Step();
    if (SameObject(candidate, item) || Equal(runtime, candidate, item)) return true;
  }
  return false;
}

bool ViewContains(Runtime& runtime, const ViewObject& view, const Value& item) {
  const DictObject& dict = view.dict.dict();
  if (view.what == ViewKind::kKeys) return dict.Find(runtime, item) != nullptr;
  if (view.what == ViewKind::kItems) {
    if (!item.Is(Kind::kTuple) || item.items().size() != 2) return false;
    const Value* value = dict.Find(runtime, item.items()[0]);
    return value != nullptr && Equal(runtime, *value, item.items()[1]);
  }
  for (const auto& entry : dict.entries) {
    if (Equal(runtime, entry.second, item)) return true;
  }
  return false;
}

bool RangeContains(const RangeObject& range, const Value& item) {
  Int wanted = 0;
  if (item.IsIntegral()) {
    wanted = item.integer();
  } else if (item.Is(Kind::kFloat) && item.real() == std::floor(item.real()) &&
             std::fabs(item.real()) < 9e18) {
    wanted = static_cast<Int>(item.real());
  } else {
    return false;
  }
  if (range.size == 0) return false;
  const Int offset = wanted - range.start;
  if (offset % range.step != 0) return false;
  const Int place = offset / range.step;
  return place >= 0 && place < range.size;
}

}  // namespace

bool Identical(Runtime& runtime, const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return a.integer() == b.integer();
    case Kind::kFloat:
      return a.real() == b.real();
    case Kind::kString:
      if (a.object() == b.object()) return true;
      runtime.Work(std::min(a.text().size(), b.text().size()));
      return a.text() == b.text() && a.markup() == b.markup();
    default:
      return a.object() == b.object();
  }
}

bool Equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.Step();
  if (a.IsNumber() && b.IsNumber()) return EqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (a.text().size() == b.text().size()) runtime.Work(a.text().size());
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return EqualItems(runtime, a, b);
    case Kind::kDict:
      return EqualDicts(runtime, a.dict(), b.dict());
    case Kind::kRange:
      return EqualRanges(a.As<RangeObject>(), b.As<RangeObject>());
    case Kind::kView:
      return EqualKeys(runtime, a, b);
    default:
      return Identical(runtime, a, b);
  }
}

bool Less(Runtime& runtime, const Value& a, const Value& b, std::string_view symbol) {
  runtime.Step();
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(a, b) < 0;
  if (a.IsString() && b.IsString()) {
    runtime.Work(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();
  }
  if (!a.IsSequence() || a.kind() != b.kind()) NoOrder(symbol, a, b);
  const size_t common = std::min(a.items().size(), b.items().size());
  runtime.Step(common / 16);
  for (size_t i = 0; i < common; ++i) {
    const Value& x = a.items()[i];
    const Value& y = b.items()[i];
    if (!SameObject(x, y) && !Equal(runtime, x, y)) return Less(runtime, x, y, symbol);
  }
  return a.items().size() < b.items().size();
}

bool LessOrEqual(Runtime& runtime, const Value& a, const Value& b, std::string_view symbol) {
  if (a.IsNumber() && b.IsNumber()) {
    return CompareNumbers(a, b) < 0 || EqualNumbers(a, b);
  }
  if (Less(runtime, a, b, symbol)) return true;
  return Equal(runtime, a, b);
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.IsString()) {
        Fail("'in <string>' requires string as left operand, not ", TypeName(item));
      }
      runtime.Work(container.text().size());
      return FindIn(container.text(), item.text()) != std::string::npos;
    case Kind::kList:
    case Kind::kTuple:
      return ContainsItem(runtime, container.items(), item);
    case Kind::kDict:
      return container.dict().Find(runtime, item) != nullptr;
    case Kind::kView:
      return ViewContains(runtime, container.As<ViewObject>(), item);
    case Kind::kRange:
      return RangeContains(container.As<RangeObject>(), item);
    case Kind::kUndefined:
      return false;
    case Kind::kIterator: {
      Value candidate;
      while (container.As<Iterator>().Next(runtime, &candidate)) {
        if (Equal(runtime, candidate, item)) return true;
      }
      return false;
    }
    default:
      Fail("argument of type '", TypeName(container), "' is not iterable");
  }
}

bool IsHashable(Runtime& runtime, const Value& value) {
  runtime.Step();
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
      return false;
    case Kind::kView:
      return value.As<ViewObject>().what == ViewKind::kValues;
    case Kind::kTuple:
      return std::all_of(value.items().begin(), value.items().end(),
                         [&runtime](const Value& item) { return IsHashable(runtime, item); });
    default:
      return true;
  }
}

void CheckHashable(Runtime& runtime, const Value& value) {
  if (!IsHashable(runtime, value)) Fail("unhashable type: '", TypeName(value), "'");
}

size_t Hash(Runtime& runtime, const Value& value) {
  runtime.Step();
  switch (value.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return std::hash<double>()(value.AsDouble());
    case Kind::kString:
      runtime.Work(value.text().size());
      return std::hash<std::string>()(value.text());
    case Kind::kTuple: {
      size_t hash = value.items().size();
      for (const Value& item : value.items()) hash = hash * 1000003 + Hash(runtime, item);
      return hash;
    }
    case Kind::kNone:
    case Kind::kUndefined:
    case Kind::kRange:
    case Kind::kView:
      return static_cast<size_t>(value.kind());
    default:
      return std::hash<Object*>()(value.object().get());
  }
}

}  // namespace sluice::text::jinja
