// What Jinja settles when it compiles a template. Its scoping is static: a name that a frame (the
// template, a loop's body, a macro ...) sets before it reads it belongs to the frame from its start
// and hides a context variable of that name, unless an outer frame has the name too.

#include <bitset>
#include <set>

#include "base/str_cat.h"
#include "text/jinja/filters.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/tests.h"

namespace sluice::text::jinja {
namespace {

using NameSet = std::bitset<kNamesMax>;

// The names of one frame as far as they have been seen.
class Frame {
 public:
  explicit Frame(const Frame* parent) : parent_(parent) {}

  bool Knows(Name name) const {
    return names_[Bit(name)] || (parent_ != nullptr && parent_->Knows(name));
  }
  void Load(Name name) {
    if (!Knows(name)) names_.set(Bit(name));
  }
  void Declare(Name name) {
    stores_.set(Bit(name));
    names_.set(Bit(name));
  }
  void Store(Name name) {
    stores_.set(Bit(name));
    if (names_[Bit(name)]) return;
    names_.set(Bit(name));
    if (parent_ == nullptr || !parent_->Knows(name)) hidden_.set(Bit(name));
  }
  // Takes over what the branches of an `if`, which began as copies, have seen. What only some of
  // them set does not hide.
  void Merge(const std::vector<Frame>& branches) {
    NameSet branch_stores;
    for (const Frame& branch : branches) {
      names_ |= branch.names_;
      branch_stores |= branch.stores_;
      hidden_ |= branch.hidden_;
    }
    hidden_ &= ~(branch_stores & ~stores_);
    stores_ |= branch_stores;
  }
  std::vector<Name> hidden() const {
    std::vector<Name> out;
    if (hidden_.none()) return out;
    for (size_t i = 0; i < kNamesMax; ++i) {
      if (hidden_[i]) out.push_back(static_cast<Name>(i));
    }
    return out;
  }

 private:
  static size_t Bit(Name name) { return static_cast<size_t>(name); }

  const Frame* parent_;
  NameSet names_;
  NameSet stores_;
  NameSet hidden_;
};

// Collects which of the special names caller, kwargs and varargs a body reads before it sets them.
struct SpecialNames {
  std::set<Name> watched = {kCaller, kKwargs, kVarargs};
  std::set<Name> read;
};

class Analyzer {
 public:
  explicit Analyzer(ParsedTemplate* parsed) : parsed_(parsed) {}

  void Run() {
    AnalyzeFrame(&parsed_->body, nullptr, false, [](Frame*) {});
  }

 private:
  // ---- The names of one frame, in the order in which Jinja looks at them

  void SeeTarget(const Target& target, Frame* frame, bool declare) {
    switch (target.kind) {
      case Target::Kind::kName:
        declare ? frame->Declare(target.name) : frame->Store(target.name);
        break;
      case Target::Kind::kNamespace:
        frame->Load(target.name);
        break;
      case Target::Kind::kTuple:
        for (const Target& item : target.items) SeeTarget(item, frame, declare);
        break;
    }
  }

  void SeeExpr(const Expr* expr, Frame* frame) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName) frame->Load(expr->name);
    for (const ExprPtr& item : expr->items) SeeExpr(item.get(), frame);
    if (expr->arguments == nullptr) return;
    for (const ExprPtr& item : expr->arguments->positional) SeeExpr(item.get(), frame);
    for (const auto& [name, item] : expr->arguments->named) SeeExpr(item.get(), frame);
    SeeExpr(expr->arguments->spread.get(), frame);
    SeeExpr(expr->arguments->spread_named.get(), frame);
  }

  void SeeIf(const IfStatement& statement, Frame* frame) {
    SeeExpr(statement.branches[0].first.get(), frame);
    // An elif is an `if` of its own, after the first branch's copy.
    std::vector<Frame> copies;
    copies.push_back(*frame);
    SeeBody(statement.branches[0].second, &copies.back());
    copies.push_back(*frame);
    for (size_t i = 1; i < statement.branches.size(); ++i) {
      Frame& chain = copies.back();
      SeeExpr(statement.branches[i].first.get(), &chain);
      Frame branch = chain;
      SeeBody(statement.branches[i].second, &branch);
      chain.Merge({branch});
    }
    copies.push_back(*frame);
    SeeBody(statement.otherwise, &copies.back());
    frame->Merge(copies);
  }

  void SeeBody(const Body& body, Frame* frame) {
    for (const auto& statement : body) SeeStatement(*statement, frame);
  }

  // Bodies of inner frames are looked at when their turn comes.
  void SeeStatement(const Statement& base, Frame* frame) {
    switch (base.kind) {
      case StatementKind::kOutput:
        for (const auto& part : static_cast<const OutputStatement&>(base).parts) {
          SeeExpr(part.expr.get(), frame);
        }
        break;
      case StatementKind::kFor:
        SeeExpr(static_cast<const ForStatement&>(base).iterable.get(), frame);
        break;
      case StatementKind::kIf:
        SeeIf(static_cast<const IfStatement&>(base), frame);
        break;
      case StatementKind::kSet:
        SeeExpr(static_cast<const SetStatement&>(base).value.get(), frame);
        SeeTarget(static_cast<const SetStatement&>(base).target, frame, false);
        break;
      case StatementKind::kSetBlock:
        SeeTarget(static_cast<const SetBlockStatement&>(base).target, frame, false);
        break;
      case StatementKind::kMacro:
        frame->Store(static_cast<const MacroStatement&>(base).target);
        break;
      case StatementKind::kCallBlock:
        SeeExpr(static_cast<const CallBlockStatement&>(base).call.get(), frame);
        break;
      case StatementKind::kFilterBlock:
        SeeExpr(static_cast<const FilterBlockStatement&>(base).filter.get(), frame);
        break;
      case StatementKind::kWith:
        for (const auto& [target, value] : static_cast<const WithStatement&>(base).assignments) {
          SeeExpr(value.get(), frame);
        }
        break;
      default:
        break;
    }
  }

  // ---- Frames

  // Analyzes a body that is a frame of its own. `declare` sees what comes before its statements.
  template <class Declare>
  void AnalyzeFrame(ScopedBody* body, const Frame* parent, bool in_loop, Declare declare) {
    Frame frame(parent);
    declare(&frame);
    SeeBody(body->statements, &frame);
    body->hidden = frame.hidden();
    CheckBody(body->statements, frame, in_loop, false);
  }

  void AnalyzeMacro(MacroDefinition* macro, const Frame* parent, int line) {
    SpecialNames special;
    WatchBody(macro->body.statements, &special);
    for (const auto& [name, text] : macro->parameters) {
      if (name == kKwargs) special.read.erase(kKwargs);
      if (name == kVarargs) special.read.erase(kVarargs);
    }
    macro->takes_caller = special.read.count(kCaller) > 0;
    macro->takes_kwargs = special.read.count(kKwargs) > 0;
    macro->takes_varargs = special.read.count(kVarargs) > 0;
    for (size_t i = 0; i + macro->defaults.size() < macro->parameters.size(); ++i) {
      if (macro->takes_caller && macro->parameters[i].first == kCaller) {
        Error("the parameter 'caller' of a macro that uses it must have a default", line);
      }
    }
    AnalyzeFrame(&macro->body, parent, false, [&](Frame* frame) {
      for (const auto& [name, text] : macro->parameters) frame->Declare(name);
      for (const ExprPtr& value : macro->defaults) SeeExpr(value.get(), frame);
      for (Name name : special.read) frame->Declare(name);
    });
    for (const ExprPtr& value : macro->defaults) CheckExpr(value.get(), false);
  }

  void AnalyzeFor(ForStatement* loop, const Frame& frame, bool soft, bool in_loop) {
    CheckLoopTarget(loop->target);
    CheckExpr(loop->iterable.get(), soft);
    CheckExpr(loop->test.get(), false);
    AnalyzeFrame(&loop->body, &frame, true, [&](Frame* inner) {
      inner->Declare(kLoop);
      SeeTarget(loop->target, inner, true);
    });
    AnalyzeFrame(&loop->otherwise, &frame, in_loop && !loop->recursive, [](Frame*) {});
  }

  // ---- Checks; `soft`: an unknown filter or test is an error only when it is reached

  [[noreturn]] static void Error(const std::string& message, int line) {
    throw SyntaxFailure{message, line};
  }

  static void CheckLoopTarget(const Target& target) {
    if (target.kind == Target::Kind::kName && target.name == kLoop) {
      Error("the variable 'loop' cannot be assigned to in a for loop", target.line);
    }
    for (const Target& item : target.items) CheckLoopTarget(item);
  }

  void CheckExpr(const Expr* expr, bool soft) {
    if (expr == nullptr) return;
    soft = soft || expr->kind == ExprKind::kConditional;
    if (expr->kind == ExprKind::kFilter && expr->filter == nullptr && !soft) {
      Error(StrCat("there is no filter named '", expr->text, "'"), expr->line);
    }
    if (expr->kind == ExprKind::kTest && expr->test == nullptr && !soft) {
      Error(StrCat("there is no test named '", expr->text, "'"), expr->line);
    }
    for (const ExprPtr& item : expr->items) CheckExpr(item.get(), soft);
    if (expr->arguments == nullptr) return;
    for (const ExprPtr& item : expr->arguments->positional) CheckExpr(item.get(), soft);
    for (const auto& [name, item] : expr->arguments->named) CheckExpr(item.get(), soft);
    CheckExpr(expr->arguments->spread.get(), soft);
    CheckExpr(expr->arguments->spread_named.get(), soft);
  }

  void CheckBody(const Body& body, const Frame& frame, bool in_loop, bool soft) {
    for (const auto& statement : body) CheckStatement(statement.get(), frame, in_loop, soft);
  }

  void CheckIf(IfStatement* statement, const Frame& frame, bool in_loop) {
    for (const auto& [test, body] : statement->branches) {
      CheckExpr(test.get(), true);
      CheckBody(body, frame, in_loop, true);
    }
    CheckBody(statement->otherwise, frame, in_loop, true);
  }

  void CheckStatement(Statement* base, const Frame& frame, bool in_loop, bool soft) {
    const auto plain = [](Frame*) {};
    switch (base->kind) {
      case StatementKind::kOutput:
        for (auto& part : static_cast<OutputStatement*>(base)->parts) {
          CheckExpr(part.expr.get(), soft);
        }
        break;
      case StatementKind::kFor:
        AnalyzeFor(static_cast<ForStatement*>(base), frame, soft, in_loop);
        break;
      case StatementKind::kIf:
        CheckIf(static_cast<IfStatement*>(base), frame, in_loop);
        break;
      case StatementKind::kSet: {
        auto* statement = static_cast<SetStatement*>(base);
        if (in_loop) CheckLoopTarget(statement->target);
        CheckExpr(statement->value.get(), soft);
        break;
      }
      case StatementKind::kSetBlock: {
        auto* statement = static_cast<SetBlockStatement*>(base);
        if (in_loop) CheckLoopTarget(statement->target);
        AnalyzeFrame(&statement->body, &frame, in_loop, plain);
        CheckExpr(statement->filter.get(), false);
        break;
      }
      case StatementKind::kMacro: {
        auto* statement = static_cast<MacroStatement*>(base);
        AnalyzeMacro(&statement->macro, &frame, statement->line);
        break;
      }
      case StatementKind::kCallBlock: {
        auto* statement = static_cast<CallBlockStatement*>(base);
        CheckExpr(statement->call.get(), soft);
        AnalyzeMacro(&statement->caller, &frame, statement->line);
        break;
      }
      case StatementKind::kFilterBlock: {
        auto* statement = static_cast<FilterBlockStatement*>(base);
        AnalyzeFrame(&statement->body, &frame, in_loop, plain);
        CheckExpr(statement->filter.get(), false);
        break;
      }
      case StatementKind::kWith: {
        auto* statement = static_cast<WithStatement*>(base);
        for (auto& [target, value] : statement->assignments) CheckExpr(value.get(), soft);
        AnalyzeFrame(&statement->body, &frame, in_loop, [&](Frame* inner) {
          for (auto& [target, value] : statement->assignments) SeeTarget(target, inner, true);
        });
        break;
      }
      case StatementKind::kBlock:
        AnalyzeFrame(&static_cast<BlockStatement*>(base)->body, nullptr, false, plain);
        break;
      case StatementKind::kAutoescape:
        AnalyzeFrame(&static_cast<AutoescapeStatement*>(base)->body, &frame, in_loop, plain);
        break;
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        if (!in_loop) {
          Error(base->kind == StatementKind::kBreak ? "{% break %} is outside of a for loop"
                                                    : "{% continue %} is outside of a for loop",
                base->line);
        }
        break;
      case StatementKind::kRefused:
        break;
    }
  }

  // ---- Special names of macros: the whole subtree counts, inner macros too

  static void WatchName(Name name, bool load, SpecialNames* special) {
    if (special->watched.count(name) == 0) return;
    if (load) {
      special->read.insert(name);
    } else {
      special->watched.erase(name);
    }
  }

  void WatchTarget(const Target& target, SpecialNames* special) {
    if (target.kind == Target::Kind::kName) WatchName(target.name, false, special);
    for (const Target& item : target.items) WatchTarget(item, special);
  }

  void WatchExpr(const Expr* expr, SpecialNames* special) {
    Frame seen(nullptr);
    SeeExpr(expr, &seen);
    for (Name name : {kCaller, kKwargs, kVarargs}) {
      if (seen.Knows(name)) WatchName(name, true, special);
    }
  }

  void WatchBody(const Body& body, SpecialNames* special) {
    for (const auto& statement : body) WatchStatement(*statement, special);
  }

  void WatchMacro(const MacroDefinition& macro, SpecialNames* special) {
    for (const auto& [name, text] : macro.parameters) WatchName(name, false, special);
    for (const ExprPtr& value : macro.defaults) WatchExpr(value.get(), special);
    WatchBody(macro.body.statements, special);
  }

  void WatchStatement(const Statement& base, SpecialNames* special) {
    switch (base.kind) {
      case StatementKind::kOutput:
        for (const auto& part : static_cast<const OutputStatement&>(base).parts) {
          WatchExpr(part.expr.get(), special);
        }
        break;
      case StatementKind::kFor: {
        const auto& loop = static_cast<const ForStatement&>(base);
        WatchTarget(loop.target, special);
        WatchExpr(loop.iterable.get(), special);
        WatchBody(loop.body.statements, special);
        WatchBody(loop.otherwise.statements, special);
        WatchExpr(loop.test.get(), special);
        break;
      }
      case StatementKind::kIf: {
        const auto& statement = static_cast<const IfStatement&>(base);
        for (const auto& [test, body] : statement.branches) {
          WatchExpr(test.get(), special);
          WatchBody(body, special);
        }
        WatchBody(statement.otherwise, special);
        break;
      }
      case StatementKind::kSet:
        WatchTarget(static_cast<const SetStatement&>(base).target, special);
        WatchExpr(static_cast<const SetStatement&>(base).value.get(), special);
        break;
      case StatementKind::kSetBlock:
        WatchTarget(static_cast<const SetBlockStatement&>(base).target, special);
        WatchExpr(static_cast<const SetBlockStatement&>(base).filter.get(), special);
        WatchBody(static_cast<const SetBlockStatement&>(base).body.statements, special);
        break;
      case StatementKind::kMacro:
        WatchMacro(static_cast<const MacroStatement&>(base).macro, special);
        break;
      case StatementKind::kCallBlock:
        WatchExpr(static_cast<const CallBlockStatement&>(base).call.get(), special);
        WatchMacro(static_cast<const CallBlockStatement&>(base).caller, special);
        break;
      case StatementKind::kFilterBlock:
        WatchBody(static_cast<const FilterBlockStatement&>(base).body.statements, special);
        WatchExpr(static_cast<const FilterBlockStatement&>(base).filter.get(), special);
        break;
      case StatementKind::kWith:
        for (const auto& [target, value] : static_cast<const WithStatement&>(base).assignments) {
          WatchTarget(target, special);
          WatchExpr(value.get(), special);
        }
        WatchBody(static_cast<const WithStatement&>(base).body.statements, special);
        break;
      case StatementKind::kAutoescape:
        WatchBody(static_cast<const AutoescapeStatement&>(base).body.statements, special);
        break;
      default:
        break;
    }
  }

  ParsedTemplate* parsed_;
};

}  // namespace

void Analyze(ParsedTemplate* parsed) { Analyzer(parsed).Run(); }

}  // namespace sluice::text::jinja
