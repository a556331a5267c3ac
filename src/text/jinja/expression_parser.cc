#include "text/jinja/expression_parser.h"

#include <algorithm>

#include "base/str_cat.h"
#include "text/jinja/filters.h"
#include "text/jinja/tests.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {

std::string DescribeToken(const Token& token) {
  switch (token.type) {
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kData:
      return "text";
    case TokenType::kBlockBegin:
      return "{%";
    case TokenType::kBlockEnd:
      return "%}";
    case TokenType::kVariableBegin:
      return "{{";
    case TokenType::kVariableEnd:
      return "}}";
    case TokenType::kString:
      return "a string";
    default:
      return std::string(Utf8Prefix(token.text, kQuotedBytesMax));
  }
}

ExpressionParser::ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const char* name : {"loop", "caller", "kwargs", "varargs"}) Intern(name);
}

ExpressionParser::Nesting::Nesting(ExpressionParser* parser) : parser_(parser) {
  if (parser->nesting_ >= kNestingMax) {
    parser->Error(StrCat("the template is nested deeper than ", kNestingMax, " levels"));
  }
  ++parser->nesting_;
}

Token ExpressionParser::Take() {
  Token token = current();
  if (place_ + 1 < tokens_.size()) ++place_;
  return token;
}

bool ExpressionParser::AtOperator(std::string_view op) const {
  return current().type == TokenType::kOperator && current().text == op;
}
bool ExpressionParser::AtName(std::string_view name) const {
  return current().type == TokenType::kName && current().text == name;
}
bool ExpressionParser::SkipOperator(std::string_view op) {
  if (!AtOperator(op)) return false;
  Take();
  return true;
}
bool ExpressionParser::SkipName(std::string_view name) {
  if (!AtName(name)) return false;
  Take();
  return true;
}

void ExpressionParser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) {
    Error(StrCat("expected '", op, "', got '", DescribeToken(current()), "'"));
  }
}

void ExpressionParser::Expect(TokenType type) {
  if (current().type != type) {
    Error(StrCat("expected '", DescribeToken({type, 0, "", Value()}), "', got '",
                 DescribeToken(current()), "'"));
  }
  Take();
}

std::string ExpressionParser::ExpectName() {
  if (current().type != TokenType::kName) {
    Error(StrCat("expected a name, got '", DescribeToken(current()), "'"));
  }
  return Take().text;
}

Name ExpressionParser::Intern(const std::string& name) {
  const auto [place, is_new] = name_ids_.try_emplace(name, static_cast<Name>(names_.size()));
  if (is_new) {
    if (names_.size() >= kNamesMax) {
      Error(StrCat("the template has more than ", kNamesMax, " different names"));
    }
    names_.push_back(name);
  }
  return place->second;
}

ExprPtr ExpressionParser::MakeExpr(ExprKind kind, int line) const {
  ExprPtr expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

void ExpressionParser::AddItem(Expr* expr, ExprPtr item) const {
  if (item != nullptr) {
    expr->depth = std::max(expr->depth, item->depth + 1);
    if (expr->depth > kExprDepthMax) {
      Error(StrCat("an expression has more than ", kExprDepthMax, " operators in a chain"),
            expr->line);
    }
  }
  expr->items.push_back(std::move(item));
}

ExprPtr ExpressionParser::MakeBinary(BinaryOp op, ExprPtr left, ExprPtr right, int line) const {
  ExprPtr expr = MakeExpr(ExprKind::kBinary, line);
  expr->op = op;
  AddItem(expr.get(), std::move(left));
  AddItem(expr.get(), std::move(right));
  return expr;
}

ExprPtr ExpressionParser::ParseExpression(bool with_condition) {
  Nesting nesting(this);
  return with_condition ? ParseCondition() : ParseOr();
}

ExprPtr ExpressionParser::ParseCondition() {
  int line = current().line;
  ExprPtr value = ParseOr();
  while (SkipName("if")) {
    ExprPtr expr = MakeExpr(ExprKind::kConditional, line);
    AddItem(expr.get(), ParseOr());
    AddItem(expr.get(), std::move(value));
    if (SkipName("else")) {
      Nesting nesting(this);
      AddItem(expr.get(), ParseCondition());
    } else {
      AddItem(expr.get(), nullptr);
    }
    value = std::move(expr);
    line = current().line;
  }
  return value;
}

ExprPtr ExpressionParser::ParseOr() {
  int line = current().line;
  ExprPtr left = ParseAnd();
  while (SkipName("or")) {
    ExprPtr expr = MakeExpr(ExprKind::kOr, line);
    AddItem(expr.get(), std::move(left));
    AddItem(expr.get(), ParseAnd());
    left = std::move(expr);
    line = current().line;
  }
  return left;
}

ExprPtr ExpressionParser::ParseAnd() {
  int line = current().line;
  ExprPtr left = ParseNot();
  while (SkipName("and")) {
    ExprPtr expr = MakeExpr(ExprKind::kAnd, line);
    AddItem(expr.get(), std::move(left));
    AddItem(expr.get(), ParseNot());
    left = std::move(expr);
    line = current().line;
  }
  return left;
}

ExprPtr ExpressionParser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  Nesting nesting(this);
  const int line = Take().line;
  ExprPtr expr = MakeExpr(ExprKind::kNot, line);
  AddItem(expr.get(), ParseNot());
  return expr;
}

ExprPtr ExpressionParser::ParseCompare() {
  static constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
      {"==", CompareOp::kEqual},  {"!=", CompareOp::kNotEqual},
      {"<", CompareOp::kLess},    {"<=", CompareOp::kLessEqual},
      {">", CompareOp::kGreater}, {">=", CompareOp::kGreaterEqual}};
  const int line = current().line;
  ExprPtr first = ParseSum();
  ExprPtr expr;
  while (true) {
    CompareOp op = CompareOp::kIn;
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [this](const auto& entry) { return AtOperator(entry.first); });
    if (found != std::end(kOperators)) {
      op = found->second;
      Take();
    } else if (AtName("not") && Peek().type == TokenType::kName && Peek().text == "in") {
      op = CompareOp::kNotIn;
      Take();
      Take();
    } else if (!SkipName("in")) {
      break;
    }
    if (expr == nullptr) {
      expr = MakeExpr(ExprKind::kCompare, line);
      AddItem(expr.get(), std::move(first));
    }
    expr->comparisons.push_back(op);
    AddItem(expr.get(), ParseSum());
  }
  return expr == nullptr ? std::move(first) : std::move(expr);
}

ExprPtr ExpressionParser::ParseSum() {
  int line = current().line;
  ExprPtr left = ParseConcat();
  while (AtOperator("+") || AtOperator("-")) {
    const BinaryOp op = Take().text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
    left = MakeBinary(op, std::move(left), ParseConcat(), line);
    line = current().line;
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  const int line = current().line;
  ExprPtr first = ParseProduct();
  if (!AtOperator("~")) return first;
  ExprPtr expr = MakeExpr(ExprKind::kConcat, line);
  AddItem(expr.get(), std::move(first));
  while (SkipOperator("~")) AddItem(expr.get(), ParseProduct());
  return expr;
}

ExprPtr ExpressionParser::ParseProduct() {
  int line = current().line;
  ExprPtr left = ParsePower();
  while (true) {
    BinaryOp op;
    if (AtOperator("*")) {
      op = BinaryOp::kMultiply;
    } else if (AtOperator("/")) {
      op = BinaryOp::kDivide;
    } else if (AtOperator("//")) {
      op = BinaryOp::kFloorDivide;
    } else if (AtOperator("%")) {
      op = BinaryOp::kModulo;
    } else {
      return left;
    }
    Take();
    left = MakeBinary(op, std::move(left), ParsePower(), line);
    line = current().line;
  }
}

ExprPtr ExpressionParser::ParsePower() {
  int line = current().line;
  ExprPtr left = ParseUnary(true);
  while (SkipOperator("**")) {
    left = MakeBinary(BinaryOp::kPower, std::move(left), ParseUnary(true), line);
    line = current().line;
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filter) {
  Nesting nesting(this);
  const int line = current().line;
  ExprPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const bool negate = Take().text == "-";
    node = MakeExpr(negate ? ExprKind::kNegate : ExprKind::kPlus, line);
    AddItem(node.get(), ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filter ? ParseFilterExpr(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::ParsePrimary() {
  const Token token = current();
  if (token.type == TokenType::kOperator) {
    if (token.text == "[") return ParseListDisplay();
    if (token.text == "{") return ParseDictDisplay();
    if (token.text != "(") Error(StrCat("unexpected '", token.text, "'"));
    Take();
    ExprPtr inside = ParseTuple(true, TupleEnd::kTag, true);
    ExpectOperator(")");
    return inside;
  }
  ExprPtr node = MakeExpr(ExprKind::kConstant, token.line);
  switch (token.type) {
    case TokenType::kName:
      if (token.text == "true" || token.text == "True") {
        node->constant = Value::Bool(true);
      } else if (token.text == "false" || token.text == "False") {
        node->constant = Value::Bool(false);
      } else if (token.text != "none" && token.text != "None") {
        node->kind = ExprKind::kName;
        node->name = Intern(token.text);
        node->text = token.text;
      }
      Take();
      return node;
    case TokenType::kString: {
      std::string text;
      while (current().type == TokenType::kString) text += Take().text;
      node->constant = Value::Constant(std::move(text));
      return node;
    }
    case TokenType::kInteger:
    case TokenType::kFloat:
      node->constant = token.number;
      Take();
      return node;
    default:
      Error(StrCat("unexpected '", DescribeToken(token), "'"));
  }
}

bool ExpressionParser::AtTupleEnd(TupleEnd end) const {
  if (current().type == TokenType::kVariableEnd || current().type == TokenType::kBlockEnd) {
    return true;
  }
  return AtOperator(")") || (end == TupleEnd::kRecursive && AtName("recursive"));
}

ExprPtr ExpressionParser::ParseTuple(bool with_condition, TupleEnd end, bool parenthesized) {
  ExprPtr tuple = MakeExpr(ExprKind::kTuple, current().line);
  bool has_comma = false;
  while (true) {
    if (!tuple->items.empty()) ExpectOperator(",");
    if (AtTupleEnd(end)) break;
    AddItem(tuple.get(), ParseExpression(with_condition));
    if (!AtOperator(",")) break;
    has_comma = true;
  }
  if (has_comma) return tuple;
  if (!tuple->items.empty()) return std::move(tuple->items[0]);
  if (!parenthesized) {
    Error(StrCat("expected an expression, got '", DescribeToken(current()), "'"));
  }
  return tuple;
}

ExprPtr ExpressionParser::ParseListDisplay() {
  ExprPtr list = MakeExpr(ExprKind::kList, current().line);
  ExpectOperator("[");
  while (!AtOperator("]")) {
    if (!list->items.empty()) ExpectOperator(",");
    if (AtOperator("]")) break;
    AddItem(list.get(), ParseExpression());
  }
  ExpectOperator("]");
  return list;
}

ExprPtr ExpressionParser::ParseDictDisplay() {
  ExprPtr dict = MakeExpr(ExprKind::kDict, current().line);
  ExpectOperator("{");
  while (!AtOperator("}")) {
    if (!dict->items.empty()) ExpectOperator(",");
    if (AtOperator("}")) break;
    AddItem(dict.get(), ParseExpression());
    ExpectOperator(":");
    AddItem(dict.get(), ParseExpression());
  }
  ExpectOperator("}");
  return dict;
}

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

ExprPtr ExpressionParser::ParseFilterExpr(ExprPtr node) {
  while (true) {
    if (AtOperator("|")) {
      node = ParseFilters(std::move(node));
    } else if (AtName("is")) {
      node = ParseTest(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr node) {
  const Token token = Take();
  if (token.text == ".") {
    const Token attribute = Take();
    if (attribute.type != TokenType::kName && attribute.type != TokenType::kInteger) {
      Error("expected a name or a number after '.'", attribute.line);
    }
    const bool is_name = attribute.type == TokenType::kName;
    ExprPtr expr = MakeExpr(is_name ? ExprKind::kAttribute : ExprKind::kItem, token.line);
    AddItem(expr.get(), std::move(node));
    if (is_name) {
      expr->text = attribute.text;
    } else {
      ExprPtr index = MakeExpr(ExprKind::kConstant, attribute.line);
      index->constant = attribute.number;
      AddItem(expr.get(), std::move(index));
    }
    return expr;
  }
  ExprPtr expr = ParseSubscribed(std::move(node));
  if (AtOperator(",")) {
    if (expr->kind == ExprKind::kSlice) Error("a slice cannot be part of a tuple of subscripts");
    ExprPtr tuple = MakeExpr(ExprKind::kTuple, token.line);
    AddItem(tuple.get(), std::move(expr->items[1]));
    while (SkipOperator(",")) {
      if (AtOperator("]")) Error("unexpected ']'");
      AddItem(tuple.get(), ParseExpression());
    }
    expr->items.pop_back();
    AddItem(expr.get(), std::move(tuple));
  }
  ExpectOperator("]");
  return expr;
}

// node[ has been read: an index or a slice.
ExprPtr ExpressionParser::ParseSubscribed(ExprPtr node) {
  const int line = current().line;
  if (AtOperator("]")) {
    // x[] is x[()], as in Jinja.
    ExprPtr expr = MakeExpr(ExprKind::kItem, line);
    AddItem(expr.get(), std::move(node));
    AddItem(expr.get(), MakeExpr(ExprKind::kTuple, line));
    return expr;
  }
  ExprPtr start;
  if (!AtOperator(":")) {
    start = ParseExpression();
    if (!AtOperator(":")) {
      ExprPtr expr = MakeExpr(ExprKind::kItem, line);
      AddItem(expr.get(), std::move(node));
      AddItem(expr.get(), std::move(start));
      return expr;
    }
  }
  ExpectOperator(":");
  ExprPtr stop;
  ExprPtr step;
  if (!AtOperator(":") && !AtOperator("]") && !AtOperator(",")) stop = ParseExpression();
  if (SkipOperator(":") && !AtOperator("]") && !AtOperator(",")) step = ParseExpression();
  ExprPtr expr = MakeExpr(ExprKind::kSlice, line);
  AddItem(expr.get(), std::move(node));
  AddItem(expr.get(), std::move(start));
  AddItem(expr.get(), std::move(stop));
  AddItem(expr.get(), std::move(step));
  return expr;
}

std::unique_ptr<CallArguments> ExpressionParser::ParseArguments(int* depth) {
  auto arguments = std::make_unique<CallArguments>();
  const int line = current().line;
  const auto ensure = [&](bool holds) {
    if (!holds) Error("the arguments of a call are in a wrong order", line);
  };
  const auto parse = [&] {
    ExprPtr expr = ParseExpression();
    *depth = std::max(*depth, expr->depth + 1);
    return expr;
  };
  ExpectOperator("(");
  bool first = true;
  while (!AtOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    first = false;
    if (SkipOperator("*")) {
      ensure(arguments->spread == nullptr && arguments->spread_named == nullptr);
      arguments->spread = parse();
    } else if (SkipOperator("**")) {
      ensure(arguments->spread_named == nullptr);
      arguments->spread_named = parse();
    } else if (current().type == TokenType::kName && Peek().type == TokenType::kOperator &&
               Peek().text == "=") {
      ensure(arguments->spread_named == nullptr);
      std::string name = Take().text;
      Take();
      for (const auto& [other, value] : arguments->named) {
        if (other == name) Error(StrCat("the argument '", name, "' is given twice"), line);
      }
      arguments->named.emplace_back(std::move(name), parse());
    } else {
      ensure(arguments->spread == nullptr && arguments->spread_named == nullptr &&
             arguments->named.empty());
      arguments->positional.push_back(parse());
    }
  }
  ExpectOperator(")");
  return arguments;
}

ExprPtr ExpressionParser::ParseCall(ExprPtr node) {
  ExprPtr expr = MakeExpr(ExprKind::kCall, current().line);
  expr->arguments = ParseArguments(&expr->depth);
  AddItem(expr.get(), std::move(node));
  return expr;
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = ExpectName();
  while (SkipOperator(".")) name += "." + ExpectName();
  return name;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr base, bool inline_start) {
  while (inline_start || AtOperator("|")) {
    if (!inline_start) Take();
    inline_start = false;
    ExprPtr expr = MakeExpr(ExprKind::kFilter, current().line);
    expr->text = ParseDottedName();
    expr->filter = FindFilter(expr->text);
    expr->arguments =
        AtOperator("(") ? ParseArguments(&expr->depth) : std::make_unique<CallArguments>();
    AddItem(expr.get(), std::move(base));
    base = std::move(expr);
  }
  return base;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr node) {
  const int line = Take().line;
  const bool negated = SkipName("not");
  ExprPtr expr = MakeExpr(ExprKind::kTest, line);
  expr->text = ParseDottedName();
  expr->test = FindTest(expr->text);
  const TokenType type = current().type;
  const bool starts_argument = type == TokenType::kName || type == TokenType::kString ||
                               type == TokenType::kInteger || type == TokenType::kFloat ||
                               AtOperator("[") || AtOperator("{");
  if (AtOperator("(")) {
    expr->arguments = ParseArguments(&expr->depth);
  } else {
    expr->arguments = std::make_unique<CallArguments>();
    if (starts_argument && !AtName("else") && !AtName("or") && !AtName("and")) {
      if (AtName("is")) Error("tests cannot be chained with 'is'");
      ExprPtr argument = ParsePostfix(ParsePrimary());
      expr->depth = std::max(expr->depth, argument->depth + 1);
      expr->arguments->positional.push_back(std::move(argument));
    }
  }
  AddItem(expr.get(), std::move(node));
  if (!negated) return expr;
  ExprPtr negation = MakeExpr(ExprKind::kNot, line);
  AddItem(negation.get(), std::move(expr));
  return negation;
}

}  // namespace sluice::text::jinja
