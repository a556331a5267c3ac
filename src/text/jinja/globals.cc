// The functions that every template sees, and the methods of containers.

#include <locale.h>
#include <clocale>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

// As in Jinja's sandbox.
constexpr int64_t kRangeMax = 100000;

Value Range(Runtime& runtime, const Value&, const Bound& bound) {
  const int64_t step = bound.Integer(2, 1);
  const int64_t start = bound.Has(1) ? bound.Integer(0, 0) : 0;
  const int64_t stop = bound.Has(1) ? bound.Integer(1, 0) : bound.Integer(0, 0);
  if (step == 0) Fail("range() needs a step other than zero");
  Value range = runtime.Range(start, stop, step);
  if (LengthOf(range) > kRangeMax) Fail("a range has more than ", kRangeMax, " items");
  return range;
}

// dict(mapping or pairs, **named); so is namespace called.
Value Dict(Runtime& runtime, const Value&, const Bound& bound) {
  const Arguments& arguments = bound.all();
  if (arguments.positional.size() > 1) Fail("dict() takes at most one positional argument");
  DictBuilder out(runtime);
  if (!arguments.positional.empty() && arguments.positional[0].Is(Kind::kDict)) {
    for (const auto& [key, value] : arguments.positional[0].dict().entries) out.Set(key, value);
  } else if (!arguments.positional.empty()) {
    for (const Value& item : Collect(runtime, arguments.positional[0])) {
      const std::vector<Value> pair = Collect(runtime, item);
      if (pair.size() != 2) Fail("dict() needs pairs of key and value");
      out.Set(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) out.Set(runtime.String(name), value);
  return out.Finish();
}

Value Namespace(Runtime& runtime, const Value&, const Bound& bound) {
  const Value attributes = Dict(runtime, Value(), bound);
  Value space = runtime.Namespace();
  for (const auto& [key, value] : attributes.dict().entries) {
    if (key.IsString()) space.As<NamespaceObject>().Add(key.text(), value);
  }
  return space;
}

Value RaiseException(Runtime& runtime, const Value&, const Bound& bound) {
  throw Failure{ToString(runtime, bound[0]), true};
}

// Python's strftime leaves the C library's work to it, except for these: a naive time has no zone,
// and %f is microseconds.
std::string ExpandFormat(const std::string& format, int microseconds) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.push_back(format[i]);
      continue;
    }
    if (++i == format.size()) {
      out += "%%";
    } else if (format[i] == 'f') {
      char digits[16];
      std::snprintf(digits, sizeof digits, "%06d", microseconds);
      out += digits;
    } else if (format[i] != 'z' && format[i] != 'Z') {
      out.push_back('%');
      out.push_back(format[i]);
    }
  }
  return out;
}

Value StrftimeNow(Runtime& runtime, const Value&, const Bound& bound) {
  const std::string& given = bound.Text(0);
  constexpr size_t kFormatMax = 4096;
  constexpr size_t kResultMax = 64 * 1024;
  if (given.size() > kFormatMax) Fail("strftime_now() got a format over ", kFormatMax, " bytes");
  if (given.find('\0') != std::string::npos) Fail("strftime_now() got an embedded null character");
  // A directive's work is that of touching some hundred bytes; the result is as long.
  runtime.Work(given.size() * 256);
  const Moment now = runtime.now();
  // A character at the end tells an empty result from one that does not fit.
  const std::string format = ExpandFormat(given, now.microseconds) + "|";
  static const locale_t kLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string result(kResultMax, '\0');
  const size_t size = strftime_l(result.data(), result.size(), format.c_str(), &now.time, kLocale);
  if (size == 0) Fail("strftime_now() would give more than ", kResultMax, " bytes");
  return runtime.String(result.substr(0, size - 1));
}

// ---- Methods of lists, tuples and ranges, and of dicts

Value ListCount(Runtime& runtime, const Value& self, const Bound& bound) {
  Int count = 0;
  for (const Value& item : Collect(runtime, self)) {
    if (Equal(runtime, item, bound[0])) ++count;
  }
  return Value::Integer(count);
}

Value ListIndex(Runtime& runtime, const Value& self, const Bound& bound) {
  Int place = 0;
  for (const Value& item : Collect(runtime, self)) {
    if (Equal(runtime, item, bound[0])) return Value::Integer(place);
    ++place;
  }
  Fail(Utf8Prefix(Repr(runtime, bound[0]), kQuotedBytesMax), " is not in the ", TypeName(self));
}

Value DictGet(Runtime& runtime, const Value& self, const Bound& bound) {
  const Value* value = self.dict().Find(runtime, bound[0]);
  return value != nullptr ? *value : bound.Or(1, Value());
}

template <ViewKind what>
Value DictView(Runtime& runtime, const Value& self, const Bound&) {
  return runtime.View(self, what);
}

constexpr Builtin kGlobals[] = {
    {"range", Range, {"start", "stop", "step"}, 1},
    {"dict", Dict, {}, kAnyArguments},
    {"namespace", Namespace, {}, kAnyArguments},
    {"raise_exception", RaiseException, {"message"}, 1},
    {"strftime_now", StrftimeNow, {"format"}, 1},
};

constexpr Builtin kListMethods[] = {
    {"count", ListCount, {"value"}, 1},
    {"index", ListIndex, {"value"}, 1},
};

constexpr Builtin kDictMethods[] = {
    {"get", DictGet, {"key", "default"}, 1},
    {"items", DictView<ViewKind::kItems>},
    {"keys", DictView<ViewKind::kKeys>},
    {"values", DictView<ViewKind::kValues>},
};

}  // namespace

Builtins Globals() { return kGlobals; }
Builtins ListMethods() { return kListMethods; }
Builtins DictMethods() { return kDictMethods; }

}  // namespace sluice::text::jinja
