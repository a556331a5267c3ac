// Binds the arguments of a call to parameter names as Python does. For one rendering's thread.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

class Bound {
 public:
  // Throws Failure for too many arguments, an unknown name, a parameter given twice, or one of the
  // first `required` parameters missing. Parameters from `keyword_from` on may be named.
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, size_t required,
        size_t keyword_from = 0);

  bool Has(size_t place) const { return values_[place].has_value(); }
  // REQUIRES: Has(place)
  const Value& operator[](size_t place) const { return *values_[place]; }
  Value Or(size_t place, Value fallback) const {
    return Has(place) ? *values_[place] : std::move(fallback);
  }
  bool IsNoneOrAbsent(size_t place) const { return !Has(place) || values_[place]->IsNone(); }
  bool Flag(size_t place, bool fallback) const {
    return Has(place) ? Truthy(*values_[place]) : fallback;
  }
  // An int; throws Failure for other types.
  int64_t Integer(size_t place, int64_t fallback) const;
  // A str; throws Failure for other types. REQUIRES: Has(place)
  const std::string& Text(size_t place) const;

 private:
  std::string_view function_;
  std::vector<std::optional<Value>> values_;
};

// For functions that take positional arguments alone.
constexpr size_t kPositionalOnly = 1000;

}  // namespace sluice::text::jinja
