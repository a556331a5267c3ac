// The expressions of a template: a recursive-descent parser over its tokens, with bounded depth.
// The statement parser builds on it. One per template and thread.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

  // Counts one level of recursion while it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser* parser);
    ~Nesting() { --parser_->nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser* parser_;
  };

  // ---- Tokens
  const Token& current() const { return tokens_[place_]; }
  const Token& Peek() const { return tokens_[std::min(place_ + 1, tokens_.size() - 1)]; }
  Token Take();
  bool AtOperator(std::string_view op) const;
  bool AtName(std::string_view name) const;
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  void ExpectOperator(std::string_view op);
  void Expect(TokenType type);
  std::string ExpectName();
  [[noreturn]] void Error(const std::string& message) const { Error(message, current().line); }
  [[noreturn]] void Error(const std::string& message, int line) const {
    throw SyntaxFailure{message, line};
  }

  // ---- Expressions
  enum class TupleEnd { kTag, kRecursive };
  ExprPtr ParseExpression(bool with_condition = true);
  // An expression or, with commas, a tuple.
  ExprPtr ParseTuple(bool with_condition = true, TupleEnd end = TupleEnd::kTag,
                     bool parenthesized = false);
  ExprPtr ParsePrimary();
  // A chain of filters; the first follows a '|' unless `inline_start`. `base` may be null.
  ExprPtr ParseFilters(ExprPtr base, bool inline_start = false);
  Name Intern(const std::string& name);
  ExprPtr MakeExpr(ExprKind kind, int line) const;
  // Appends an operand and checks the depth.
  void AddItem(Expr* expr, ExprPtr item) const;

  std::vector<std::string> names_;

 private:
  ExprPtr ParseCondition();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseFilterExpr(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseSubscribed(ExprPtr node);
  ExprPtr ParseTest(ExprPtr node);
  ExprPtr ParseCall(ExprPtr node);
  ExprPtr ParseListDisplay();
  ExprPtr ParseDictDisplay();
  ExprPtr MakeBinary(BinaryOp op, ExprPtr left, ExprPtr right, int line) const;
  std::unique_ptr<CallArguments> ParseArguments(int* depth);
  std::string ParseDottedName();
  bool AtTupleEnd(TupleEnd end) const;

  std::vector<Token> tokens_;
  size_t place_ = 0;
  int nesting_ = 0;
  std::map<std::string, Name, std::less<>> name_ids_;
};

// How a token reads in a message.
std::string DescribeToken(const Token& token);

}  // namespace sluice::text::jinja
