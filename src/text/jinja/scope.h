// The variables of a template while it renders, and the macros that see them. Names are numbered
// by the parser. Belong to one rendering and its thread.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

// One frame of variables: of the template, a loop's body, a macro's call ... A variable can be
// present without a value: a name that its frame sets later hides the one outside.
class Scope final : public Object {
 public:
  Scope(Meter* meter, std::shared_ptr<Scope> parent)
      : Object(meter, 160, 0), parent_(std::move(parent)) {}

  void Set(Name name, Value value) { Place(name) = std::move(value); }
  void SetMissing(Name name) { Place(name) = std::nullopt; }
  // SetMissing of each. REQUIRES: the scope is empty and no name comes twice
  void SetAllMissing(const std::vector<Name>& names) {
    MakeRoom(names.size());
    for (Name name : names) variables_.emplace_back(name, std::nullopt);
  }
  size_t size() const { return variables_.size(); }
  void Clear() { variables_.clear(); }
  // Whether this scope itself has a value of that name.
  bool Has(Name name) const {
    const std::optional<Value>* variable = FindHere(name);
    return variable != nullptr && variable->has_value();
  }
  // The nearest variable of that name: null if there is none, a pointer to nothing if it has no
  // value yet. `seen` counts the variables looked at.
  const std::optional<Value>* Find(Name name, size_t* seen) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      *seen += scope->variables_.size();
      if (const std::optional<Value>* variable = scope->FindHere(name)) return variable;
    }
    return nullptr;
  }

 private:
  using Variable = std::pair<Name, std::optional<Value>>;

  const std::optional<Value>* FindHere(Name name) const {
    for (const auto& [key, value] : variables_) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  std::optional<Value>& Place(Name name) {
    for (auto& [key, value] : variables_) {
      if (key == name) return value;
    }
    MakeRoom(1);
    return variables_.emplace_back(name, std::nullopt).second;
  }

  void MakeRoom(size_t more) {
    if (variables_.size() + more <= variables_.capacity()) return;
    const size_t room = std::max<size_t>({more, variables_.capacity(), 4});
    Grow(room * sizeof(Variable));
    variables_.reserve(variables_.capacity() + room);
  }

  const std::shared_ptr<Scope> parent_;
  std::vector<Variable> variables_;
};

struct MacroObject final : Object {
  MacroObject(Meter* meter, const Statement* definition_in, std::shared_ptr<Scope> scope_in)
      : Object(meter, 128, 1), definition(definition_in), scope(std::move(scope_in)) {}
  const Statement* const definition;   // owned by the template; kMacro or kCallBlock
  const std::shared_ptr<Scope> scope;  // where it was defined
};

}  // namespace sluice::text::jinja
