// A parsed template. Immutable after the parser and the analysis are done; shared by all threads
// that render it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

// An identifier, numbered by the parser in order of appearance.
using Name = int32_t;
constexpr size_t kNamesMax = 4096;  // in one template

// Names that the language itself gives a meaning, numbered before all others.
enum KnownName : Name { kLoop, kCaller, kKwargs, kVarargs, kKnownNames };

struct FilterEntry;
struct TestEntry;

enum class ExprKind : uint8_t {
  kConstant,   // constant
  kName,       // name, text
  kTuple,      // items
  kList,       // items
  kDict,       // items: key, value, key, value ...
  kAttribute,  // items[0].text
  kItem,       // items[0][items[1]]
  kSlice,      // items[0][items[1]:items[2]:items[3]], absent bounds null
  kCall,       // items[0](arguments)
  kFilter,     // items[0] | text(arguments); a null items[0] is the text of a block
  kTest,       // items[0] is text(arguments)
  kNot,
  kNegate,
  kPlus,
  kBinary,  // op
  kAnd,
  kOr,
  kConcat,       // items joined as strings
  kCompare,      // items[0] comparisons[0] items[1] comparisons[1] items[2] ...
  kConditional,  // items[1] if items[0] else items[2], which may be null
};

enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread;        // *expr
  ExprPtr spread_named;  // **expr
};

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;  // of nested expressions
  Name name = 0;
  std::string text;
  Value constant;
  BinaryOp op = BinaryOp::kAdd;
  std::vector<CompareOp> comparisons;
  std::vector<ExprPtr> items;
  std::unique_ptr<CallArguments> arguments;
  const FilterEntry* filter = nullptr;  // null: no filter of that name
  const TestEntry* test = nullptr;
};

// What an assignment writes to.
struct Target {
  enum class Kind : uint8_t { kName, kTuple, kNamespace } kind = Kind::kName;
  int line = 1;
  Name name = 0;              // kName, kNamespace
  std::string text;           // the same as written
  std::string attribute;      // kNamespace
  std::vector<Target> items;  // kTuple
};

enum class StatementKind : uint8_t {
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBlock,
  kAutoescape,
  kBreak,
  kContinue,
  kRefused,
};

struct Statement {
  Statement(StatementKind kind_in, int line_in) : kind(kind_in), line(line_in) {}
  virtual ~Statement() = default;
  const StatementKind kind;
  const int line;
};
using Body = std::vector<std::unique_ptr<Statement>>;

// A body with variables of its own. The analysis lists the names that it sets before it reads them:
// they hide context variables from the start (Jinja's scoping is static).
struct ScopedBody {
  Body statements;
  std::vector<Name> hidden;
};

struct OutputStatement final : Statement {
  explicit OutputStatement(int line_in) : Statement(StatementKind::kOutput, line_in) {}
  struct Part {
    std::string data;
    ExprPtr expr;  // null: data
  };
  std::vector<Part> parts;
};

struct ForStatement final : Statement {
  explicit ForStatement(int line_in) : Statement(StatementKind::kFor, line_in) {}
  Target target;
  ExprPtr iterable;
  ExprPtr test;  // may be null
  bool recursive = false;
  ScopedBody body;
  ScopedBody otherwise;
};

struct IfStatement final : Statement {
  explicit IfStatement(int line_in) : Statement(StatementKind::kIf, line_in) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

struct SetStatement final : Statement {
  explicit SetStatement(int line_in) : Statement(StatementKind::kSet, line_in) {}
  Target target;
  ExprPtr value;
};

struct SetBlockStatement final : Statement {
  explicit SetBlockStatement(int line_in) : Statement(StatementKind::kSetBlock, line_in) {}
  Target target;
  ExprPtr filter;  // may be null
  ScopedBody body;
};

struct MacroDefinition {
  bool anonymous = false;
  std::string name;
  std::vector<std::pair<Name, std::string>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  ScopedBody body;
  // Set by the analysis: which of the special names the body reads.
  bool takes_caller = false;
  bool takes_kwargs = false;
  bool takes_varargs = false;
};

struct MacroStatement final : Statement {
  explicit MacroStatement(int line_in) : Statement(StatementKind::kMacro, line_in) {}
  Name target = 0;
  MacroDefinition macro;
};

// {% call %}; without a call it is {% generation %}, which renders its body in place.
struct CallBlockStatement final : Statement {
  explicit CallBlockStatement(int line_in) : Statement(StatementKind::kCallBlock, line_in) {}
  ExprPtr call;
  MacroDefinition caller;
};

struct FilterBlockStatement final : Statement {
  explicit FilterBlockStatement(int line_in) : Statement(StatementKind::kFilterBlock, line_in) {}
  ExprPtr filter;
  ScopedBody body;
};

struct WithStatement final : Statement {
  explicit WithStatement(int line_in) : Statement(StatementKind::kWith, line_in) {}
  std::vector<std::pair<Target, ExprPtr>> assignments;
  ScopedBody body;
};

struct BlockStatement final : Statement {
  explicit BlockStatement(int line_in) : Statement(StatementKind::kBlock, line_in) {}
  std::string name;
  bool scoped = false;
  bool required = false;
  ScopedBody body;
};

struct AutoescapeStatement final : Statement {
  explicit AutoescapeStatement(int line_in) : Statement(StatementKind::kAutoescape, line_in) {}
  ExprPtr enabled;
  ScopedBody body;
};

// A statement that needs other templates: refused when it is reached.
struct RefusedStatement final : Statement {
  RefusedStatement(int line_in, std::string what_in)
      : Statement(StatementKind::kRefused, line_in), what(std::move(what_in)) {}
  const std::string what;
};

struct ParsedTemplate {
  std::vector<std::string> names;  // by Name
  ScopedBody body;
};

}  // namespace sluice::text::jinja
