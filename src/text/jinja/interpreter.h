// Renders a parsed template: walks its statements and expressions with a Runtime. One per
// rendering, used by one thread; throws Failure.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/runtime.h"
#include "text/jinja/scope.h"

namespace sluice::text::jinja {

class Interpreter {
 public:
  // The template must outlive the interpreter, and the interpreter the runtime's values.
  Interpreter(const ParsedTemplate& parsed, Runtime& runtime);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Takes over the template's variables from an object. Throws Failure for what no value can hold.
  void SetContext(const OrderedJson& context);
  std::string Render();

 private:
  friend class TestedIterator;

  // How a statement ended.
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Counts one level of recursion while it lives.
  class Depth;

  // ---- Statements (interpreter.cc); they append to `out`
  Flow Execute(const Body& body, TextBuilder* out);
  Flow ExecuteStatement(const Statement& statement, TextBuilder* out);
  void ExecuteOutput(const OutputStatement& statement, TextBuilder* out);
  Flow ExecuteIf(const IfStatement& statement, TextBuilder* out);
  Flow ExecuteFor(const ForStatement& statement, TextBuilder* out);
  // Runs a loop over `items` in the scope around the statement.
  Flow RunLoop(const ForStatement& statement, const Value& items, std::shared_ptr<Scope> around,
               int depth0, TextBuilder* out);
  Flow ExecuteSetBlock(const SetBlockStatement& statement);
  Flow ExecuteFilterBlock(const FilterBlockStatement& statement, TextBuilder* out);
  Flow ExecuteWith(const WithStatement& statement, TextBuilder* out);
  void ExecuteCallBlock(const CallBlockStatement& statement, TextBuilder* out);
  void ExecuteBlock(const BlockStatement& statement, TextBuilder* out);
  Flow ExecuteScoped(const ScopedBody& body, std::shared_ptr<Scope> scope, TextBuilder* out);
  void Assign(const Target& target, const Value& value);

  // ---- Expressions (evaluate.cc)
  Value Evaluate(const Expr& expr);
  Value EvaluateKind(const Expr& expr);
  Value LookUp(const Expr& expr);
  Value EvaluateDict(const Expr& expr);
  Value EvaluateSlice(const Expr& expr);
  Value EvaluateFilter(const Expr& expr);
  Value EvaluateTest(const Expr& expr);
  Value EvaluateConcat(const Expr& expr);
  Value EvaluateCompare(const Expr& expr);
  Value EvaluateConditional(const Expr& expr);
  std::vector<Value> EvaluateItems(const Expr& expr);
  Arguments EvaluateArguments(const CallArguments& call);
  Value EvaluateCall(const Expr& expr, const Value* caller);

  // ---- Calls (call.cc)
  Value Call(const Value& callee, const Arguments& arguments);
  Value CallMacro(const MacroObject& macro, const Arguments& arguments);
  void BindMacro(const MacroDefinition& definition, const Arguments& arguments);
  Value CallLoop(const Value& loop, const Arguments& arguments);
  Value MakeMacro(const MacroDefinition& definition);

  std::shared_ptr<Scope> MakeScope(std::shared_ptr<Scope> parent, const std::vector<Name>& hidden);
  Value FromJson(const OrderedJson& json);

  const ParsedTemplate& parsed_;
  Runtime& runtime_;
  std::unordered_map<std::string, Value> context_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;  // of the statement at work
  // The text of the block that a chain of filters starts from.
  const Value* block_text_ = nullptr;
  int macro_depth_ = 0;
  int depth_ = 0;
  // Scopes that macros hold, which may in turn hold the macros; emptied at the end.
  std::vector<std::shared_ptr<Scope>> captured_;
};

}  // namespace sluice::text::jinja
