// The expressions of a template: a recursive-descent parser over its tokens, with bounded depth.
// The statement parser builds on it. One per template and thread.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_cat.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace sluice::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens);

 protected:
  // How deep expressions and statements may nest (a pair of brackets counts twice), and how long a
  // chain such as a + b + c + ... may be; both are walked recursively.
  static constexpr int kNestingMax = 200;
  static constexpr int kExprDepthMax = 400;

  // The level of recursion one deeper, to be restored.
  int Deeper() const {
    if (nesting_ < kNestingMax) return nesting_ + 1;
    Error(StrCat("the template is nested deeper than ", kNestingMax, " levels"));
  }

  // ---- Tokens
  const Token& current() const { return tokens_[place_]; }
  const Token& Peek() const { return tokens_[std::min(place_ + 1, tokens_.size() - 1)]; }
  Token Take() {
    Token token = current();
    if (place_ + 1 < tokens_.size()) ++place_;
    return token;
  }
  bool At(TokenType type, std::string_view text) const {
    return current().type == type && current().text == text;
  }
  bool AtOperator(std::string_view op) const { return At(TokenType::kOperator, op); }
  bool AtName(std::string_view name) const { return At(TokenType::kName, name); }
  bool AtTagEnd() const {
    return current().type == TokenType::kVariableEnd || current().type == TokenType::kBlockEnd;
  }
  bool Skip(TokenType type, std::string_view text) {
    const bool is_here = At(type, text);
    if (is_here) Take();
    return is_here;
  }
  bool SkipOperator(std::string_view op) { return Skip(TokenType::kOperator, op); }
  bool SkipName(std::string_view name) { return Skip(TokenType::kName, name); }
  // Takes the token, or says that `what` was expected.
  Token Expect(TokenType type, std::string_view what);
  void ExpectOperator(std::string_view op) {
    if (!SkipOperator(op)) Unexpected(StrCat("expected '", op, "', got"));
  }
  std::string ExpectName() { return Expect(TokenType::kName, "a name").text; }
  [[noreturn]] void Error(const std::string& message) const { Error(message, current().line); }
  [[noreturn]] void Error(const std::string& message, int line) const {
    throw SyntaxFailure{message, line};
  }
  // Says what is wrong with the current token.
  [[noreturn]] void Unexpected(std::string_view problem) const;

  // ---- Expressions
  // `item` becomes the first operand unless it is null.
  ExprPtr MakeExpr(ExprKind kind, int line, ExprPtr item = nullptr) const;
  // Appends an operand and checks the depth.
  void AddItem(Expr* expr, ExprPtr item) const;
  ExprPtr ParseExpression(bool with_condition = true);
  // An expression or, with commas, a tuple. Only one in parentheses may be empty.
  ExprPtr ParseTuple(bool with_condition = true, bool parenthesized = false);
  ExprPtr ParsePrimary();
  // A chain of filters; the first follows a '|' unless `inline_start`. `base` may be null.
  ExprPtr ParseFilters(ExprPtr base, bool inline_start = false);
  Name Intern(const std::string& name);
  // true, none and their like: names that cannot be assigned to.
  static std::optional<Value> ConstantOf(std::string_view name);

  int nesting_ = 0;
  // The first unknown filter or test that makes the whole template wrong, as in Jinja: one that
  // doesn't stand in a condition's reach, where it fails only when it is evaluated.
  std::optional<SyntaxFailure> unknown_;
  bool in_condition_ = false;
  bool in_macro_ = false;
  bool caller_read_ = false;  // whether the name `caller` has come since this was last cleared

 private:
  ExprPtr ParseInfix(size_t number);
  ExprPtr ParseSide(size_t level);
  ExprPtr ParseNot();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParseName();
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseTest(ExprPtr node);
  ExprPtr ParseCall(ExprPtr node);
  ExprPtr ParseDisplay(ExprKind kind, std::string_view closer);
  void ParseArguments(Expr* expr);
  void NoteUnknown(const Expr& expr);

  void AddDepth(Expr* expr, const Expr& item) const;

  std::vector<Token> tokens_;
  size_t place_ = 0;
  std::map<std::string, Name, std::less<>> name_ids_;
};

}  // namespace sluice::text::jinja
