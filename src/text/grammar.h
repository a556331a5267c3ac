// Answers that fit a grammar: a JSON schema, a regular expression, rules, or text with tagged
// parts. GrammarCompiler: of a model, any thread. CompiledGrammar: immutable, any thread.
//
// XGrammar's C++ core compiles grammars and finds the tokens that fit; nothing else knows it. A
// compile happens in another process, within limits, so that no grammar can hold up or exhaust this
// one (GrammarProcess).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/request.h"
#include "text/answer_walk.h"
#include "text/tokenizer.h"

namespace sluice::text {

class GrammarProcess;
struct GrammarVocabulary;

class CompiledGrammar {
 public:
  struct Parts;  // of the library

  explicit CompiledGrammar(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  // An answer that begins. `starts_text`: it is the beginning of a text
  // (Detokenizer::StartsText).
  std::unique_ptr<AnswerWalk> Walk(bool starts_text) const;
  size_t bytes() const;

 private:
  const std::shared_ptr<const Parts> parts_;
};

class GrammarCompiler {
 public:
  static constexpr size_t kCacheBytes = 128 << 20;
  static constexpr size_t kTooLongMax = 16;  // grammars that are known to take too long

  // `vocab`: of the model's logits. `end_ids`: those that end an answer.
  GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, int vocab,
                  std::vector<TokenId> end_ids);
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // Null where it is not in the cache.
  std::shared_ptr<const CompiledGrammar> Cached(const Grammar& grammar) const;
  // Takes up to kShortCompileMilliseconds of CPU time in another process, and waits for others of
  // these calls alone. kDeadlineExceeded: it takes longer; kInvalidArgument says what is wrong with
  // the grammar, or that it takes too much; kUnavailable, that there is no process. REQUIRES: it
  // has a kind
  Result<std::shared_ptr<const CompiledGrammar>> CompileShort(const Grammar& grammar);
  // The same in up to kCompileSecondsMax, in a second process.
  Result<std::shared_ptr<const CompiledGrammar>> CompileLong(const Grammar& grammar);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const CompiledGrammar>>;

  Result<std::shared_ptr<const GrammarVocabulary>> Vocabulary();
  // A process that compiles one grammar at a time, started when it is needed first and kept.
  struct Lane {
    explicit Lane(int milliseconds_max);
    ~Lane();
    const int milliseconds;                   // of CPU time, for a grammar
    std::mutex mutex;                         // held while it compiles
    std::unique_ptr<GrammarProcess> process;  // guarded by mutex
  };
  static Result<std::string> CompileApart(const GrammarVocabulary& vocabulary, Grammar::Kind kind,
                                          std::string_view text, Lane* lane);
  Result<std::shared_ptr<const CompiledGrammar>> CompileIn(const Grammar& grammar, Lane* lane);
  bool IsTooLong(const std::string& key) const;
  void Keep(std::string key, std::shared_ptr<const CompiledGrammar> compiled);

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int vocab_;
  const std::vector<TokenId> end_ids_;

  std::mutex vocabulary_mutex_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;  // guarded by vocabulary_mutex_

  Lane short_, long_;

  mutable std::mutex cache_mutex_;
  mutable std::list<Entry> cache_;  // what was used last is first; guarded by cache_mutex_
  std::unordered_map<std::string_view, std::list<Entry>::iterator>
      by_key_;                       // into cache_; guarded by cache_mutex_
  size_t cached_bytes_ = 0;          // guarded by cache_mutex_
  std::list<std::string> too_long_;  // keys, the last one first; guarded by cache_mutex_
};

// "the JSON schema", "the regex": the grammar, at the beginning of a sentence about it.
std::string_view NameOf(Grammar::Kind kind);

}  // namespace sluice::text
