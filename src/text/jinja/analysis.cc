// What Jinja settles when it compiles a template. Its scoping is static: a name that a frame (the
// template, a loop's body, a macro ...) sets before it reads it belongs to the frame from its start
// and hides a context variable of that name, unless an outer frame has the name too.

#include <bitset>

#include "text/jinja/ast.h"

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

// ---- The names of one frame, in the order in which Jinja looks at them

void SeeBody(const Body& body, Frame* frame);

void SeeTarget(const Expr& target, Frame* frame, void (Frame::*set)(Name)) {
  if (target.kind == ExprKind::kName) (frame->*set)(target.name);
  if (target.kind == ExprKind::kAttribute) frame->Load(target.items[0]->name);
  if (target.kind != ExprKind::kTuple) return;
  for (const ExprPtr& item : target.items) SeeTarget(*item, frame, set);
}

void SeeExpr(const Expr* expr, Frame* frame) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::kName) frame->Load(expr->name);
  for (const ExprPtr& item : expr->items) SeeExpr(item.get(), frame);
  for (const ExprPtr& item : expr->positional) SeeExpr(item.get(), frame);
  for (const auto& [name, item] : expr->named) SeeExpr(item.get(), frame);
}

void SeeIf(const Statement& statement, Frame* frame) {
  SeeExpr(statement.branches[0].first.get(), frame);
  // An elif is an `if` of its own, after the first branch's copy.
  std::vector<Frame> copies(1, *frame);
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
  SeeBody(statement.otherwise.statements, &copies.back());
  frame->Merge(copies);
}

// Bodies of inner frames are looked at when their turn comes.
void SeeStatement(const Statement& statement, Frame* frame) {
  for (const OutputPart& part : statement.parts) SeeExpr(part.expr.get(), frame);
  if (!statement.branches.empty()) SeeIf(statement, frame);
  // A set block's filters belong to the frame of its body, and a loop's target to the loop's.
  if (statement.kind != StatementKind::kSetBlock) SeeExpr(statement.value.get(), frame);
  if (statement.target != nullptr && statement.kind != StatementKind::kFor) {
    SeeTarget(*statement.target, frame, &Frame::Store);
  }
}

void SeeBody(const Body& body, Frame* frame) {
  for (const auto& statement : body) SeeStatement(*statement, frame);
}

// ---- Frames

void AnalyzeInside(Statement* statement, const Frame& frame);

// Analyzes a body whose frame has already seen what comes before its statements.
void AnalyzeFrame(ScopedBody* body, Frame frame) {
  SeeBody(body->statements, &frame);
  body->hidden = frame.hidden();
  for (const auto& statement : body->statements) AnalyzeInside(statement.get(), frame);
}

// Analyzes the frames inside a statement that stands in `frame`.
void AnalyzeInside(Statement* statement, const Frame& frame) {
  if (statement->kind == StatementKind::kIf) {
    for (const auto& [test, body] : statement->branches) {
      for (const auto& inner : body) AnalyzeInside(inner.get(), frame);
    }
    for (const auto& inner : statement->otherwise.statements) AnalyzeInside(inner.get(), frame);
    return;
  }
  if (statement->kind == StatementKind::kOutput || statement->kind == StatementKind::kSet) return;
  Frame body(&frame);
  if (statement->kind == StatementKind::kFor) {
    body.Declare(kLoop);
    SeeTarget(*statement->target, &body, &Frame::Declare);
    AnalyzeFrame(&statement->otherwise, Frame(&frame));
  }
  for (const Parameter& parameter : statement->parameters) body.Declare(parameter.name);
  for (const Parameter& parameter : statement->parameters) {
    SeeExpr(parameter.fallback.get(), &body);
  }
  if (statement->takes_caller) body.Declare(kCaller);
  AnalyzeFrame(&statement->body, body);
}

}  // namespace

void Analyze(ParsedTemplate* parsed) { AnalyzeFrame(&parsed->body, Frame(nullptr)); }

}  // namespace sluice::text::jinja
