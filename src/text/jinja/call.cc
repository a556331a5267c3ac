// The interpreter's calls: macros, recursive loops and functions.

#include "text/jinja/arguments.h"
#include "text/jinja/depth.h"
#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

// Enters a macro or a recursive loop; leaves it and its scope when it goes out of scope.
class CallFrame {
 public:
  CallFrame(int* depth, int depth_max, std::shared_ptr<Scope>* scope)
      : depth_(depth), scope_(scope), old_(*scope) {
    if (*depth >= depth_max) Fail("macros call each other deeper than ", depth_max, " levels");
    ++*depth_;
  }
  ~CallFrame() {
    --*depth_;
    *scope_ = std::move(old_);
  }
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

 private:
  int* depth_;
  std::shared_ptr<Scope>* scope_;
  std::shared_ptr<Scope> old_;
};

}  // namespace

Value Interpreter::Call(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kFunction: {
      const FunctionObject& function = callee.As<FunctionObject>();
      return function.call(runtime_, function.self, arguments);
    }
    case Kind::kMacro:
      return CallMacro(callee.As<MacroObject>(), arguments);
    case Kind::kLoop:
      return CallLoop(callee, arguments);
    case Kind::kJoiner: {
      const Bound bound("joiner", arguments, {}, 0);
      JoinerObject& joiner = callee.As<JoinerObject>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return runtime_.String("");
    }
    case Kind::kUndefined:
      Fail(callee.undefined_message());
    default:
      Fail("'", TypeName(callee), "' object is not callable");
  }
}

Value Interpreter::MakeMacro(const MacroDefinition& definition) {
  if (captured_.empty() || captured_.back() != scope_) captured_.push_back(scope_);
  return {Kind::kMacro, std::make_shared<MacroObject>(runtime_.meter(), &definition, scope_)};
}

Value Interpreter::CallMacro(const MacroObject& macro, const Arguments& arguments) {
  // The macro may be dropped by what it does.
  const MacroDefinition& definition = *macro.definition;
  const std::shared_ptr<Scope> around = macro.scope;
  const CallFrame frame(&macro_depth_, runtime_.limits().depth_max, &scope_);
  scope_ = MakeScope(around, definition.body.hidden);
  BindMacro(definition, arguments);
  TextBuilder out(runtime_);
  Execute(definition.body.statements, &out);
  return out.Finish();
}

void Interpreter::BindMacro(const MacroDefinition& definition, const Arguments& arguments) {
  const auto& parameters = definition.parameters;
  const std::string name = definition.anonymous ? "caller" : definition.name;
  // Names are looked for one by one.
  runtime_.Step(parameters.size() * (parameters.size() + arguments.named.size()) / 16);
  std::vector<bool> used(arguments.named.size(), false);
  const auto take_named = [&](std::string_view wanted) -> const Value* {
    for (size_t i = 0; i < arguments.named.size(); ++i) {
      if (used[i] || arguments.named[i].first != wanted) continue;
      used[i] = true;
      return &arguments.named[i].second;
    }
    return nullptr;
  };
  bool has_caller_parameter = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    has_caller_parameter = has_caller_parameter || parameters[i].first == kCaller;
    if (i < arguments.positional.size()) {
      scope_->Set(parameters[i].first, arguments.positional[i]);
    } else if (const Value* value = take_named(parameters[i].second)) {
      scope_->Set(parameters[i].first, *value);
    } else {
      scope_->SetMissing(parameters[i].first);
    }
  }
  if (definition.takes_caller && !has_caller_parameter) {
    const Value* caller = take_named("caller");
    const bool given = caller != nullptr && !caller->IsNone();
    scope_->Set(kCaller, given ? *caller : runtime_.Undefined("No caller defined"));
  }
  DictBuilder rest(runtime_);
  for (size_t i = 0; i < arguments.named.size(); ++i) {
    if (used[i]) continue;
    const auto& [key, value] = arguments.named[i];
    if (!definition.takes_kwargs) {
      Fail("macro '", name, "' takes no keyword argument '", key, "'");
    }
    rest.Set(runtime_.String(key), value);
  }
  if (definition.takes_kwargs) scope_->Set(kKwargs, rest.Finish());
  const size_t given = arguments.positional.size();
  if (!definition.takes_varargs && given > parameters.size()) {
    Fail("macro '", name, "' takes not more than ", parameters.size(), " argument(s)");
  }
  if (definition.takes_varargs) {
    std::vector<Value> more;
    for (size_t i = parameters.size(); i < given; ++i) more.push_back(arguments.positional[i]);
    scope_->Set(kVarargs, runtime_.Tuple(std::move(more)));
  }
  const size_t first_default = parameters.size() - definition.defaults.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (scope_->Has(parameters[i].first)) continue;
    if (i >= first_default) {
      scope_->Set(parameters[i].first, Evaluate(*definition.defaults[i - first_default]));
    } else {
      scope_->Set(
          parameters[i].first,
          runtime_.Undefined(StrCat("parameter '", parameters[i].second, "' was not provided")));
    }
  }
}

Value Interpreter::CallLoop(const Value& loop, const Arguments& arguments) {
  const Bound bound("loop", arguments, {"iterable"}, 1);
  // The loop may be released by what its body does.
  LoopObject& object = loop.As<LoopObject>();
  if (object.recursive == nullptr || object.scope == nullptr) {
    Fail("a loop must have the 'recursive' marker to be called, and is called in its body alone");
  }
  const ForStatement& statement = *object.recursive;
  const CallFrame frame(&macro_depth_, runtime_.limits().depth_max, &scope_);
  scope_ = object.scope;
  TextBuilder out(runtime_);
  RunLoop(statement, bound[0], object.scope, object.depth0 + 1, &out);
  return out.Finish();
}

}  // namespace sluice::text::jinja
