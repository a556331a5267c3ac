#include "text/grammar.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"
#include "base/thread_time.h"
#include "text/empty_alternatives.h"
#include "text/grammar_compiler/frames.h"
#include "text/grammar_compiler/library.h"
#include "text/grammar_compiler/serve_grammars.h"
#include "text/grammar_compiler/written_arguments.h"
#include "text/grammar_process.h"
#include "text/json_schema.h"
#include "text/structural_tag.h"
#include "text/utf8_masks.h"
#include "text/whole_regex.h"

namespace sluice::text {

// What a model's tokens are, to the library.
struct GrammarVocabulary {
  // A token whose bytes differ at the beginning of a text, and one that adds those bytes elsewhere;
  // -1: there is none.
  struct FirstToken {
    TokenId id, same;
  };

  std::shared_ptr<const Tokenizer> tokenizer;
  int size = 0;
  std::vector<TokenId> end_ids;
  std::string bytes;  // WriteVocabulary
  xgrammar::TokenizerInfo info{xgrammar::NullObj()};
  std::vector<FirstToken> first_tokens;  // by ids, ascending
  Utf8Masks utf8;
};

namespace {

// Of CPU time for one token of an answer, and for one mask. Sane grammars take microseconds; one
// that is ambiguous, or that keeps what it has read to compare, takes ever more time and memory the
// longer its answer becomes: 25 ms is 160 MB of what `root ::= "a" root "a" | "a"` keeps (Intel
// Xeon).
constexpr int64_t kTokenMicrosMax = 25'000;
constexpr int64_t kMaskMicrosMax = 100'000;

std::shared_ptr<const GrammarVocabulary> MakeVocabulary(std::shared_ptr<const Tokenizer> tokenizer,
                                                        int size, std::vector<TokenId> end_ids) {
  auto made = std::make_shared<GrammarVocabulary>();
  std::vector<std::string> pieces(static_cast<size_t>(size));
  std::vector<std::pair<TokenId, std::string>> others;  // at the beginning of a text
  for (TokenId id = 0; id < std::min(size, tokenizer->vocab_size()); ++id) {
    if (tokenizer->IsSpecial(id)) continue;
    pieces[id] = tokenizer->PieceBytes(id, false);
    std::string first = tokenizer->FirstPieceBytes(id, false);
    if (first != pieces[id]) others.emplace_back(id, std::move(first));
  }
  if (!others.empty()) {
    std::unordered_map<std::string_view, TokenId> by_bytes;
    for (TokenId id = 0; id < size; ++id) by_bytes.emplace(pieces[id], id);
    for (const auto& [id, bytes] : others) {
      const auto same = by_bytes.find(bytes);
      const bool found = same != by_bytes.end() && !bytes.empty();
      made->first_tokens.push_back({id, found ? same->second : -1});
    }
  }
  made->utf8 = Utf8Masks(pieces);
  made->bytes = WriteVocabulary(pieces, end_ids);
  made->info = *ReadVocabulary(made->bytes);
  made->tokenizer = std::move(tokenizer);
  made->size = size;
  made->end_ids = std::move(end_ids);
  return made;
}

class GrammarWalk : public AnswerWalk {
 public:
  GrammarWalk(std::shared_ptr<const GrammarVocabulary> vocabulary,
              const xgrammar::CompiledGrammar& compiled, bool starts_text)
      : vocabulary_(std::move(vocabulary)), matcher_(compiled), starts_text_(starts_text) {}

  std::unique_ptr<AnswerWalk> Copy() const override {
    auto copy = std::make_unique<GrammarWalk>(*this);
    copy->matcher_ = matcher_.Fork();  // a copied matcher is the same one
    return copy;
  }

  bool Go(TokenId id) override {
    if (id < 0 || id >= vocabulary_->size) return false;
    return Limited(kTokenMicrosMax, [&] {
      const bool first = starts_text_ && ends_.empty() && FirstToken(id);
      const std::string bytes = first ? vocabulary_->tokenizer->FirstPieceBytes(id, false)
                                      : vocabulary_->info.GetDecodedVocab()[id];
      const Utf8End end = Utf8EndBehind(End(), bytes);
      if (end == Utf8End::kNone) return false;
      const bool gone = first ? matcher_.AcceptString(bytes) : matcher_.AcceptToken(id);
      if (gone) ends_.push_back(end);
      return gone;
    });
  }

  void Back(int tokens) override {
    matcher_.Rollback(tokens);
    ends_.resize(ends_.size() - static_cast<size_t>(tokens));
  }

  bool complete() const override { return matcher_.IsCompleted(); }

  void AllowTokens(std::span<uint32_t> allowed) override {
    const bool filled = Limited(kMaskMicrosMax, [&] {
      FillMask(allowed, &matcher_);
      return true;
    });
    if (!filled) std::fill(allowed.begin(), allowed.end(), 0);
    // The library takes bytes for characters that are none: overlong ones, and surrogates.
    vocabulary_->utf8.Restrict(End(), allowed);
    for (const TokenId id : vocabulary_->end_ids) Set(allowed, id, false);
    if (!starts_text_ || !ends_.empty()) return;
    // In two passes, since one such token's bytes elsewhere may be those of another here.
    std::vector<bool> here;
    for (const auto& [id, same] : vocabulary_->first_tokens) {
      here.push_back(same >= 0 && (allowed[same / 32] >> (same % 32) & 1) != 0);
    }
    for (size_t i = 0; i < here.size(); ++i) {
      Set(allowed, vocabulary_->first_tokens[i].id, here[i]);
    }
  }

 private:
  static void Set(std::span<uint32_t> allowed, TokenId id, bool value) {
    if (static_cast<size_t>(id) / 32 >= allowed.size()) return;
    const uint32_t bit = 1u << (id % 32);
    allowed[id / 32] = value ? allowed[id / 32] | bit : allowed[id / 32] & ~bit;
  }

  Utf8End End() const { return ends_.empty() ? Utf8End::kWhole : ends_.back(); }

  bool FirstToken(TokenId id) const {
    const auto& tokens = vocabulary_->first_tokens;
    const auto found = std::lower_bound(tokens.begin(), tokens.end(), id,
                                        [](const auto& token, TokenId i) { return token.id < i; });
    return found != tokens.end() && found->id == id;
  }

  // False also behind a step that took too long: from there on nothing fits.
  template <class Step>
  bool Limited(int64_t micros_max, Step&& step) {
    if (exhausted_) return false;
    const int64_t before = ThreadMicros();
    bool done = false;
    try {
      done = step();
    } catch (const std::exception&) {  // the library's limits of depth
      exhausted_ = true;
    }
    exhausted_ = exhausted_ || ThreadMicros() - before > micros_max;
    return done && !exhausted_;
  }

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  xgrammar::GrammarMatcher matcher_;
  const bool starts_text_;
  std::vector<Utf8End> ends_;  // of the text behind each token
  bool exhausted_ = false;
};

FrameKind FrameOf(Grammar::Kind kind) {
  switch (kind) {
    case Grammar::Kind::kRegex:
      return FrameKind::kRegex;
    case Grammar::Kind::kRules:
      return FrameKind::kEbnf;
    case Grammar::Kind::kStructuralTag:
      return FrameKind::kStructuralTag;
    default:
      return FrameKind::kJsonSchema;
  }
}

static_assert(kNumberText == kNumberMark);
static_assert(std::string_view(kExtendedMember) == kExtended);
static_assert(kWrittenAsMember == kWrittenAs && kFormOfArguments == kForm &&
              kQuoteOfArguments == kQuote && kQuoteTokenOfArguments == kQuoteToken);
static_assert(kArgumentsMarked == kMarkedForm && kArgumentsInPython == kPythonForm &&
              kArgumentsOfGemma == kGemmaForm);

// The text that the library is given; what it would leave out or read wrongly is refused.
Result<std::string> ForLibrary(const Grammar& grammar) {
  switch (grammar.kind) {
    case Grammar::Kind::kJsonSchema: {
      SLUICE_ASSIGN_OR_RETURN(const OrderedJson schema, RewriteSchema(grammar.text, !grammar.open));
      return DumpJson(schema);
    }
    case Grammar::Kind::kRegex:
      return WholeRegex(grammar.text);
    case Grammar::Kind::kStructuralTag:
      return RewriteStructuralTag(grammar.text, !grammar.open);
    default:
      return WithEmptyAlternatives(grammar.text);
  }
}

// What makes two grammars the same.
std::string KeyOf(const Grammar& grammar) {
  return StrCat(static_cast<int>(grammar.kind), grammar.open ? "o" : "c", grammar.text);
}

}  // namespace

struct CompiledGrammar::Parts {
  std::shared_ptr<const GrammarVocabulary> vocabulary;
  xgrammar::CompiledGrammar compiled;
};

std::unique_ptr<AnswerWalk> CompiledGrammar::Walk(bool starts_text) const {
  return std::make_unique<GrammarWalk>(parts_->vocabulary, parts_->compiled, starts_text);
}

size_t CompiledGrammar::bytes() const { return parts_->compiled.MemorySizeBytes(); }

std::string_view NameOf(Grammar::Kind kind) {
  switch (kind) {
    case Grammar::Kind::kRegex:
      return "the regex";
    case Grammar::Kind::kRules:
      return "the grammar";
    case Grammar::Kind::kStructuralTag:
      return "the structural tag";
    default:
      return "the JSON schema";
  }
}

GrammarCompiler::GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, int vocab,
                                 std::vector<TokenId> end_ids)
    : tokenizer_(std::move(tokenizer)),
      vocab_(vocab),
      end_ids_(std::move(end_ids)),
      short_(kShortCompileMilliseconds),
      long_(kCompileSecondsMax * 1000) {}

GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const CompiledGrammar> GrammarCompiler::Cached(const Grammar& grammar) const {
  std::lock_guard lock(cache_mutex_);
  const auto found = by_key_.find(KeyOf(grammar));
  if (found == by_key_.end()) return nullptr;
  cache_.splice(cache_.begin(), cache_, found->second);
  return cache_.front().second;
}

void GrammarCompiler::Keep(std::string key, std::shared_ptr<const CompiledGrammar> compiled) {
  std::lock_guard lock(cache_mutex_);
  if (by_key_.contains(key)) return;
  const auto size = [](const Entry& entry) { return entry.first.size() + entry.second->bytes(); };
  cache_.emplace_front(std::move(key), std::move(compiled));
  by_key_.emplace(cache_.front().first, cache_.begin());
  cached_bytes_ += size(cache_.front());
  while (cached_bytes_ > kCacheBytes) {
    cached_bytes_ -= size(cache_.back());
    by_key_.erase(cache_.back().first);
    cache_.pop_back();
  }
}

Result<std::shared_ptr<const GrammarVocabulary>> GrammarCompiler::Vocabulary() {
  if (end_ids_.empty() || tokenizer_ == nullptr) {
    return InvalidArgument(
        "a grammar needs a model with a vocabulary and a token that ends an answer; send the "
        "request without one",
        "grammar");
  }
  std::lock_guard lock(vocabulary_mutex_);
  if (vocabulary_ == nullptr) vocabulary_ = MakeVocabulary(tokenizer_, vocab_, end_ids_);
  return vocabulary_;
}

GrammarCompiler::Lane::Lane(int milliseconds_max) : milliseconds(milliseconds_max) {}
GrammarCompiler::Lane::~Lane() = default;

Result<std::string> GrammarCompiler::CompileApart(const GrammarVocabulary& vocabulary,
                                                  Grammar::Kind kind, std::string_view text,
                                                  Lane* lane) {
  std::lock_guard lock(lane->mutex);
  std::unique_ptr<GrammarProcess>& process = lane->process;
  Result<std::string> compiled = std::string();
  // Once more where the system has ended a process that had nothing to do.
  for (int tries = 0; tries < 2; ++tries) {
    if (process == nullptr) {
      auto started = GrammarProcess::Start(vocabulary.bytes, lane->milliseconds);
      if (!started.ok()) return started.status();
      process = *std::move(started);
    }
    compiled = process->Compile(FrameOf(kind), text, NameOf(kind));
    const bool again = process->ended_idle();
    if (!process->running()) process = nullptr;
    if (!again) break;
  }
  return compiled;
}

bool GrammarCompiler::IsTooLong(const std::string& key) const {
  std::lock_guard lock(cache_mutex_);
  return std::find(too_long_.begin(), too_long_.end(), key) != too_long_.end();
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::CompileIn(const Grammar& grammar,
                                                                          Lane* lane) {
  CHECK(grammar.kind != Grammar::Kind::kNone);
  if (auto cached = Cached(grammar)) return cached;
  const std::string key = KeyOf(grammar);
  const Status too_long =
      InvalidArgument(StrCat(NameOf(grammar.kind), " takes more than ", kCompileSecondsMax,
                             " s of CPU time to compile; send a smaller or simpler one"),
                      "grammar");
  if (IsTooLong(key)) return too_long;
  SLUICE_ASSIGN_OR_RETURN(const auto vocabulary, Vocabulary());
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ForLibrary(grammar));
  auto bytes = CompileApart(*vocabulary, grammar.kind, text, lane);
  if (bytes.status().code() == StatusCode::kDeadlineExceeded && lane == &long_) {
    std::lock_guard lock(cache_mutex_);
    too_long_.push_front(key);
    if (too_long_.size() > kTooLongMax) too_long_.pop_back();
    return too_long;
  }
  if (!bytes.ok()) return bytes.status();
  auto compiled = ReadCompiled(*bytes, vocabulary->info);
  if (!compiled) {
    return Status(StatusCode::kInternal, "the compiled grammar cannot be read", "grammar");
  }
  const auto parts = std::make_shared<const CompiledGrammar::Parts>(
      CompiledGrammar::Parts{vocabulary, *std::move(compiled)});
  auto made = std::make_shared<const CompiledGrammar>(parts);
  Keep(key, made);
  return made;
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::CompileShort(
    const Grammar& grammar) {
  return CompileIn(grammar, &short_);
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::CompileLong(
    const Grammar& grammar) {
  return CompileIn(grammar, &long_);
}

}  // namespace sluice::text
