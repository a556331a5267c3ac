#include "text/jinja/builtins.h"

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

// The names that are not empty, with commas.
template <class Rows, class NameOf>
std::string Listed(const Rows& rows, NameOf name_of) {
  std::string names;
  for (const auto& row : rows) {
    const std::string_view name = name_of(row);
    if (!name.empty()) names += StrCat(names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "none" : names;
}

std::string MayUse(const Builtin& builtin) {
  return StrCat("; chat templates may use ", Listed(builtin.parameters, std::identity()));
}

}  // namespace

Bound::Bound(const Builtin& builtin, const Arguments& arguments)
    : builtin_(builtin), arguments_(arguments) {
  if (builtin.required == kAnyArguments) return;
  size_t parameters = 0;
  while (parameters < kParametersMax && !builtin.parameters[parameters].empty()) ++parameters;
  if (arguments.positional.size() > parameters) {
    Fail(builtin.name, "() got ", arguments.positional.size(), " arguments, of which ",
         arguments.positional.size() - parameters, " is not supported", MayUse(builtin));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* const end = builtin.parameters.data() + parameters;
    const auto* const found = std::find(builtin.parameters.data(), end, name);
    if (found == end) {
      Fail(builtin.name, "() got the argument '", name, "', which is not supported",
           MayUse(builtin));
    }
    const size_t place = static_cast<size_t>(found - builtin.parameters.data());
    if (Has(place)) Fail(builtin.name, "() got multiple values for argument '", name, "'");
    values_[place] = &value;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!Has(i)) Fail(builtin.name, "() is missing the argument '", builtin.parameters[i], "'");
  }
}

int64_t Bound::Integer(size_t place, int64_t fallback) const {
  return Has(place) ? Index(*values_[place]) : fallback;
}

const std::string& Bound::Text(size_t place) const {
  const Value& value = *values_[place];
  if (!value.IsString()) Fail(builtin_.name, "() needs a str, not ", TypeName(value));
  return value.text();
}

const Builtin* Find(Builtins table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<const Builtin*> Filters() {
  std::vector<const Builtin*> all;
  for (const Builtins part : {TextFilters(), SequenceFilters()}) {
    for (const Builtin& builtin : part) all.push_back(&builtin);
  }
  std::sort(all.begin(), all.end(),
            [](const Builtin* a, const Builtin* b) { return a->name < b->name; });
  return all;
}

const Builtin* FindFilter(std::string_view name) {
  const Builtin* found = Find(TextFilters(), name);
  return found != nullptr ? found : Find(SequenceFilters(), name);
}

const Builtin* FindTest(std::string_view name) { return Find(Tests(), name); }

std::string NotSupported(std::string_view what, std::string_view name, std::string_view usable) {
  return StrCat("the ", what, " '", Utf8Prefix(name, kQuotedBytesMax),
                "' is not supported; chat templates may use ", usable);
}

std::string NotSupported(std::string_view what, std::string_view name, Builtins usable) {
  return NotSupported(what, name, Listed(usable, std::mem_fn(&Builtin::name)));
}

std::string NoSuchFilter(std::string_view name) {
  return NotSupported("filter", name, Listed(Filters(), std::mem_fn(&Builtin::name)));
}

std::string NoSuchTest(std::string_view name) { return NotSupported("test", name, Tests()); }

}  // namespace sluice::text::jinja
