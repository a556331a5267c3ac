// The interpreter's expressions.

#include "text/jinja/depth.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace sluice::text::jinja {

Value Interpreter::Evaluate(const Expr& expr) {
  runtime_.Step();
  if (expr.kind == ExprKind::kConstant) return expr.constant;
  if (expr.kind == ExprKind::kName) return LookUp(expr);
  const Depth depth(this);
  runtime_.line = expr.line;
  return EvaluateKind(expr);
}

Value Interpreter::LookUp(const Expr& expr) {
  size_t seen = 0;
  const std::optional<Value>* found = scope_->Find(expr.name, &seen);
  runtime_.Step(seen / 64);
  if (found != nullptr) {
    if (*found) return **found;
    return runtime_.Undefined(StrCat("'", expr.text, "' is undefined"));
  }
  if (const auto given = context_.find(expr.text); given != context_.end()) return given->second;
  if (const Method* function = FindGlobal(expr.text)) {
    return runtime_.Method(function->name, function->call, Value());
  }
  return runtime_.Undefined(StrCat("'", expr.text, "' is undefined"));
}

Value Interpreter::EvaluateKind(const Expr& expr) {
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
    case ExprKind::kSlice:
      return EvaluateSlice(expr);
    case ExprKind::kCall:
      return EvaluateCall(expr, nullptr);
    case ExprKind::kFilter:
      return EvaluateFilter(expr);
    case ExprKind::kTest:
      return EvaluateTest(expr);
    case ExprKind::kNot:
      return Value::Bool(!Truthy(Evaluate(*expr.items[0])));
    case ExprKind::kNegate:
      return Negate(Evaluate(*expr.items[0]));
    case ExprKind::kPlus:
      return Plus(Evaluate(*expr.items[0]));
    case ExprKind::kBinary: {
      const Value left = Evaluate(*expr.items[0]);
      return Binary(runtime_, expr.op, left, Evaluate(*expr.items[1]));
    }
    case ExprKind::kAnd: {
      Value left = Evaluate(*expr.items[0]);
      return Truthy(left) ? Evaluate(*expr.items[1]) : left;
    }
    case ExprKind::kOr: {
      Value left = Evaluate(*expr.items[0]);
      return Truthy(left) ? left : Evaluate(*expr.items[1]);
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

std::vector<Value> Interpreter::EvaluateItems(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(Evaluate(*item));
  return items;
}

Value Interpreter::EvaluateDict(const Expr& expr) {
  DictBuilder dict(runtime_);
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    const Value key = Evaluate(*expr.items[i]);
    dict.Set(key, Evaluate(*expr.items[i + 1]));
  }
  return dict.Finish();
}

Value Interpreter::EvaluateSlice(const Expr& expr) {
  const Value object = Evaluate(*expr.items[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.items[i + 1] != nullptr) bounds[i] = Evaluate(*expr.items[i + 1]);
  }
  return Slice(runtime_, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::EvaluateFilter(const Expr& expr) {
  if (expr.filter == nullptr) Fail("there is no filter named '", expr.text, "'");
  const Value subject = expr.items[0] != nullptr ? Evaluate(*expr.items[0]) : *block_text_;
  const Arguments arguments = EvaluateArguments(*expr.arguments);
  runtime_.line = expr.line;
  return expr.filter->call(runtime_, subject, arguments);
}

Value Interpreter::EvaluateTest(const Expr& expr) {
  if (expr.test == nullptr) Fail("there is no test named '", expr.text, "'");
  const Value subject = Evaluate(*expr.items[0]);
  const Arguments arguments = EvaluateArguments(*expr.arguments);
  runtime_.line = expr.line;
  return Value::Bool(expr.test->call(runtime_, subject, arguments));
}

Value Interpreter::EvaluateConcat(const Expr& expr) {
  const std::vector<Value> items = EvaluateItems(expr);
  TextBuilder out(runtime_);
  for (const Value& item : items) {
    if (item.IsString()) {
      out.Append(item.text());
    } else {
      out.Append(ToString(runtime_, item));
    }
  }
  return out.Finish();
}

Value Interpreter::EvaluateCompare(const Expr& expr) {
  Value left = Evaluate(*expr.items[0]);
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    const Value right = Evaluate(*expr.items[i + 1]);
    bool holds = false;
    switch (expr.comparisons[i]) {
      case CompareOp::kEqual:
        holds = Equal(runtime_, left, right);
        break;
      case CompareOp::kNotEqual:
        holds = !Equal(runtime_, left, right);
        break;
      case CompareOp::kLess:
        holds = Less(runtime_, left, right);
        break;
      case CompareOp::kLessEqual:
        holds = LessOrEqual(runtime_, left, right);
        break;
      case CompareOp::kGreater:
        holds = Less(runtime_, right, left, ">");
        break;
      case CompareOp::kGreaterEqual:
        holds = LessOrEqual(runtime_, right, left, ">=");
        break;
      case CompareOp::kIn:
        holds = Contains(runtime_, right, left);
        break;
      case CompareOp::kNotIn:
        holds = !Contains(runtime_, right, left);
        break;
    }
    if (!holds) return Value::Bool(false);
    left = right;
  }
  return Value::Bool(true);
}

Value Interpreter::EvaluateConditional(const Expr& expr) {
  if (Truthy(Evaluate(*expr.items[0]))) return Evaluate(*expr.items[1]);
  if (expr.items[2] != nullptr) return Evaluate(*expr.items[2]);
  return runtime_.Undefined(StrCat("the inline if-expression on line ", expr.line,
                                   " evaluated to false and no else section was defined"));
}

Arguments Interpreter::EvaluateArguments(const CallArguments& call) {
  Arguments arguments;
  for (const ExprPtr& expr : call.positional) arguments.positional.push_back(Evaluate(*expr));
  for (const auto& [name, expr] : call.named) arguments.named.emplace_back(name, Evaluate(*expr));
  if (call.spread != nullptr) {
    for (Value& item : Collect(runtime_, Evaluate(*call.spread))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (call.spread_named != nullptr) {
    const Value named = Evaluate(*call.spread_named);
    if (!named.Is(Kind::kDict)) Fail("argument after ** must be a mapping, not ", TypeName(named));
    // Looking for each name among the others takes the square of their number.
    runtime_.Step(named.dict().entries.size() * named.dict().entries.size());
    for (const auto& [key, value] : named.dict().entries) {
      if (!key.IsString()) Fail("keywords must be strings");
      if (arguments.Named(key.text()) != nullptr) {
        Fail("got multiple values for keyword argument '", key.text(), "'");
      }
      arguments.named.emplace_back(key.text(), value);
    }
  }
  return arguments;
}

Value Interpreter::EvaluateCall(const Expr& expr, const Value* caller) {
  const Value callee = Evaluate(*expr.items[0]);
  Arguments arguments = EvaluateArguments(*expr.arguments);
  if (caller != nullptr) {
    if (arguments.Named("caller") != nullptr) {
      Fail("got multiple values for keyword argument 'caller'");
    }
    arguments.named.emplace_back("caller", *caller);
  }
  runtime_.line = expr.line;
  return Call(callee, arguments);
}

}  // namespace sluice::text::jinja
