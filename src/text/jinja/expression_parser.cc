#include "text/jinja/expression_parser.h"

#include "base/str_cat.h"
#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/restore.h"

namespace sluice::text::jinja {
namespace {

// The operators between two operands, from the loosest level to the tightest; `not` stands above
// kAndLevel.
struct Level {
  ExprKind kind;
  Op first, last;
  // A chain of these is one expression: 1 < x < 3 as Python means it, a ~ b ~ c copied once.
  bool is_chain = false;
};
constexpr Level kLevels[] = {
    {ExprKind::kOr, Op::kOr, Op::kOr},
    {ExprKind::kAnd, Op::kAnd, Op::kAnd},
    {ExprKind::kCompare, Op::kEqual, Op::kNotIn, true},
    {ExprKind::kBinary, Op::kAdd, Op::kSubtract},
    {ExprKind::kConcat, Op::kConcat, Op::kConcat, true},
    {ExprKind::kBinary, Op::kMultiply, Op::kModulo},
};
constexpr size_t kOrLevel = 0, kAndLevel = 1, kCompareLevel = 2, kProductLevel = 5;

// The operator of the level that stands at `token`; nothing if there is none.
std::optional<Op> FindInfix(const Token& token, const Token& next, const Level& level) {
  if (token.type != TokenType::kOperator && token.type != TokenType::kName) return std::nullopt;
  for (int op = static_cast<int>(level.first); op <= static_cast<int>(level.last); ++op) {
    if (SymbolOf(static_cast<Op>(op)) == token.text) return static_cast<Op>(op);
  }
  const bool is_not_in = level.kind == ExprKind::kCompare && token.text == "not" &&
                         next.type == TokenType::kName && next.text == "in";
  return is_not_in ? std::optional<Op>(Op::kNotIn) : std::nullopt;
}

}  // namespace

ExpressionParser::ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const char* name : {"loop", "caller"}) Intern(name);
}

Token ExpressionParser::Expect(TokenType type, std::string_view what) {
  if (current().type != type) Unexpected(StrCat("expected ", what, ", got"));
  return Take();
}

void ExpressionParser::Unexpected(std::string_view problem) const {
  const TokenType type = current().type;
  const std::string_view what = type == TokenType::kData     ? "text"
                                : type == TokenType::kString ? "a string"
                                                             : std::string_view(current().text);
  Error(StrCat(problem, " '", Utf8Prefix(what, kQuotedBytesMax), "'"));
}

Name ExpressionParser::Intern(const std::string& name) {
  const Name next = static_cast<Name>(name_ids_.size());
  const auto [place, is_new] = name_ids_.try_emplace(name, next);
  if (is_new && static_cast<size_t>(next) >= kNamesMax) {
    Error(StrCat("the template has more than ", kNamesMax, " different names"));
  }
  return place->second;
}

// ---- Building expressions

ExprPtr ExpressionParser::MakeExpr(ExprKind kind, int line, ExprPtr item) const {
  ExprPtr expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  if (item != nullptr) AddItem(expr.get(), std::move(item));
  return expr;
}

void ExpressionParser::AddDepth(Expr* expr, const Expr& item) const {
  expr->depth = std::max(expr->depth, item.depth + 1);
  if (expr->depth > kExprDepthMax) {
    Error(StrCat("an expression has more than ", kExprDepthMax, " operators in a chain"),
          expr->line);
  }
}

void ExpressionParser::AddItem(Expr* expr, ExprPtr item) const {
  if (item != nullptr) AddDepth(expr, *item);
  expr->items.push_back(std::move(item));
}

void ExpressionParser::NoteUnknown(const Expr& expr) {
  if (expr.builtin != nullptr || in_condition_ || unknown_) return;
  const bool is_filter = expr.kind == ExprKind::kFilter;
  unknown_ = SyntaxFailure{is_filter ? NoSuchFilter(expr.text) : NoSuchTest(expr.text), expr.line};
}

// ---- Operators, from the loosest to the tightest

ExprPtr ExpressionParser::ParseExpression(bool with_condition) {
  const Restore<int> nesting(&nesting_, Deeper());
  const bool unknown_before = unknown_.has_value();
  int line = current().line;
  ExprPtr value = ParseInfix(kOrLevel);
  while (with_condition && SkipName("if")) {
    ExprPtr expr = MakeExpr(ExprKind::kConditional, line, ParseInfix(kOrLevel));
    AddItem(expr.get(), std::move(value));
    AddItem(expr.get(), SkipName("else") ? ParseExpression() : nullptr);
    if (!unknown_before) unknown_.reset();
    value = std::move(expr);
    line = current().line;
  }
  return value;
}

// What stands on both sides of a level's operators.
ExprPtr ExpressionParser::ParseSide(size_t level) {
  if (level == kAndLevel) return ParseNot();
  return level == kProductLevel ? ParseUnary(true) : ParseInfix(level + 1);
}

ExprPtr ExpressionParser::ParseInfix(size_t number) {
  const Level& level = kLevels[number];
  int line = current().line;
  ExprPtr left = ParseSide(number);
  bool is_first = true;
  while (const std::optional<Op> op = FindInfix(current(), Peek(), level)) {
    if (op == Op::kNotIn) Take();
    Take();
    if (is_first || !level.is_chain) left = MakeExpr(level.kind, line, std::move(left));
    is_first = false;
    left->ops.push_back(*op);
    AddItem(left.get(), ParseSide(number));
    line = current().line;
  }
  return left;
}

ExprPtr ExpressionParser::ParseNot() {
  if (!AtName("not")) return ParseInfix(kCompareLevel);
  const Restore<int> nesting(&nesting_, Deeper());
  const int line = Take().line;
  return MakeExpr(ExprKind::kNot, line, ParseNot());
}

// Filters and tests bind looser than a sign: -n|abs is (-n)|abs.
ExprPtr ExpressionParser::ParseUnary(bool with_filter) {
  const Restore<int> nesting(&nesting_, Deeper());
  ExprPtr node;
  if (AtOperator("-")) {
    const int line = Take().line;
    node = MakeExpr(ExprKind::kNegate, line, ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  while (with_filter) {
    if (AtOperator("|")) {
      node = ParseFilters(std::move(node));
    } else if (AtName("is")) {
      node = ParseTest(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      break;
    }
  }
  if (AtOperator("**")) Error(NotSupported("operator", "**", "+ - * / // %"));
  return node;
}

// ---- Operands

ExprPtr ExpressionParser::ParsePrimary() {
  const Token token = current();
  if (token.type == TokenType::kName) return ParseName();
  if (SkipOperator("[")) return ParseDisplay(ExprKind::kList, "]");
  if (SkipOperator("{")) return ParseDisplay(ExprKind::kDict, "}");
  if (SkipOperator("(")) {
    ExprPtr inside = ParseTuple(true, true);
    ExpectOperator(")");
    return inside;
  }
  ExprPtr node = MakeExpr(ExprKind::kConstant, token.line);
  if (token.type == TokenType::kString) {
    std::string text;
    while (current().type == TokenType::kString) text += Take().text;
    node->constant = Value::Constant(std::move(text));
  } else if (token.type == TokenType::kNumber) {
    node->constant = Take().number;
  } else {
    Unexpected("unexpected");
  }
  return node;
}

std::optional<Value> ExpressionParser::ConstantOf(std::string_view name) {
  if (name == "true" || name == "True") return Value::Bool(true);
  if (name == "false" || name == "False") return Value::Bool(false);
  if (name == "none" || name == "None") return Value();
  return std::nullopt;
}

ExprPtr ExpressionParser::ParseName() {
  const Token token = Take();
  ExprPtr node = MakeExpr(ExprKind::kConstant, token.line);
  if (const std::optional<Value> constant = ConstantOf(token.text)) {
    node->constant = *constant;
    return node;
  }
  if (in_macro_ && (token.text == "varargs" || token.text == "kwargs")) {
    Error(NotSupported("name", token.text, "parameters with names in a macro"), token.line);
  }
  node->kind = ExprKind::kName;
  node->name = Intern(token.text);
  node->text = token.text;
  caller_read_ = caller_read_ || node->name == kCaller;
  return node;
}

ExprPtr ExpressionParser::ParseTuple(bool with_condition, bool parenthesized) {
  ExprPtr tuple = MakeExpr(ExprKind::kTuple, current().line);
  bool has_comma = false;
  while (!AtTagEnd() && !AtOperator(")")) {
    AddItem(tuple.get(), ParseExpression(with_condition));
    if (!SkipOperator(",")) break;
    has_comma = true;
  }
  if (has_comma) return tuple;
  if (!tuple->items.empty()) return std::move(tuple->items[0]);
  if (!parenthesized) Unexpected("expected an expression, got");
  return tuple;
}

// A list or a dict whose opening bracket has been read.
ExprPtr ExpressionParser::ParseDisplay(ExprKind kind, std::string_view closer) {
  ExprPtr display = MakeExpr(kind, current().line);
  while (!AtOperator(closer)) {
    AddItem(display.get(), ParseExpression());
    if (kind == ExprKind::kDict) {
      ExpectOperator(":");
      AddItem(display.get(), ParseExpression());
    }
    if (!SkipOperator(",")) break;
  }
  ExpectOperator(closer);
  return display;
}

// ---- What follows an operand

ExprPtr ExpressionParser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (AtOperator(".") || AtOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr node) {
  const int line = current().line;
  if (SkipOperator(".")) {
    if (current().type == TokenType::kNumber) {
      Error(NotSupported("attribute", current().text, "names after '.', and numbers in []"));
    }
    ExprPtr expr = MakeExpr(ExprKind::kAttribute, line, std::move(node));
    expr->text = ExpectName();
    return expr;
  }
  ExpectOperator("[");
  ExprPtr expr = MakeExpr(ExprKind::kItem, line, std::move(node));
  AddItem(expr.get(), AtOperator(":") ? nullptr : ParseExpression());
  while (expr->items.size() < 4 && SkipOperator(":")) {
    expr->kind = ExprKind::kSlice;
    const bool absent = AtOperator(":") || AtOperator("]");
    AddItem(expr.get(), absent ? nullptr : ParseExpression());
  }
  if (expr->kind == ExprKind::kSlice) expr->items.resize(4);
  ExpectOperator("]");
  return expr;
}

void ExpressionParser::ParseArguments(Expr* expr) {
  const int line = current().line;
  ExpectOperator("(");
  while (!AtOperator(")")) {
    if (AtOperator("*") || AtOperator("**")) {
      Error(NotSupported("argument", current().text, "arguments one by one"));
    }
    std::string name;
    if (current().type == TokenType::kName && Peek().type == TokenType::kOperator &&
        Peek().text == "=") {
      name = Take().text;
      Take();
    } else if (!expr->named.empty()) {
      Error("an argument without a name follows one with a name", line);
    }
    if (expr->named.size() == kNamesOfCallMax) {
      Error(StrCat("a call has more than ", kNamesOfCallMax, " arguments with names"), line);
    }
    for (const auto& [other, value] : expr->named) {
      if (other == name) Error(StrCat("the argument '", name, "' is given twice"), line);
    }
    ExprPtr value = ParseExpression();
    AddDepth(expr, *value);
    if (name.empty()) {
      expr->positional.push_back(std::move(value));
    } else {
      expr->named.emplace_back(std::move(name), std::move(value));
    }
    if (!SkipOperator(",")) break;
  }
  ExpectOperator(")");
}

ExprPtr ExpressionParser::ParseCall(ExprPtr node) {
  ExprPtr expr = MakeExpr(ExprKind::kCall, current().line);
  ParseArguments(expr.get());
  AddItem(expr.get(), std::move(node));
  return expr;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr base, bool inline_start) {
  while (inline_start || SkipOperator("|")) {
    inline_start = false;
    ExprPtr expr = MakeExpr(ExprKind::kFilter, current().line);
    expr->text = ExpectName();
    expr->builtin = FindFilter(expr->text);
    NoteUnknown(*expr);
    if (AtOperator("(")) ParseArguments(expr.get());
    AddItem(expr.get(), std::move(base));
    base = std::move(expr);
  }
  return base;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr node) {
  const int line = Take().line;
  const bool negated = SkipName("not");
  ExprPtr expr = MakeExpr(ExprKind::kTest, line);
  expr->text = ExpectName();
  expr->builtin = FindTest(expr->text);
  NoteUnknown(*expr);
  const TokenType type = current().type;
  const bool starts_argument = type == TokenType::kName || type == TokenType::kString ||
                               type == TokenType::kNumber || AtOperator("[") || AtOperator("{");
  if (AtOperator("(")) {
    ParseArguments(expr.get());
  } else if (starts_argument && !AtName("else") && !AtName("or") && !AtName("and")) {
    if (AtName("is")) Error("tests cannot be chained with 'is'");
    ExprPtr argument = ParsePostfix(ParsePrimary());
    AddDepth(expr.get(), *argument);
    expr->positional.push_back(std::move(argument));
  }
  AddItem(expr.get(), std::move(node));
  if (!negated) return expr;
  return MakeExpr(ExprKind::kNot, line, std::move(expr));
}

}  // namespace sluice::text::jinja
