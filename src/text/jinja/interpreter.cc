#include "text/jinja/interpreter.h"

#include <algorithm>
#include <unordered_map>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/restore.h"
#include "text/jinja/scope.h"

namespace sluice::text::jinja {
namespace {

// Walks a template's statements and expressions. One per rendering.
class Interpreter {
 public:
  Interpreter(const ParsedTemplate& parsed, Runtime& runtime)
      : parsed_(parsed), runtime_(runtime) {}
  ~Interpreter() {
    for (const auto& scope : captured_) scope->Clear();
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string Render(const OrderedJson& context) {
    for (const auto& [name, value] : context.items()) context_[name] = FromJson(value);
    scope_ = MakeScope(nullptr, parsed_.body.hidden);
    TextBuilder out(runtime_);
    Execute(parsed_.body.statements, &out);
    return out.Take();
  }

 private:
  // How a statement ended.
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // The depth of recursion one deeper, to be restored: the bound on how deep an Interpreter
  // recurses, whatever the template does, by nested statements, expressions and macro calls
  // together.
  int Deeper() const {
    // Each macro call of a deep recursion goes through a few statements and expressions.
    constexpr int kLevelsPerCall = 16;
    const int depth_max = runtime_.limits().depth_max * kLevelsPerCall;
    if (depth_ >= depth_max) Fail("the template nests deeper than ", depth_max, " levels");
    return depth_ + 1;
  }

  // ---- Statements; they append to `out`

  Value FromJson(const OrderedJson& json) {
    const Restore<int> depth(&depth_, Deeper());
    switch (json.type()) {
      case OrderedJson::value_t::boolean:
        return Value::Bool(json.get<bool>());
      case OrderedJson::value_t::number_integer:
        return Value::Integer(json.get<int64_t>());
      case OrderedJson::value_t::number_unsigned:
        return Value::Integer(json.get<uint64_t>());
      case OrderedJson::value_t::number_float:
        return Value::Float(json.get<double>());
      case OrderedJson::value_t::string: {
        const std::string& text = json.get_ref<const std::string&>();
        if (!IsValidUtf8(text)) Fail("a string of the conversation is not UTF-8");
        return runtime_.String(text);
      }
      case OrderedJson::value_t::array: {
        std::vector<Value> items;
        items.reserve(json.size());
        for (const OrderedJson& item : json) items.push_back(FromJson(item));
        return runtime_.List(std::move(items));
      }
      case OrderedJson::value_t::object: {
        DictBuilder dict(runtime_);
        for (const auto& [key, value] : json.items()) {
          if (!IsValidUtf8(key)) Fail("a key of the conversation is not UTF-8");
          dict.Set(runtime_.String(key), FromJson(value));
        }
        return dict.Finish();
      }
      default:
        return {};
    }
  }

  std::shared_ptr<Scope> MakeScope(std::shared_ptr<Scope> parent, const std::vector<Name>& hidden) {
    auto scope = std::make_shared<Scope>(runtime_.meter(), std::move(parent));
    runtime_.Step(hidden.size() / 16);
    scope->SetAllMissing(hidden);
    return scope;
  }

  Flow Execute(const Body& body, TextBuilder* out) {
    for (const auto& statement : body) {
      const Flow flow = ExecuteStatement(*statement, out);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow ExecuteStatement(const Statement& statement, TextBuilder* out) {
    const Restore<int> depth(&depth_, Deeper());
    runtime_.Step();
    runtime_.line = statement.line;
    switch (statement.kind) {
      case StatementKind::kOutput:
        ExecuteOutput(statement, out);
        return Flow::kNext;
      case StatementKind::kFor:
        return ExecuteFor(statement, out);
      case StatementKind::kIf:
        return ExecuteIf(statement, out);
      case StatementKind::kSet:
        Assign(*statement.target, Evaluate(*statement.value));
        return Flow::kNext;
      case StatementKind::kMacro:
        scope_->Set(statement.target->name, MakeMacro(statement));
        return Flow::kNext;
      case StatementKind::kCallBlock:
        ExecuteCallBlock(statement, out);
        return Flow::kNext;
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock:
        return ExecuteCapture(statement, out);
      case StatementKind::kGeneration:
        return ExecuteScoped(statement.body, MakeScope(scope_, statement.body.hidden), out);
      case StatementKind::kBreak:
        return Flow::kBreak;
      case StatementKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void ExecuteOutput(const Statement& statement, TextBuilder* out) {
    for (const OutputPart& part : statement.parts) {
      if (part.expr == nullptr) {
        out->Append(part.data);
      } else {
        out->Append(Evaluate(*part.expr));
      }
    }
  }

  Flow ExecuteIf(const Statement& statement, TextBuilder* out) {
    for (const auto& [test, body] : statement.branches) {
      if (Truthy(Evaluate(*test))) return Execute(body, out);
    }
    return Execute(statement.otherwise.statements, out);
  }

  Flow ExecuteScoped(const ScopedBody& body, std::shared_ptr<Scope> scope, TextBuilder* out) {
    const Restore<std::shared_ptr<Scope>> restore(&scope_, std::move(scope));
    return Execute(body.statements, out);
  }

  Flow ExecuteFor(const Statement& statement, TextBuilder* out) {
    const Value items = Evaluate(*statement.value);
    const std::shared_ptr<Scope> around = scope_;
    auto loop =
        std::make_shared<LoopObject>(runtime_.meter(), Iterate(runtime_, items),
                                     statement.test == nullptr ? Length(items) : std::nullopt);
    if (statement.test != nullptr) {
      // The test sees the loop's variables alone.
      loop->passes = [this, &statement, scope = MakeScope(around, {})](const Value& item) {
        const Restore<std::shared_ptr<Scope>> restore(&scope_, scope);
        Assign(*statement.target, item);
        return Truthy(Evaluate(*statement.test));
      };
    }
    struct Releaser {
      LoopObject* loop;
      ~Releaser() { loop->Release(); }
    } releaser{loop.get()};
    const std::shared_ptr<Scope> scope = MakeScope(around, {});
    bool completed = false;  // whether any iteration reached the end of the body
    {
      const Restore<std::shared_ptr<Scope>> restore(&scope_, scope);
      while (loop->Advance(runtime_)) {
        scope->Clear();
        runtime_.Step(statement.body.hidden.size() / 16);
        scope->SetAllMissing(statement.body.hidden);
        scope->Set(kLoop, {Kind::kLoop, loop});
        Assign(*statement.target, loop->current);
        const Flow flow = Execute(statement.body.statements, out);
        if (flow == Flow::kBreak) break;
        if (flow == Flow::kNext) completed = true;
      }
      scope->Clear();
    }
    // As in Jinja, an iteration that was cut short does not count for `else`.
    if (completed || statement.otherwise.statements.empty()) return Flow::kNext;
    return ExecuteScoped(statement.otherwise, MakeScope(around, statement.otherwise.hidden), out);
  }

  Flow ExecuteCapture(const Statement& statement, TextBuilder* out) {
    TextBuilder text(runtime_);
    const std::shared_ptr<Scope> inner = MakeScope(scope_, statement.body.hidden);
    const Flow flow = ExecuteScoped(statement.body, inner, &text);
    if (flow != Flow::kNext) return flow;
    Value value = text.Finish();
    if (statement.value != nullptr) {
      const Value captured = value;
      const Restore<std::shared_ptr<Scope>> restore(&scope_, inner);
      const Restore<const Value*> restore_text(&block_text_, &captured);
      value = Evaluate(*statement.value);
    }
    if (statement.kind == StatementKind::kSetBlock) {
      Assign(*statement.target, value);
    } else {
      AppendString(value, "filter", out);
    }
    return Flow::kNext;
  }

  void ExecuteCallBlock(const Statement& statement, TextBuilder* out) {
    const Value caller = MakeMacro(statement);
    AppendString(EvaluateCall(*statement.value, &caller), "call", out);
  }

  void AppendString(const Value& value, std::string_view block, TextBuilder* out) {
    if (!value.IsString())
      Fail("a ", block, " block gave a ", TypeName(value), " instead of a str");
    out->Append(value.text());
  }

  void Assign(const Expr& target, const Value& value) {
    if (target.kind == ExprKind::kName) {
      runtime_.Step(scope_->size() / 64);
      scope_->Set(target.name, value);
    } else if (target.kind == ExprKind::kAttribute) {
      AssignAttribute(*target.items[0], target.text, value);
    } else {
      if (!IsIterable(value)) Fail("cannot unpack non-iterable ", TypeName(value), " object");
      const std::vector<Value> items = Collect(runtime_, value);
      if (items.size() != target.items.size()) {
        Fail(items.size() < target.items.size() ? "not enough" : "too many",
             " values to unpack (expected ", target.items.size(), ")");
      }
      for (size_t i = 0; i < items.size(); ++i) Assign(*target.items[i], items[i]);
    }
  }

  void AssignAttribute(const Expr& owner, const std::string& attribute, const Value& value) {
    size_t seen = 0;
    const std::optional<Value>* found = scope_->Find(owner.name, &seen);
    if (found == nullptr || !*found || !(*found)->Is(Kind::kNamespace)) {
      Fail("cannot assign to '", owner.text, ".", attribute, "': '", owner.text,
           "' is not a namespace");
    }
    auto& space = (*found)->As<NamespaceObject>();
    runtime_.Step(space.entries.size() / 16);
    if (const std::optional<size_t> place = space.PlaceOf(attribute)) {
      space.entries[*place].second = value;
    } else {
      space.Add(attribute, value);
    }
  }

  // ---- Expressions

  Value Evaluate(const Expr& expr) {
    runtime_.Step();
    if (expr.kind == ExprKind::kConstant) return expr.constant;
    if (expr.kind == ExprKind::kName) return LookUp(expr);
    const Restore<int> depth(&depth_, Deeper());
    runtime_.line = expr.line;
    return EvaluateKind(expr);
  }

  Value LookUp(const Expr& expr) {
    size_t seen = 0;
    const std::optional<Value>* found = scope_->Find(expr.name, &seen);
    runtime_.Step(seen / 64);
    if (found != nullptr && *found) return **found;
    if (found == nullptr) {
      const auto given = context_.find(expr.text);
      if (given != context_.end()) return given->second;
      const Builtin* function = Find(Globals(), expr.text);
      if (function != nullptr) return runtime_.Function(function, Value());
      if (expr.text == "cycler" || expr.text == "joiner" || expr.text == "lipsum") {
        Fail(NotSupported("function", expr.text, Globals()));
      }
    }
    return runtime_.Undefined(StrCat("'", expr.text, "' is undefined"));
  }

  Value EvaluateKind(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kTuple:
        return runtime_.Tuple(EvaluateItems(expr));
      case ExprKind::kList:
        return runtime_.List(EvaluateItems(expr));
      case ExprKind::kDict:
        return EvaluateDict(expr);
      case ExprKind::kAttribute:
        return GetAttribute(runtime_, Evaluate(*expr.items[0]), expr.text);
      case ExprKind::kItem: {
        const Value object = Evaluate(*expr.items[0]);
        return GetItem(runtime_, object, Evaluate(*expr.items[1]));
      }
      case ExprKind::kSlice: {
        const std::vector<Value> items = EvaluateItems(expr);
        return Slice(runtime_, items[0], items[1], items[2], items[3]);
      }
      case ExprKind::kCall:
        return EvaluateCall(expr, nullptr);
      case ExprKind::kFilter:
      case ExprKind::kTest:
        return EvaluateFilterOrTest(expr);
      case ExprKind::kNot:
        return Value::Bool(!Truthy(Evaluate(*expr.items[0])));
      case ExprKind::kNegate:
        return Negate(Evaluate(*expr.items[0]));
      case ExprKind::kBinary: {
        const Value left = Evaluate(*expr.items[0]);
        return Binary(runtime_, expr.ops[0], left, Evaluate(*expr.items[1]));
      }
      case ExprKind::kAnd:
      case ExprKind::kOr: {
        Value left = Evaluate(*expr.items[0]);
        return Truthy(left) == (expr.kind == ExprKind::kAnd) ? Evaluate(*expr.items[1]) : left;
      }
      case ExprKind::kConcat:
        return EvaluateConcat(expr);
      case ExprKind::kCompare:
        return EvaluateCompare(expr);
      case ExprKind::kConditional:
        return EvaluateConditional(expr);
      case ExprKind::kConstant:
      case ExprKind::kName:
        break;
    }
    return {};
  }

  // What is absent is None.
  std::vector<Value> EvaluateItems(const Expr& expr) {
    std::vector<Value> items;
    items.reserve(expr.items.size());
    for (const ExprPtr& item : expr.items) items.push_back(item ? Evaluate(*item) : Value());
    return items;
  }

  Value EvaluateDict(const Expr& expr) {
    DictBuilder dict(runtime_);
    for (size_t i = 0; i < expr.items.size(); i += 2) {
      const Value key = Evaluate(*expr.items[i]);
      dict.Set(key, Evaluate(*expr.items[i + 1]));
    }
    return dict.Finish();
  }

  Value EvaluateFilterOrTest(const Expr& expr) {
    if (expr.builtin == nullptr) {
      Fail(expr.kind == ExprKind::kFilter ? NoSuchFilter(expr.text) : NoSuchTest(expr.text));
    }
    const Value subject = expr.items[0] != nullptr ? Evaluate(*expr.items[0]) : *block_text_;
    const Arguments arguments = EvaluateArguments(expr);
    runtime_.line = expr.line;
    return expr.builtin->Call(runtime_, subject, arguments);
  }

  Value EvaluateConcat(const Expr& expr) {
    TextBuilder out(runtime_);
    for (const Value& item : EvaluateItems(expr)) out.Append(item);
    return out.Finish();
  }

  Value EvaluateCompare(const Expr& expr) {
    Value left = Evaluate(*expr.items[0]);
    for (size_t i = 0; i < expr.ops.size(); ++i) {
      const Value right = Evaluate(*expr.items[i + 1]);
      if (!Compare(runtime_, expr.ops[i], left, right)) return Value::Bool(false);
      left = right;
    }
    return Value::Bool(true);
  }

  Value EvaluateConditional(const Expr& expr) {
    if (Truthy(Evaluate(*expr.items[0]))) return Evaluate(*expr.items[1]);
    if (expr.items[2] != nullptr) return Evaluate(*expr.items[2]);
    return runtime_.Undefined(StrCat("the inline if-expression on line ", expr.line,
                                     " evaluated to false and no else section was defined"));
  }

  Arguments EvaluateArguments(const Expr& expr) {
    Arguments arguments;
    arguments.positional.reserve(expr.positional.size());
    for (const ExprPtr& item : expr.positional) arguments.positional.push_back(Evaluate(*item));
    for (const auto& [name, item] : expr.named) arguments.named.emplace_back(name, Evaluate(*item));
    return arguments;
  }

  Value EvaluateCall(const Expr& expr, const Value* caller) {
    const Value callee = Evaluate(*expr.items[0]);
    Arguments arguments = EvaluateArguments(expr);
    if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
    runtime_.line = expr.line;
    return Call(callee, arguments);
  }

  // ---- Calls

  Value Call(const Value& callee, const Arguments& arguments) {
    switch (callee.kind()) {
      case Kind::kFunction: {
        const FunctionObject& function = callee.As<FunctionObject>();
        return function.builtin->Call(runtime_, function.self, arguments);
      }
      case Kind::kMacro:
        return CallMacro(callee.As<MacroObject>(), arguments);
      case Kind::kUndefined:
        Fail(callee.undefined_message());
      default:
        Fail("'", TypeName(callee), "' object is not callable");
    }
  }

  Value MakeMacro(const Statement& definition) {
    if (captured_.empty() || captured_.back() != scope_) captured_.push_back(scope_);
    return runtime_.Make<MacroObject>(Kind::kMacro, &definition, scope_);
  }

  Value CallMacro(const MacroObject& macro, const Arguments& arguments) {
    // The macro may be dropped by what it does.
    const Statement& definition = *macro.definition;
    const std::shared_ptr<Scope> around = macro.scope;
    if (macro_depth_ >= runtime_.limits().depth_max) {
      Fail("macros call each other deeper than ", runtime_.limits().depth_max, " levels");
    }
    const Restore<int> restore_depth(&macro_depth_, macro_depth_ + 1);
    const Restore<std::shared_ptr<Scope>> restore_scope(&scope_,
                                                        MakeScope(around, definition.body.hidden));
    BindMacro(definition, arguments);
    TextBuilder out(runtime_);
    Execute(definition.body.statements, &out);
    return out.Finish();
  }

  void BindMacro(const Statement& macro, const Arguments& arguments) {
    const std::string_view name =
        macro.kind == StatementKind::kCallBlock ? "caller" : std::string_view(macro.target->text);
    const auto& parameters = macro.parameters;
    if (arguments.positional.size() > parameters.size()) {
      Fail("macro '", name, "' takes not more than ", parameters.size(), " argument(s)");
    }
    // Names are looked for one by one.
    runtime_.Step(parameters.size() * (parameters.size() + arguments.named.size()) / 16);
    // A default sees the parameters before it, and none that has no value yet.
    for (const Parameter& parameter : parameters) scope_->SetMissing(parameter.name);
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      scope_->Set(parameters[i].name, arguments.positional[i]);
    }
    bool has_caller = false;
    for (const auto& [key, value] : arguments.named) {
      const auto found = std::find_if(parameters.begin(), parameters.end(),
                                      [&key = key](const auto& one) { return one.text == key; });
      if (found == parameters.end()) {
        if (!macro.takes_caller || key != "caller" || has_caller) {
          Fail("macro '", name, "' takes no keyword argument '", key, "'");
        }
        has_caller = !value.IsNone();
        if (has_caller) scope_->Set(kCaller, value);
        continue;
      }
      if (scope_->Has(found->name)) {
        Fail("macro '", name, "' got multiple values for argument '", key, "'");
      }
      scope_->Set(found->name, value);
    }
    if (macro.takes_caller && !has_caller) {
      scope_->Set(kCaller, runtime_.Undefined("No caller defined"));
    }
    for (const Parameter& parameter : parameters) {
      if (scope_->Has(parameter.name)) continue;
      const auto& [number, text, fallback] = parameter;
      scope_->Set(number, fallback != nullptr ? Evaluate(*fallback)
                                              : runtime_.Undefined(StrCat("parameter '", text,
                                                                          "' was not provided")));
    }
  }

  const ParsedTemplate& parsed_;
  Runtime& runtime_;
  std::unordered_map<std::string, Value> context_;
  std::shared_ptr<Scope> scope_;  // of the statement at work
  // The text of the block that a chain of filters starts from.
  const Value* block_text_ = nullptr;
  int macro_depth_ = 0;
  int depth_ = 0;
  // Scopes that macros hold, which may in turn hold the macros; emptied at the end.
  std::vector<std::shared_ptr<Scope>> captured_;
};

}  // namespace

std::string Render(const ParsedTemplate& parsed, const OrderedJson& context, Runtime& runtime) {
  return Interpreter(parsed, runtime).Render(context);
}

}  // namespace sluice::text::jinja
