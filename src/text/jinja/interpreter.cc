#include "text/jinja/interpreter.h"

#include <limits>

#include "text/jinja/depth.h"
#include "text/jinja/failure.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

// Puts a value back when it goes out of scope.
template <class T>
class Restore {
 public:
  Restore(T* place, T value) : place_(place), old_(std::move(*place)) { *place = std::move(value); }
  ~Restore() { *place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T* place_;
  T old_;
};

}  // namespace

// The items of a loop that its `if` lets through. The test sees the loop's variables alone.
class TestedIterator final : public FilterIterator {
 public:
  TestedIterator(Interpreter* interpreter, const ForStatement& statement, const Value& items,
                 std::shared_ptr<Scope> scope)
      : FilterIterator(interpreter->runtime_, items),
        interpreter_(interpreter),
        statement_(statement),
        scope_(std::move(scope)) {}

  bool Next(Runtime& runtime, Value* item) override {
    const Restore<std::shared_ptr<Scope>> restore(&interpreter_->scope_, scope_);
    while (Pull(runtime, item)) {
      interpreter_->Assign(statement_.target, *item);
      if (Truthy(interpreter_->Evaluate(*statement_.test))) return true;
    }
    return false;
  }

 private:
  Interpreter* interpreter_;
  const ForStatement& statement_;
  const std::shared_ptr<Scope> scope_;
};

Interpreter::Interpreter(const ParsedTemplate& parsed, Runtime& runtime)
    : parsed_(parsed), runtime_(runtime) {}

Interpreter::~Interpreter() {
  for (const auto& scope : captured_) scope->Clear();
}

void Interpreter::SetContext(const OrderedJson& context) {
  for (const auto& [name, value] : context.items()) context_[name] = FromJson(value);
}

Value Interpreter::FromJson(const OrderedJson& json) {
  const Depth depth(this);
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

std::string Interpreter::Render() {
  root_ = MakeScope(nullptr, parsed_.body.hidden);
  scope_ = root_;
  TextBuilder out(runtime_);
  Execute(parsed_.body.statements, &out);
  return out.Take();
}

std::shared_ptr<Scope> Interpreter::MakeScope(std::shared_ptr<Scope> parent,
                                              const std::vector<Name>& hidden) {
  auto scope = std::make_shared<Scope>(runtime_.meter(), std::move(parent));
  runtime_.Step(hidden.size() / 16);
  scope->SetAllMissing(hidden);
  return scope;
}

Interpreter::Flow Interpreter::Execute(const Body& body, TextBuilder* out) {
  for (const auto& statement : body) {
    const Flow flow = ExecuteStatement(*statement, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteStatement(const Statement& base, TextBuilder* out) {
  const Depth depth(this);
  runtime_.Step();
  runtime_.line = base.line;
  switch (base.kind) {
    case StatementKind::kOutput:
      ExecuteOutput(static_cast<const OutputStatement&>(base), out);
      return Flow::kNext;
    case StatementKind::kFor:
      return ExecuteFor(static_cast<const ForStatement&>(base), out);
    case StatementKind::kIf:
      return ExecuteIf(static_cast<const IfStatement&>(base), out);
    case StatementKind::kSet: {
      const auto& statement = static_cast<const SetStatement&>(base);
      Assign(statement.target, Evaluate(*statement.value));
      return Flow::kNext;
    }
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(static_cast<const SetBlockStatement&>(base));
    case StatementKind::kMacro: {
      const auto& statement = static_cast<const MacroStatement&>(base);
      scope_->Set(statement.target, MakeMacro(statement.macro));
      return Flow::kNext;
    }
    case StatementKind::kCallBlock:
      ExecuteCallBlock(static_cast<const CallBlockStatement&>(base), out);
      return Flow::kNext;
    case StatementKind::kFilterBlock:
      return ExecuteFilterBlock(static_cast<const FilterBlockStatement&>(base), out);
    case StatementKind::kWith:
      return ExecuteWith(static_cast<const WithStatement&>(base), out);
    case StatementKind::kBlock:
      ExecuteBlock(static_cast<const BlockStatement&>(base), out);
      return Flow::kNext;
    case StatementKind::kAutoescape: {
      const auto& statement = static_cast<const AutoescapeStatement&>(base);
      if (Truthy(Evaluate(*statement.enabled))) Fail("autoescape is not supported");
      return ExecuteScoped(statement.body, MakeScope(scope_, statement.body.hidden), out);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kRefused:
      Fail("{% ", static_cast<const RefusedStatement&>(base).what,
           " %} needs another template, and a chat template stands alone");
  }
  return Flow::kNext;
}

void Interpreter::ExecuteOutput(const OutputStatement& statement, TextBuilder* out) {
  for (const auto& part : statement.parts) {
    if (part.expr == nullptr) {
      out->Append(part.data);
      continue;
    }
    const Value value = Evaluate(*part.expr);
    if (value.IsString()) {
      runtime_.Work(value.text().size());
      out->Append(value.text());
    } else {
      out->Append(ToString(runtime_, value));
    }
  }
}

Interpreter::Flow Interpreter::ExecuteIf(const IfStatement& statement, TextBuilder* out) {
  for (const auto& [test, body] : statement.branches) {
    if (Truthy(Evaluate(*test))) return Execute(body, out);
  }
  return Execute(statement.otherwise, out);
}

Interpreter::Flow Interpreter::ExecuteScoped(const ScopedBody& body, std::shared_ptr<Scope> scope,
                                             TextBuilder* out) {
  const Restore<std::shared_ptr<Scope>> restore(&scope_, std::move(scope));
  return Execute(body.statements, out);
}

Interpreter::Flow Interpreter::ExecuteFor(const ForStatement& statement, TextBuilder* out) {
  const Value items = Evaluate(*statement.iterable);
  if (!statement.recursive) return RunLoop(statement, items, scope_, 0, out);
  // A recursive loop is a function of its own: no break leaves it.
  RunLoop(statement, items, scope_, 0, out);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunLoop(const ForStatement& statement, const Value& items,
                                       std::shared_ptr<Scope> around, int depth0,
                                       TextBuilder* out) {
  std::shared_ptr<Iterator> iterator;
  std::optional<int64_t> length;
  if (statement.test != nullptr) {
    if (!IsIterable(items)) Fail("'", TypeName(items), "' object is not iterable");
    iterator = std::make_shared<TestedIterator>(this, statement, items, MakeScope(around, {}));
  } else {
    length = Length(items);
    iterator = Iterate(runtime_, items);
  }
  auto loop = std::make_shared<LoopObject>(runtime_.meter(), std::move(iterator), length, depth0);
  struct Releaser {
    LoopObject* loop;
    ~Releaser() { loop->Release(); }
  } releaser{loop.get()};
  if (statement.recursive) {
    loop->recursive = &statement;
    loop->scope = around;
  }
  const std::shared_ptr<Scope> scope = MakeScope(around, {});
  bool completed = false;  // whether any iteration reached the end of the body
  {
    const Restore<std::shared_ptr<Scope>> restore(&scope_, scope);
    while (loop->Advance(runtime_)) {
      runtime_.Step();
      scope->Clear();
      runtime_.Step(statement.body.hidden.size() / 16);
      scope->SetAllMissing(statement.body.hidden);
      scope->Set(kLoop, {Kind::kLoop, loop});
      Assign(statement.target, loop->current);
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

Interpreter::Flow Interpreter::ExecuteSetBlock(const SetBlockStatement& statement) {
  TextBuilder text(runtime_);
  const std::shared_ptr<Scope> inner = MakeScope(scope_, statement.body.hidden);
  const Flow flow = ExecuteScoped(statement.body, inner, &text);
  if (flow != Flow::kNext) return flow;
  Value value = text.Finish();
  if (statement.filter != nullptr) {
    const Value captured = value;
    const Restore<std::shared_ptr<Scope>> restore(&scope_, inner);
    const Restore<const Value*> restore_text(&block_text_, &captured);
    value = Evaluate(*statement.filter);
  }
  Assign(statement.target, value);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteFilterBlock(const FilterBlockStatement& statement,
                                                  TextBuilder* out) {
  TextBuilder text(runtime_);
  const std::shared_ptr<Scope> inner = MakeScope(scope_, statement.body.hidden);
  const Flow flow = ExecuteScoped(statement.body, inner, &text);
  if (flow != Flow::kNext) return flow;
  const Value captured = text.Finish();
  const Restore<std::shared_ptr<Scope>> restore(&scope_, inner);
  const Restore<const Value*> restore_text(&block_text_, &captured);
  const Value value = Evaluate(*statement.filter);
  if (!value.IsString()) Fail("a filter block gave a ", TypeName(value), " instead of a str");
  out->Append(value.text());
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteWith(const WithStatement& statement, TextBuilder* out) {
  const std::shared_ptr<Scope> inner = MakeScope(scope_, statement.body.hidden);
  for (const auto& [target, expr] : statement.assignments) {
    const Value value = Evaluate(*expr);
    const Restore<std::shared_ptr<Scope>> restore(&scope_, inner);
    Assign(target, value);
  }
  return ExecuteScoped(statement.body, inner, out);
}

void Interpreter::ExecuteCallBlock(const CallBlockStatement& statement, TextBuilder* out) {
  const Value caller = MakeMacro(statement.caller);
  const Value value =
      statement.call == nullptr ? Call(caller, {}) : EvaluateCall(*statement.call, &caller);
  if (!value.IsString()) Fail("a call block gave a ", TypeName(value), " instead of a str");
  out->Append(value.text());
}

void Interpreter::ExecuteBlock(const BlockStatement& statement, TextBuilder* out) {
  if (statement.required) Fail("the required block '", statement.name, "' is not defined");
  ExecuteScoped(statement.body, MakeScope(statement.scoped ? scope_ : root_, statement.body.hidden),
                out);
}

void Interpreter::Assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      runtime_.Step(scope_->size() / 64);
      scope_->Set(target.name, value);
      return;
    case Target::Kind::kNamespace: {
      size_t seen = 0;
      const std::optional<Value>* found = scope_->Find(target.name, &seen);
      if (found == nullptr || !*found || !(*found)->Is(Kind::kNamespace)) {
        Fail("cannot assign to '", target.text, ".", target.attribute, "': '", target.text,
             "' is not a namespace");
      }
      if (target.attribute.substr(0, 1) == "_") {
        Fail("a namespace cannot hold '", target.attribute, "', which starts with an underscore");
      }
      runtime_.Step((*found)->As<NamespaceObject>().attributes.size() / 16);
      (*found)->As<NamespaceObject>().Set(target.attribute, value);
      return;
    }
    case Target::Kind::kTuple: {
      if (!IsIterable(value)) Fail("cannot unpack non-iterable ", TypeName(value), " object");
      const std::vector<Value> items = Collect(runtime_, value);
      if (items.size() != target.items.size()) {
        Fail(items.size() < target.items.size() ? "not enough" : "too many",
             " values to unpack (expected ", target.items.size(), ")");
      }
      for (size_t i = 0; i < items.size(); ++i) Assign(target.items[i], items[i]);
      return;
    }
  }
}

}  // namespace sluice::text::jinja
