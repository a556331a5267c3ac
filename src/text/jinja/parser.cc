#include <algorithm>
#include <initializer_list>

#include "base/str_cat.h"
#include "text/jinja/builtins.h"
#include "text/jinja/expression_parser.h"
#include "text/jinja/restore.h"

namespace sluice::text::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  ParsedTemplate Run() {
    ParsedTemplate parsed;
    parsed.body.statements = ParseUntil({});
    if (unknown_) throw *unknown_;
    return parsed;
  }

 private:
  using EndTags = std::initializer_list<std::string_view>;
  using StatementPtr = std::unique_ptr<Statement>;

  bool AtAny(EndTags tags) const {
    return std::any_of(tags.begin(), tags.end(), [this](auto tag) { return AtName(tag); });
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
    while (current().type != TokenType::kEnd) {
      const Token token = Take();
      if (token.type == TokenType::kBlockBegin) {
        if (AtAny(tags)) return body;
        body.push_back(ParseStatement(tags));
        Expect(TokenType::kBlockEnd, "%}");
        continue;
      }
      if (body.empty() || body.back()->kind != StatementKind::kOutput) {
        body.push_back(std::make_unique<Statement>(StatementKind::kOutput, token.line));
      }
      auto& parts = body.back()->parts;
      if (token.type == TokenType::kData) {
        parts.push_back({token.text, nullptr});
      } else {
        parts.push_back({"", ParseTuple()});
        Expect(TokenType::kVariableEnd, "}}");
      }
    }
    if (tags.size() > 0) Error(StrCat("the template ends before ", Listed(tags)));
    return body;
  }

  // The body of a tag: the rest of the opening tag, statements, and the name of the end tag (left
  // as the current token unless `drop`).
  Body ParseBody(EndTags tags, bool drop = true) {
    SkipOperator(":");
    Expect(TokenType::kBlockEnd, "%}");
    Body body = ParseUntil(tags);
    if (drop) Take();
    return body;
  }

  // A body with variables of its own, where unknown filters count again (see unknown_).
  Body ParseFrame(EndTags tags, bool in_loop, bool drop = true) {
    const Restore<bool> restore_condition(&in_condition_, false);
    const Restore<bool> restore_loop(&in_loop_, in_loop);
    return ParseBody(tags, drop);
  }

  StatementPtr ParseStatement(EndTags outer) {
    const Restore<int> nesting(&nesting_, Deeper());
    struct Tag {
      std::string_view name;
      StatementKind kind;
      void (Parser::*parse)(Statement*);
    };
    static constexpr Tag kTags[] = {
        {"for", StatementKind::kFor, &Parser::ParseFor},
        {"if", StatementKind::kIf, &Parser::ParseIf},
        {"set", StatementKind::kSet, &Parser::ParseSet},
        {"macro", StatementKind::kMacro, &Parser::ParseMacro},
        {"call", StatementKind::kCallBlock, &Parser::ParseCallBlock},
        {"filter", StatementKind::kFilterBlock, &Parser::ParseFilterBlock},
        {"generation", StatementKind::kGeneration, &Parser::ParseGeneration},
        {"break", StatementKind::kBreak, &Parser::ParseJump},
        {"continue", StatementKind::kContinue, &Parser::ParseJump},
    };
    const Token token = Expect(TokenType::kName, "the name of a tag");
    for (const Tag& tag : kTags) {
      if (tag.name != token.text) continue;
      auto statement = std::make_unique<Statement>(tag.kind, token.line);
      (this->*tag.parse)(statement.get());
      return statement;
    }
    if (token.text == "else" || token.text == "elif" || token.text.substr(0, 3) == "end") {
      const std::string open = outer.size() == 0 ? "no block is open" : Listed(outer) + " is due";
      Error(StrCat("unexpected {% ", token.text, " %}: ", open), token.line);
    }
    std::string names = "raw";
    for (const Tag& tag : kTags) names += StrCat(", ", tag.name);
    Error(NotSupported("tag", token.text, names), token.line);
  }

  // ---- Targets of assignments

  ExprPtr NameTarget() {
    ExprPtr target = MakeExpr(ExprKind::kName, current().line);
    target->text = ExpectName();
    if (ConstantOf(target->text)) Error(StrCat("cannot assign to '", target->text, "'"));
    target->name = Intern(target->text);
    return target;
  }

  // A name, a tuple of targets in parentheses or, in {% set %}, namespace.attribute.
  ExprPtr ParseOneTarget(bool with_namespace) {
    const Restore<int> nesting(&nesting_, Deeper());
    if (SkipOperator("(")) {
      ExprPtr tuple = ParseTarget(false);
      ExpectOperator(")");
      return tuple;
    }
    const int line = current().line;
    ExprPtr target = NameTarget();
    if (target->name == kLoop && in_loop_) {
      Error("the variable 'loop' cannot be assigned to in a for loop", line);
    }
    if (!with_namespace || !SkipOperator(".")) return target;
    ExprPtr attribute = MakeExpr(ExprKind::kAttribute, line);
    AddItem(attribute.get(), std::move(target));
    attribute->text = ExpectName();
    return attribute;
  }

  // A target, or a tuple of them.
  ExprPtr ParseTarget(bool with_namespace) {
    ExprPtr tuple = MakeExpr(ExprKind::kTuple, current().line);
    bool has_comma = false;
    while (!AtTagEnd() && !AtOperator(")") && !AtName("in")) {
      AddItem(tuple.get(), ParseOneTarget(with_namespace));
      if (!SkipOperator(",")) break;
      has_comma = true;
    }
    if (has_comma) return tuple;
    if (tuple->items.empty()) Unexpected("expected a name to assign to, got");
    return std::move(tuple->items[0]);
  }

  // ---- Statements; the name of the tag has been read

  void ParseFor(Statement* loop) {
    {
      const Restore<bool> restore_loop(&in_loop_, true);
      loop->target = ParseTarget(false);
    }
    if (!SkipName("in")) Unexpected("expected 'in', got");
    loop->value = ParseTuple(false);
    if (SkipName("if")) {
      const Restore<bool> restore_condition(&in_condition_, false);
      loop->test = ParseExpression();
    }
    if (AtName("recursive"))
      Error(NotSupported("marker", "recursive", "a macro that calls itself"));
    loop->body.statements = ParseFrame({"endfor", "else"}, true, false);
    if (Take().text == "else") loop->otherwise.statements = ParseFrame({"endfor"}, in_loop_);
  }

  void ParseIf(Statement* statement) {
    const Restore<bool> restore_condition(&in_condition_, true);
    while (true) {
      ExprPtr test = ParseTuple(false);
      Body body = ParseBody({"elif", "else", "endif"}, false);
      statement->branches.emplace_back(std::move(test), std::move(body));
      const std::string tag = Take().text;
      if (tag == "else") statement->otherwise.statements = ParseBody({"endif"});
      if (tag != "elif") return;
    }
  }

  void ParseSet(Statement* statement) {
    statement->target = ParseTarget(true);
    if (SkipOperator("=")) {
      statement->value = ParseTuple();
      return;
    }
    statement->kind = StatementKind::kSetBlock;
    const Restore<bool> restore_condition(&in_condition_, false);
    if (AtOperator("|")) statement->value = ParseFilters(nullptr);
    statement->body.statements = ParseFrame({"endset"}, in_loop_);
  }

  void ParseSignature(Statement* macro) {
    ExpectOperator("(");
    while (!AtOperator(")")) {
      const int line = current().line;
      ExprPtr name = NameTarget();
      if (macro->parameters.size() == kNamesOfCallMax) {
        Error(StrCat("a macro has more than ", kNamesOfCallMax, " parameters"), line);
      }
      for (const Parameter& other : macro->parameters) {
        if (other.name == name->name) {
          Error(StrCat("the parameter '", name->text, "' comes twice"), line);
        }
      }
      ExprPtr fallback = SkipOperator("=") ? ParseExpression() : nullptr;
      if (fallback == nullptr && !macro->parameters.empty() &&
          macro->parameters.back().fallback != nullptr) {
        Error("a parameter without default follows one with default", line);
      }
      macro->parameters.push_back({name->name, name->text, std::move(fallback)});
      if (!SkipOperator(",")) break;
    }
    ExpectOperator(")");
  }

  void ParseMacroBody(Statement* macro, std::string_view end_tag) {
    const Restore<bool> restore_macro(&in_macro_, true);
    const bool read_before = caller_read_;
    caller_read_ = false;
    macro->body.statements = ParseFrame({end_tag}, false);
    macro->takes_caller = caller_read_;
    for (const Parameter& parameter : macro->parameters) {
      if (parameter.name == kCaller) macro->takes_caller = false;
    }
    caller_read_ = caller_read_ || read_before;
  }

  void ParseMacro(Statement* macro) {
    macro->target = NameTarget();
    ParseSignature(macro);
    ParseMacroBody(macro, "endmacro");
  }

  void ParseCallBlock(Statement* statement) {
    const int line = current().line;
    if (AtOperator("(")) ParseSignature(statement);
    statement->value = ParseExpression();
    if (statement->value->kind != ExprKind::kCall) Error("expected a call", line);
    ParseMacroBody(statement, "endcall");
  }

  void ParseFilterBlock(Statement* statement) {
    const Restore<bool> restore_condition(&in_condition_, false);
    statement->value = ParseFilters(nullptr, true);
    statement->body.statements = ParseFrame({"endfilter"}, in_loop_);
  }

  void ParseGeneration(Statement* statement) {
    statement->body.statements = ParseFrame({"endgeneration"}, false);
  }

  void ParseJump(Statement* statement) {
    if (in_loop_) return;
    const std::string_view name = statement->kind == StatementKind::kBreak ? "break" : "continue";
    Error(StrCat("{% ", name, " %} is outside of a for loop"), statement->line);
  }

  bool in_loop_ = false;
};

}  // namespace

ParsedTemplate ParseTemplate(std::string_view source) {
  ParsedTemplate parsed = Parser(Tokenize(source)).Run();
  Analyze(&parsed);
  return parsed;
}

}  // namespace sluice::text::jinja
