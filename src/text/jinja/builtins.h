// What a template may call by name: filters, tests, methods and functions are rows of the same kind
// of table. Any thread; a call belongs to one rendering. They throw Failure where Jinja raises.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

constexpr size_t kParametersMax = 5;
// Of a function that takes what it is given and looks at it itself.
constexpr size_t kAnyArguments = ~size_t{0};

// The arguments of one call, in the places of the parameters. It points at them.
class Bound {
 public:
  // Throws Failure for too many arguments, an unknown name, a parameter given twice, or a missing
  // one.
  Bound(const Builtin& builtin, const Arguments& arguments);

  bool Has(size_t place) const { return values_[place] != nullptr; }
  // REQUIRES: Has(place)
  const Value& operator[](size_t place) const { return *values_[place]; }
  Value Or(size_t place, const Value& fallback) const {
    return Has(place) ? *values_[place] : fallback;
  }
  bool IsNoneOrAbsent(size_t place) const { return !Has(place) || values_[place]->IsNone(); }
  bool Flag(size_t place, bool fallback) const {
    return Has(place) ? Truthy(*values_[place]) : fallback;
  }
  // An int; throws Failure for other types.
  int64_t Integer(size_t place, int64_t fallback) const;
  // A str; throws Failure for other types. REQUIRES: Has(place)
  const std::string& Text(size_t place) const;
  // All arguments as they were given.
  const Arguments& all() const { return arguments_; }

 private:
  const Builtin& builtin_;
  const Arguments& arguments_;
  std::array<const Value*, kParametersMax> values_{};
};

struct Builtin {
  std::string_view name;
  // `self` is what a filter or a test is applied to, or the object that has the method.
  Value (*run)(Runtime& runtime, const Value& self, const Bound& bound);
  std::array<std::string_view, kParametersMax> parameters = {};
  size_t required = 0;  // of the parameters, from the first; or kAnyArguments

  Value Call(Runtime& runtime, const Value& self, const Arguments& arguments) const {
    return run(runtime, self, Bound(*this, arguments));
  }
};

using Builtins = std::span<const Builtin>;
Builtins TextFilters();
Builtins SequenceFilters();
Builtins Tests();
Builtins StringMethods();
Builtins ListMethods();  // of list, tuple and range
Builtins DictMethods();
inline Builtins NoMethods() { return {}; }
Builtins Globals();
std::vector<const Builtin*> Filters();  // all of them, by name

// Null if there is none of that name.
const Builtin* Find(Builtins table, std::string_view name);
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);

// The sentences for a name that no table has: what it is, and what templates may use.
std::string NoSuchFilter(std::string_view name);
std::string NoSuchTest(std::string_view name);
std::string NotSupported(std::string_view what, std::string_view name, std::string_view usable);
std::string NotSupported(std::string_view what, std::string_view name, Builtins usable);

// json.dumps(value, ensure_ascii, indent, separators, sort_keys) as transformers defines tojson.
Value ToJson(Runtime& runtime, const Value& self, const Bound& bound);

}  // namespace sluice::text::jinja
