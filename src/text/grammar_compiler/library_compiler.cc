#include "text/grammar_compiler/library_compiler.h"

// The library takes masks from its cache of what rules of several grammars have in common, and only
// in this source of its own says how that is reached.
#include <grammar_compiler.cc>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/grammar_compiler/automaton_masks.h"
#include "text/grammar_compiler/written_arguments.h"

namespace sluice::text {
namespace {

using ExprType = xgrammar::Grammar::Impl::GrammarExprType;

// Masks of rules that grammars have in common.
constexpr size_t kRuleCacheBytes = 48 << 20;

// No whitespace between the parts of a JSON text: a model could write it without end. What a schema
// does not name it permits.
xgrammar::Grammar ReadSchema(const std::string& schema) {
  if (schema.find(kExtended) != std::string::npos) {
    picojson::value read;
    const bool is_object = picojson::parse(read, schema).empty() && read.is<picojson::object>();
    if (is_object && read.contains(kExtended)) return ReadExtendedSchema(read);
  }
  return xgrammar::Grammar::FromJSONSchema(schema, /*any_whitespace=*/false,
                                           /*indent=*/std::nullopt, std::pair{",", ":"},
                                           /*strict_mode=*/false);
}

// A structural tag has JSON with whitespace alone; here its schemas become rules without.
void MakeCompact(picojson::value* part) {
  if (part->is<picojson::array>()) {
    for (picojson::value& inner : part->get<picojson::array>()) MakeCompact(&inner);
    return;
  }
  if (!part->is<picojson::object>()) return;
  picojson::object& object = part->get<picojson::object>();
  const auto is = [&](const char* key, const char* text) {
    return object.count(key) != 0 && object[key].is<std::string>() &&
           object[key].get<std::string>() == text;
  };
  const auto become = [&](const xgrammar::Grammar& grammar) {
    picojson::object rules;
    rules["type"] = picojson::value("grammar");
    rules["grammar"] = picojson::value(grammar.ToString());
    *part = picojson::value(std::move(rules));
  };
  const bool json = object.count("style") == 0 || is("style", "json");
  if (is("type", "json_schema") && json && object.count("json_schema") != 0) {
    const picojson::value& schema = object["json_schema"];
    if (object.count(kWrittenAs) != 0) {
      return become(ReadWrittenArguments(schema, object[kWrittenAs]));
    }
    if (object.count("max_whitespace_cnt") == 0) return become(ReadSchema(schema.serialize()));
  }
  const std::vector<std::string> keys = object.ordered_keys();
  for (const std::string& key : keys) MakeCompact(&object[key]);
}

xgrammar::Grammar ReadStructuralTag(const std::string& text,
                                    const xgrammar::TokenizerInfo& vocabulary) {
  picojson::value tag;
  if (const std::string error = picojson::parse(tag, text); !error.empty()) {
    throw std::runtime_error(error);
  }
  MakeCompact(&tag);
  auto read = xgrammar::Grammar::FromStructuralTag(tag.serialize(), vocabulary);
  if (auto* error = std::get_if<xgrammar::StructuralTagError>(&read)) {
    throw std::runtime_error(
        std::visit([](const auto& e) { return std::string(e.what()); }, *error));
  }
  return std::get<xgrammar::Grammar>(std::move(read));
}

xgrammar::Grammar Read(const Frame& frame, const xgrammar::TokenizerInfo& vocabulary) {
  switch (frame.kind) {
    case FrameKind::kJsonSchema:
      return ReadSchema(frame.bytes);
    case FrameKind::kRegex:
      return xgrammar::Grammar::FromRegex(frame.bytes);
    case FrameKind::kStructuralTag:
      return ReadStructuralTag(frame.bytes, vocabulary);
    default:
      return xgrammar::Grammar::FromEBNF(frame.bytes);
  }
}

// Writes numbers for the texts that stand for them.
class NumberWriter : public xgrammar::GrammarMutator {
 private:
  int32_t VisitByteString(const GrammarExpr& literal) final {
    std::string bytes;
    for (const int32_t byte : literal) bytes += static_cast<char>(byte);
    const std::string begin = "\"" + std::string(kNumberMark);
    for (size_t at = bytes.find(begin); at != std::string::npos; at = bytes.find(begin, at)) {
      const size_t end = bytes.find('"', at + begin.size());
      if (end == std::string::npos) break;
      bytes.erase(end, 1).erase(at, begin.size());
    }
    return builder_->AddByteString(bytes);
  }
};

bool IsPattern(const xgrammar::Grammar& grammar, int32_t rule) {
  const auto body = grammar->GetGrammarExpr(grammar->GetRule(rule).body_expr_id);
  return body.type == ExprType::kRegex;
}

bool HasPatterns(const xgrammar::Grammar& grammar) {
  for (int32_t rule = 0; rule < grammar->NumRules(); ++rule) {
    if (IsPattern(grammar, rule)) return true;
  }
  return false;
}

// Of the rule's lookahead, as far as it is bytes.
TextBehind Behind(const xgrammar::Grammar& grammar, int32_t rule) {
  TextBehind behind;
  const int32_t id = grammar->GetRule(rule).lookahead_assertion_id;
  if (id < 0) return behind;
  behind.always = grammar->GetRule(rule).is_exact_lookahead;
  for (const int32_t part : grammar->GetGrammarExpr(id)) {
    const auto expr = grammar->GetGrammarExpr(part);
    if (expr.type != ExprType::kByteString) break;
    for (const int32_t byte : expr) behind.bytes += static_cast<char>(byte);
  }
  return behind;
}

}  // namespace

struct LibraryCompiler::State {
  explicit State(const xgrammar::TokenizerInfo& info)
      : vocabulary(info),
        cache(kRuleCacheBytes),
        compiler(info, /*max_threads=*/1, cache),
        masks(info) {}

  // Puts the masks of patterns where the library looks for them.
  void Prepare(const xgrammar::Grammar& read);
  void Prepare(const xgrammar::Grammar& grammar, int32_t rule);

  const xgrammar::TokenizerInfo vocabulary;
  xgrammar::RuleLevelCache cache;
  xgrammar::GrammarCompilerSub compiler;
  AutomatonMasks masks;
};

LibraryCompiler::LibraryCompiler(const xgrammar::TokenizerInfo& vocabulary)
    : state_(std::make_unique<State>(vocabulary)) {}

LibraryCompiler::~LibraryCompiler() = default;

void LibraryCompiler::State::Prepare(const xgrammar::Grammar& read) {
  xgrammar::Grammar grammar = xgrammar::GrammarOptimizer::Apply(read);
  xgrammar::GrammarFSMHasher::Apply(&grammar);
  for (int32_t rule = 0; rule < grammar->NumRules(); ++rule) {
    if (IsPattern(grammar, rule)) Prepare(grammar, rule);
  }
}

void LibraryCompiler::State::Prepare(const xgrammar::Grammar& grammar, int32_t rule) {
  const auto& info = grammar->GetRule(rule);
  const auto& fsm = grammar->per_rule_fsms[rule];
  std::optional<uint64_t> hash = grammar->per_rule_fsm_hashes[rule];
  if (!fsm || !hash || info.is_lazy || info.max_chars >= 0) return;
  const TextBehind behind = Behind(grammar, rule);
  if (info.lookahead_assertion_id >= 0) {
    const auto look =
        xgrammar::GrammarFSMHasher::HashSequence(grammar, info.lookahead_assertion_id);
    if (!look || behind.bytes.empty()) return;
    hash = xgrammar::HashCombine(*hash, *look, info.is_exact_lookahead);
  }
  std::unordered_map<int32_t, int32_t> normalized;
  for (const auto& [state, other] : grammar->per_rule_fsm_new_state_ids[rule]) {
    normalized.emplace(state, other);
  }
  if (normalized.empty()) return;
  const int nodes = fsm->GetNodeNum(), edges = fsm->GetEdgeNum();
  if (cache.GetCache(*hash, normalized.begin()->second, nodes, edges)) return;
  const auto automaton = ByteAutomaton::Make(fsm->GetFsm());
  if (!automaton) return;
  masks.Make(*automaton, behind, [&](int32_t state, AutomatonMasks::Mask mask) {
    const auto found = normalized.find(state);
    if (found == normalized.end()) return;
    cache.AddCache(*hash, found->second, nodes, edges, std::move(mask));
  });
}

xgrammar::CompiledGrammar LibraryCompiler::Compile(const Frame& frame) {
  xgrammar::Grammar grammar = Read(frame, state_->vocabulary);
  if (frame.bytes.find(kNumberMark) != std::string::npos) grammar = NumberWriter().Apply(grammar);
  if (HasPatterns(grammar)) state_->Prepare(grammar);
  return state_->compiler.CompileGrammar(grammar);
}

}  // namespace sluice::text
