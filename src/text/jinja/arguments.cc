#include "text/jinja/arguments.h"

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t required,
             size_t keyword_from)
    : function_(function), values_(parameters.size()) {
  if (arguments.positional.size() > parameters.size()) {
    Fail(function, "() takes at most ", parameters.size(), " arguments (",
         arguments.positional.size(), " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t place = 0;
    for (std::string_view parameter : parameters) {
      if (parameter == name && place >= keyword_from) break;
      ++place;
    }
    if (place == parameters.size()) {
      Fail(function, "() got an unexpected keyword argument '", name, "'");
    }
    if (values_[place]) Fail(function, "() got multiple values for argument '", name, "'");
    values_[place] = value;
  }
  size_t place = 0;
  for (std::string_view parameter : parameters) {
    if (place < required && !values_[place]) {
      Fail(function, "() is missing the argument '", parameter, "'");
    }
    ++place;
  }
}

int64_t Bound::Integer(size_t place, int64_t fallback) const {
  return Has(place) ? Index(*values_[place]) : fallback;
}

const std::string& Bound::Text(size_t place) const {
  const Value& value = *values_[place];
  if (!value.IsString()) Fail(function_, "() needs a str, not ", TypeName(value));
  return value.text();
}

}  // namespace sluice::text::jinja
