// A parsed template. Immutable after the parser and the analysis are done; shared by all threads
// that render it.
#pragma once

#include <memory>
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
// Names are compared with each other; of a call's arguments, or a macro's parameters.
constexpr size_t kNamesOfCallMax = 256;

// Names that the language itself gives a meaning, numbered before all others.
enum KnownName : Name { kLoop, kCaller, kKnownNames };

struct Builtin;

enum class ExprKind : uint8_t {
  kConstant,     // constant
  kName,         // name, text
  kTuple,        // items
  kList,         // items
  kDict,         // items: key, value, key, value ...
  kAttribute,    // items[0].text
  kItem,         // items[0][items[1]]
  kSlice,        // items[0][items[1]:items[2]:items[3]], absent bounds null
  kCall,         // items[0](the arguments)
  kFilter,       // items[0] | text(the arguments); a null items[0] is the text of a block
  kTest,         // items[0] is text(the arguments)
  kNot,          // not items[0]
  kNegate,       // -items[0]
  kBinary,       // items[0] ops[0] items[1]
  kAnd,          // items[0] and items[1]
  kOr,           // items[0] or items[1]
  kConcat,       // the items joined as strings
  kCompare,      // items[0] ops[0] items[1] ops[1] items[2] ...
  kConditional,  // items[1] if items[0] else items[2], which may be null
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;  // of nested expressions
  Name name = 0;
  std::string text;
  Value constant;
  std::vector<Op> ops;
  std::vector<ExprPtr> items;
  // The arguments of a call, a filter or a test.
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  const Builtin* builtin = nullptr;  // of a filter or a test; null if there is none of that name
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// A body with variables of its own. The analysis lists the names that it sets before it reads them:
// they hide context variables from the start (Jinja's scoping is static).
struct ScopedBody {
  Body statements;
  std::vector<Name> hidden;
};

enum class StatementKind : uint8_t {
  kOutput,       // parts
  kFor,          // for target in value if test: body, else: otherwise
  kIf,           // branches, else: otherwise (whose names are those of the frame around it)
  kSet,          // target = value
  kSetBlock,     // target = the text of body, filtered by value if that is not null
  kMacro,        // target is a function of parameters that gives the text of body
  kCallBlock,    // calls value with a macro `caller` of parameters and body
  kFilterBlock,  // the text of body, filtered by value
  kGeneration,   // body, in variables of its own
  kBreak,
  kContinue,
};

struct OutputPart {
  std::string data;
  ExprPtr expr;  // null: data
};

struct Parameter {
  Name name;
  std::string text;
  ExprPtr fallback;  // null: none
};

struct Statement {
  Statement(StatementKind kind_in, int line_in) : kind(kind_in), line(line_in) {}
  StatementKind kind;
  int line;
  std::vector<OutputPart> parts;
  ExprPtr target;  // a name, an attribute of a name (of a namespace), or a tuple of targets
  ExprPtr value;
  ExprPtr test;
  std::vector<std::pair<ExprPtr, Body>> branches;
  ScopedBody body;
  ScopedBody otherwise;
  std::vector<Parameter> parameters;
  bool takes_caller = false;  // whether a macro's body reads `caller`
};

struct ParsedTemplate {
  ScopedBody body;
};

// Throws SyntaxFailure. REQUIRES: `source` is UTF-8. Any thread.
ParsedTemplate ParseTemplate(std::string_view source);
// Resolves what Jinja settles before it renders (analysis.cc): which names a frame hides.
void Analyze(ParsedTemplate* parsed);

}  // namespace sluice::text::jinja
