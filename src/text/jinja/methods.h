// The methods of Python's built-in types that a template may call, by name. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct Method {
  std::string_view name;
  Function call;
};

// The tables of all types' methods and of the global functions.
std::span<const Method> StringMethods();
std::span<const Method> ListMethods();  // of list, tuple and range
std::span<const Method> DictMethods();
std::span<const Method> NumberMethods();
std::span<const Method> CyclerMethods();
std::span<const Method> LoopMethods();
std::span<const Method> Globals();

// Null if the type has no such method.
const Method* FindStringMethod(std::string_view name);
const Method* FindListMethod(std::string_view name);  // of list, tuple and range
const Method* FindDictMethod(std::string_view name);
const Method* FindNumberMethod(std::string_view name);
const Method* FindCyclerMethod(std::string_view name);
const Method* FindLoopMethod(std::string_view name);

// The functions that every template sees: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now. Null for other names.
const Method* FindGlobal(std::string_view name);
// dict.fromkeys of the global `dict`.
const Method* FindGlobalDictMethod(std::string_view name);

}  // namespace sluice::text::jinja
