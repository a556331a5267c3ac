#include "text/jinja/parser.h"

#include <initializer_list>
#include <set>

#include "base/str_cat.h"
#include "text/jinja/expression_parser.h"

namespace sluice::text::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  ParsedTemplate Run() {
    ParsedTemplate parsed;
    parsed.body.statements = ParseUntil({});
    parsed.names = std::move(names_);
    return parsed;
  }

 private:
  using EndTags = std::initializer_list<std::string_view>;
  using StatementPtr = std::unique_ptr<Statement>;

  bool AtAny(EndTags tags) const {
    for (std::string_view tag : tags) {
      if (AtName(tag)) return true;
    }
    return false;
  }

  static std::string Listed(EndTags tags) {
    std::string out;
    for (std::string_view tag : tags) {
      if (!out.empty()) out += " or ";
      out += StrCat("{% ", tag, " %}");
    }
    return out;
  }

  // Statements up to one of `tags`, whose name is then the current token; with no tags, up to the
  // end of the template.
  Body ParseUntil(EndTags tags) {
    Body body;
    OutputStatement* output = nullptr;
    const auto add_output = [&](std::string data, ExprPtr expr, int line) {
      if (output == nullptr) {
        auto statement = std::make_unique<OutputStatement>(line);
        output = statement.get();
        body.push_back(std::move(statement));
      }
      output->parts.push_back({std::move(data), std::move(expr)});
    };
    while (current().type != TokenType::kEnd) {
      const int line = current().line;
      if (current().type == TokenType::kData) {
        add_output(Take().text, nullptr, line);
      } else if (current().type == TokenType::kVariableBegin) {
        Take();
        ExprPtr expr = ParseTuple();
        Expect(TokenType::kVariableEnd);
        add_output("", std::move(expr), line);
      } else {
        output = nullptr;
        Expect(TokenType::kBlockBegin);
        if (AtAny(tags)) return body;
        body.push_back(ParseStatement(tags));
        Expect(TokenType::kBlockEnd);
      }
    }
    if (tags.size() > 0) Error(StrCat("the template ends before ", Listed(tags)));
    return body;
  }

  // The body of a tag: the rest of the opening tag, statements, and the name of the end tag (left
  // as the current token unless `drop`).
  Body ParseBody(EndTags tags, bool drop = true) {
    SkipOperator(":");
    Expect(TokenType::kBlockEnd);
    Body body = ParseUntil(tags);
    if (drop) Take();
    return body;
  }

  StatementPtr ParseStatement(EndTags outer) {
    Nesting nesting(this);
    const Token tag = current();
    if (tag.type != TokenType::kName) Error("expected the name of a tag");
    Take();
    if (tag.text == "for") return ParseFor(tag.line);
    if (tag.text == "if") return ParseIf(tag.line);
    if (tag.text == "set") return ParseSet(tag.line);
    if (tag.text == "macro") return ParseMacro(tag.line);
    if (tag.text == "call") return ParseCallBlock(tag.line);
    if (tag.text == "generation") return ParseGeneration(tag.line);
    if (tag.text == "filter") return ParseFilterBlock(tag.line);
    if (tag.text == "with") return ParseWith(tag.line);
    if (tag.text == "block") return ParseBlock(tag.line);
    if (tag.text == "print") return ParsePrint(tag.line);
    if (tag.text == "autoescape") return ParseAutoescape(tag.line);
    if (tag.text == "break") {
      return std::make_unique<Statement>(StatementKind::kBreak, tag.line);
    }
    if (tag.text == "continue") {
      return std::make_unique<Statement>(StatementKind::kContinue, tag.line);
    }
    if (tag.text == "include" || tag.text == "extends" || tag.text == "import" ||
        tag.text == "from") {
      return ParseRefused(tag.text, tag.line);
    }
    if (outer.size() > 0) {
      Error(StrCat("unknown tag '", tag.text, "' where ", Listed(outer), " can end the block"),
            tag.line);
    }
    Error(StrCat("unknown tag '", tag.text, "'"), tag.line);
  }

  // ---- Targets of assignments

  static bool IsConstantName(std::string_view name) {
    return name == "true" || name == "True" || name == "false" || name == "False" ||
           name == "none" || name == "None";
  }

  Target NameTarget() {
    Target target;
    target.line = current().line;
    target.text = ExpectName();
    if (IsConstantName(target.text)) Error(StrCat("cannot assign to '", target.text, "'"));
    target.name = Intern(target.text);
    return target;
  }

  Target ToTarget(const Expr& expr) {
    Target target;
    target.line = expr.line;
    if (expr.kind == ExprKind::kName) {
      target.name = expr.name;
      target.text = expr.text;
    } else if (expr.kind == ExprKind::kTuple) {
      target.kind = Target::Kind::kTuple;
      for (const ExprPtr& item : expr.items) target.items.push_back(ToTarget(*item));
    } else {
      Error("an assignment needs a name, a tuple of names or namespace.attribute", expr.line);
    }
    return target;
  }

  Target ParseOneTarget(bool with_namespace) {
    if (current().type != TokenType::kName || IsConstantName(current().text)) {
      return ToTarget(*ParsePrimary());
    }
    Target target = NameTarget();
    if (with_namespace && SkipOperator(".")) {
      target.kind = Target::Kind::kNamespace;
      target.attribute = ExpectName();
    }
    return target;
  }

  // A target, or a tuple of them; in a for statement up to `in`.
  Target ParseTarget(bool with_namespace, bool until_in = false) {
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.line = current().line;
    bool has_comma = false;
    while (true) {
      if (!tuple.items.empty()) ExpectOperator(",");
      const TokenType type = current().type;
      if (type == TokenType::kVariableEnd || type == TokenType::kBlockEnd || AtOperator(")") ||
          (until_in && AtName("in"))) {
        break;
      }
      tuple.items.push_back(ParseOneTarget(with_namespace));
      if (!AtOperator(",")) break;
      has_comma = true;
    }
    if (has_comma) return tuple;
    if (tuple.items.empty()) {
      Error(StrCat("expected a name to assign to, got '", DescribeToken(current()), "'"));
    }
    return std::move(tuple.items[0]);
  }

  // ---- Statements; the name of the tag has been read

  StatementPtr ParseFor(int line) {
    auto loop = std::make_unique<ForStatement>(line);
    loop->target = ParseTarget(false, true);
    if (!SkipName("in")) Error(StrCat("expected 'in', got '", DescribeToken(current()), "'"));
    loop->iterable = ParseTuple(false, TupleEnd::kRecursive);
    if (SkipName("if")) loop->test = ParseExpression();
    loop->recursive = SkipName("recursive");
    loop->body.statements = ParseBody({"endfor", "else"}, false);
    if (Take().text == "else") loop->otherwise.statements = ParseBody({"endfor"});
    return loop;
  }

  StatementPtr ParseIf(int line) {
    auto statement = std::make_unique<IfStatement>(line);
    while (true) {
      ExprPtr test = ParseTuple(false);
      Body body = ParseBody({"elif", "else", "endif"}, false);
      statement->branches.emplace_back(std::move(test), std::move(body));
      const std::string tag = Take().text;
      if (tag == "else") statement->otherwise = ParseBody({"endif"});
      if (tag != "elif") return statement;
    }
  }

  StatementPtr ParseSet(int line) {
    Target target = ParseTarget(true);
    if (SkipOperator("=")) {
      auto statement = std::make_unique<SetStatement>(line);
      statement->target = std::move(target);
      statement->value = ParseTuple();
      return statement;
    }
    auto statement = std::make_unique<SetBlockStatement>(line);
    statement->target = std::move(target);
    if (AtOperator("|")) statement->filter = ParseFilters(nullptr);
    statement->body.statements = ParseBody({"endset"});
    return statement;
  }

  void ParseSignature(MacroDefinition* macro) {
    std::set<Name> seen;
    ExpectOperator("(");
    while (!AtOperator(")")) {
      if (!macro->parameters.empty()) ExpectOperator(",");
      const Target parameter = NameTarget();
      if (!seen.insert(parameter.name).second) {
        Error(StrCat("the parameter '", parameter.text, "' comes twice"), parameter.line);
      }
      if (SkipOperator("=")) {
        macro->defaults.push_back(ParseExpression());
      } else if (!macro->defaults.empty()) {
        Error("a parameter without default follows one with default");
      }
      macro->parameters.emplace_back(parameter.name, parameter.text);
    }
    ExpectOperator(")");
  }

  StatementPtr ParseMacro(int line) {
    auto statement = std::make_unique<MacroStatement>(line);
    const Target name = NameTarget();
    statement->target = name.name;
    statement->macro.name = name.text;
    ParseSignature(&statement->macro);
    statement->macro.body.statements = ParseBody({"endmacro"});
    return statement;
  }

  StatementPtr ParseCallBlock(int line) {
    auto statement = std::make_unique<CallBlockStatement>(line);
    statement->caller.anonymous = true;
    if (AtOperator("(")) ParseSignature(&statement->caller);
    statement->call = ParseExpression();
    if (statement->call->kind != ExprKind::kCall) Error("expected a call", line);
    statement->caller.body.statements = ParseBody({"endcall"});
    return statement;
  }

  StatementPtr ParseGeneration(int line) {
    auto statement = std::make_unique<CallBlockStatement>(line);
    statement->caller.anonymous = true;
    statement->caller.body.statements = ParseBody({"endgeneration"});
    return statement;
  }

  StatementPtr ParseFilterBlock(int line) {
    auto statement = std::make_unique<FilterBlockStatement>(line);
    statement->filter = ParseFilters(nullptr, true);
    statement->body.statements = ParseBody({"endfilter"});
    return statement;
  }

  StatementPtr ParseWith(int line) {
    auto statement = std::make_unique<WithStatement>(line);
    while (current().type != TokenType::kBlockEnd) {
      if (!statement->assignments.empty()) ExpectOperator(",");
      Target target = ParseTarget(false);
      ExpectOperator("=");
      statement->assignments.emplace_back(std::move(target), ParseExpression());
    }
    statement->body.statements = ParseBody({"endwith"});
    return statement;
  }

  StatementPtr ParseBlock(int line) {
    auto statement = std::make_unique<BlockStatement>(line);
    statement->name = ExpectName();
    statement->scoped = SkipName("scoped");
    statement->required = SkipName("required");
    if (!blocks_.insert(statement->name).second) {
      Error(StrCat("the block '", statement->name, "' is defined twice"), line);
    }
    statement->body.statements = ParseBody({"endblock"});
    SkipName(statement->name);
    return statement;
  }

  StatementPtr ParsePrint(int line) {
    auto statement = std::make_unique<OutputStatement>(line);
    while (current().type != TokenType::kBlockEnd) {
      if (!statement->parts.empty()) ExpectOperator(",");
      statement->parts.push_back({"", ParseExpression()});
    }
    return statement;
  }

  StatementPtr ParseAutoescape(int line) {
    auto statement = std::make_unique<AutoescapeStatement>(line);
    statement->enabled = ParseExpression();
    statement->body.statements = ParseBody({"endautoescape"});
    return statement;
  }

  // include, import, from and extends: read for their syntax alone.
  StatementPtr ParseRefused(const std::string& tag, int line) {
    ParseExpression();
    if (tag == "import") {
      if (!SkipName("as")) Error("expected 'as'");
      NameTarget();
    }
    if (tag == "from" && !SkipName("import")) Error("expected 'import'");
    while (tag != "extends" && (current().type == TokenType::kName || AtOperator(","))) Take();
    return std::make_unique<RefusedStatement>(line, tag);
  }

  std::set<std::string> blocks_;
};

}  // namespace

ParsedTemplate ParseTemplate(std::string_view source) {
  ParsedTemplate parsed = Parser(Tokenize(source)).Run();
  Analyze(&parsed);
  return parsed;
}

}  // namespace sluice::text::jinja
