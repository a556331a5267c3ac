// Rewrites text before a tokenizer splits it. Immutable; any thread may use it with buffers of its
// own.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"
#include "text/cancel.h"
#include "text/normalizer_charsmap.h"
#include "text/pre_tokenizer_pattern.h"
#include "text/unicode/normalization.h"

namespace sluice::text {

// Working memory of the parts of one text.
class NormalizerState {
 public:
  // Before the first part of a text of that many bytes: bounds what all its parts may grow to, and
  // what the patterns may cost.
  void Start(size_t text_bytes, Cancel cancel = Cancel());

 private:
  friend class Normalizer;
  std::array<std::string, 2> buffers_;
  PatternState pattern_;
  PatternBudget budget_;
  size_t bytes_max_ = 0;
  size_t bytes_left_ = 0;
  Cancel cancel_;
};

class Normalizer {
 public:
  // kBadModel when a step is unknown, its options are wrong, or there are too many.
  static Result<Normalizer> Make(const std::vector<files::TextStep>& steps);

  // The normalized text: `valid_utf8` itself when nothing changes, otherwise inside `state` until
  // its next use. kInvalidArgument when the text of `state` grows past what published tokenizers
  // need; kCancelled when its work was given up.
  Result<std::string_view> Normalize(std::string_view valid_utf8, NormalizerState* state) const;

  // kByte when a ByteLevel step leaves the text spelled in bytes.
  TextUnit unit() const { return unit_; }

 private:
  enum class Kind {
    kForm,
    kLowercase,
    kStrip,
    kStripAccents,
    kPrepend,
    kReplaceCharacter,
    kReplace,
    kNmt,
    kCharacterMap,
    kBertClean,
    kBertChinese,
    kBertAccents,
  };
  struct Step {
    Kind kind;
    NormalForm form = NormalForm::kNfc;
    bool left = false, right = false;  // kStrip
    char character = 0;                // kReplaceCharacter: an ASCII character
    std::string content;
    std::shared_ptr<const Pattern> pattern;
    std::shared_ptr<const CharacterMap> map;
  };

  Status AddStep(const files::TextStep& step);
  Status AddReplace(const files::TextStep& step);
  Status AddBert(const files::TextStep& step);
  void Add(Kind kind);
  // Sets `out` and returns true, or returns false when nothing changes. Stops soon after `out` has
  // more than `bytes_max`.
  static bool Apply(const Step& step, std::string_view text, size_t bytes_max,
                    NormalizerState* state, std::string* out);

  std::vector<Step> steps_;
  TextUnit unit_ = TextUnit::kUtf8;
};

}  // namespace sluice::text
