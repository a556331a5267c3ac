// Splits normalized text into the words that a tokenizer's model encodes one by one. A PreTokenizer
// is immutable; any thread may use it with a PreTokenizerState of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"
#include "text/pre_tokenizer_pattern.h"

namespace sluice::text {

// Working memory of the parts of one text.
class PreTokenizerState {
 public:
  // Before the first part of a text of that many bytes: bounds what the steps may write, and what
  // the patterns may cost.
  void Start(size_t text_bytes);

 private:
  friend class PreTokenizer;
  std::vector<PatternState> patterns_;  // by step
  PatternBudget budget_;
  std::vector<std::string> buffers_;  // by step: text that the step has changed
  size_t bytes_max_ = 0;
  size_t bytes_left_ = 0;
  Status status_;
  bool stopped_ = false;
};

class PreTokenizer {
 public:
  // Takes the words in order; a word is only valid during the call. False: no more, please.
  class Sink {
   public:
    virtual bool Word(std::string_view word) = 0;

   protected:
    ~Sink() = default;
  };

  // `unit` says how the normalizer leaves the text. kBadModel when a step is unknown, its options
  // are wrong, or there are too many.
  static Result<PreTokenizer> Make(const std::vector<files::TextStep>& steps, TextUnit unit);

  // `text` is valid UTF-8; `at_start` says that it begins where the whole text begins.
  // kInvalidArgument when the text of `state` grows past what published tokenizers need; the sink
  // has a part of the words then.
  Status Split(std::string_view text, bool at_start, PreTokenizerState* state, Sink* sink) const;

 private:
  enum class Kind { kPattern, kMetaspace, kByteLevel, kFixedLength };
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend { kAlways, kFirst, kNever };
  struct Step {
    Kind kind = Kind::kPattern;
    Behavior behavior = Behavior::kIsolated;
    bool inverted = false;                   // the parts between matches count as matches
    std::shared_ptr<const Pattern> pattern;  // none: do not split
    TextUnit unit = TextUnit::kUtf8;         // of the text that comes to the step
    std::string mark;                        // kMetaspace
    Prepend prepend = Prepend::kNever;       // kMetaspace, kByteLevel (a space)
    size_t length = 0;                       // kFixedLength, characters
  };
  struct Run;
  class Merger;

  static Result<Behavior> FindBehavior(const files::TextStep& step);
  Status AddStep(const files::TextStep& step);
  Status AddFixedLength(const files::TextStep& step);
  Status AddMetaspace(const files::TextStep& step);
  Status AddByteLevel(const files::TextStep& step);
  Status AddPattern(Result<Pattern> pattern, Behavior behavior, bool inverted);
  // Counts what a step writes; false when the text has grown too far.
  static bool Spend(size_t bytes, Run* run);
  void RunFrom(size_t step, std::string_view text, Run* run) const;
  void RunPattern(size_t number, std::string_view text, Run* run) const;
  void RunFixedLength(size_t number, std::string_view text, Run* run) const;

  std::vector<Step> steps_;
  TextUnit unit_ = TextUnit::kUtf8;  // after the last step
};

}  // namespace sluice::text
