// The functions that every template sees.

#include <locale.h>
#include <algorithm>
#include <clocale>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

// As in Jinja's sandbox.
constexpr int64_t kRangeMax = 100000;

Value Range(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1, kPositionalOnly);
  const int64_t step = bound.Integer(2, 1);
  const int64_t start = bound.Has(1) ? bound.Integer(0, 0) : 0;
  const int64_t stop = bound.Has(1) ? bound.Integer(1, 0) : bound.Integer(0, 0);
  if (step == 0) Fail("range() needs a step other than zero");
  Value range = runtime.Range(start, stop, step);
  if (range.As<RangeObject>().size > kRangeMax) {
    Fail("a range has more than ", kRangeMax, " items");
  }
  return range;
}

// dict(mapping or pairs, **named)
Value MakeDict(Runtime& runtime, std::string_view function, const Arguments& arguments) {
  if (arguments.positional.size() > 1) Fail(function, "() takes at most one positional argument");
  DictBuilder out(runtime);
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.Is(Kind::kDict)) {
      for (const auto& [key, value] : source.dict().entries) out.Set(key, value);
    } else {
      std::shared_ptr<Iterator> iterator = Iterate(runtime, source);
      Value item;
      while (iterator->Next(runtime, &item)) {
        const std::vector<Value> pair = Collect(runtime, item);
        if (pair.size() != 2) Fail(function, "() needs pairs of key and value");
        out.Set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) out.Set(runtime.String(name), value);
  return out.Finish();
}

Value Dict(Runtime& runtime, const Value&, const Arguments& arguments) {
  return MakeDict(runtime, "dict", arguments);
}

Value Namespace(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Value attributes = MakeDict(runtime, "namespace", arguments);
  Value space = runtime.Namespace();
  for (const auto& [key, value] : attributes.dict().entries) {
    if (!key.IsString()) continue;
    if (key.text().substr(0, 1) == "_") {
      Fail("a namespace cannot hold '", key.text(), "', which starts with an underscore");
    }
    space.As<NamespaceObject>().Add(key.text(), value);
  }
  return space;
}

Value Cycler(Runtime& runtime, const Value&, const Arguments& arguments) {
  if (!arguments.named.empty()) Fail("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) Fail("cycler() needs at least one item");
  return {Kind::kCycler,
          std::make_shared<CyclerObject>(runtime.meter(), runtime.Tuple(arguments.positional))};
}

Value Joiner(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"}, 0);
  return {Kind::kJoiner,
          std::make_shared<JoinerObject>(runtime.meter(), bound.Or(0, Value::Constant(", ")))};
}

Value Lipsum(Runtime&, const Value&, const Arguments&) {
  Fail("lipsum() is random and not supported");
}

Value RaiseException(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
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

Value StrftimeNow(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string& given = bound.Text(0);
  constexpr size_t kFormatMax = 4096;
  constexpr size_t kResultMax = 64 * 1024;
  if (given.size() > kFormatMax) Fail("strftime_now() got a format over ", kFormatMax, " bytes");
  if (given.find('\0') != std::string::npos) Fail("strftime_now() got an embedded null character");
  // A directive's work is that of touching some hundred bytes; it may be tried four times.
  runtime.Work(given.size() * 256);
  const Moment now = runtime.now();
  // A character at the end tells an empty result from one that does not fit.
  const std::string format = ExpandFormat(given, now.microseconds) + "|";
  static const locale_t kLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string result(256, '\0');
  while (true) {
    const size_t size =
        strftime_l(result.data(), result.size(), format.c_str(), &now.time, kLocale);
    if (size > 0) {
      result.resize(size - 1);
      return runtime.String(std::move(result));
    }
    if (result.size() >= kResultMax) {
      Fail("strftime_now() would give more than ", kResultMax, " bytes");
    }
    result.resize(result.size() * 4);
  }
}

constexpr Method kGlobals[] = {
    {"range", Range},
    {"dict", Dict},
    {"namespace", Namespace},
    {"cycler", Cycler},
    {"joiner", Joiner},
    {"lipsum", Lipsum},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
};

}  // namespace

std::span<const Method> Globals() { return kGlobals; }

const Method* FindGlobal(std::string_view name) {
  const auto found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                  [name](const Method& method) { return method.name == name; });
  return found == std::end(kGlobals) ? nullptr : found;
}

}  // namespace sluice::text::jinja
