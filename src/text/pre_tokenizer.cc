#include "text/pre_tokenizer.h"

#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

// Published tokenizers have at most 6.
constexpr size_t kStepsMax = 32;
// What the steps may write, all together, by the bytes of the text; see the normalizer's.
constexpr size_t kGrowthMax = 64;
constexpr size_t kGrowthFree = 4096;

// What ByteLevel splits at when it is asked to: GPT-2's expression.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr uint32_t Bit(Category category) { return 1u << static_cast<int>(category); }

CodePointSet PunctuationSet() { return SetOfProperty(kBertPunctuation); }

CodePointSet NumericSet() {
  return SetOfCategories(Bit(Category::kNd) | Bit(Category::kNl) | Bit(Category::kNo));
}

}  // namespace

struct PreTokenizer::Run {
  const char* start;  // of the whole text, or null
  PreTokenizerState* state;
  Sink* sink;
};

// Puts matches and the parts between them together as a step's behavior says, and hands the result
// to the next step.
class PreTokenizer::Merger {
 public:
  Merger(const PreTokenizer* owner, size_t number, Run* run)
      : owner_(owner), next_(number + 1), behavior_(owner->steps_[number].behavior), run_(run) {}

  void Part(std::string_view part, bool is_match) {
    switch (behavior_) {
      case Behavior::kIsolated:
        Emit(part);
        break;
      case Behavior::kRemoved:
        if (!is_match) Emit(part);
        break;
      case Behavior::kContiguous:
        if (!held_.empty() && is_match == held_is_match_) {
          Extend(part);
        } else {
          Hold(part, is_match);
        }
        break;
      case Behavior::kMergedWithPrevious:
        if (is_match && !held_.empty() && !held_is_match_) {
          Extend(part);
          held_is_match_ = true;
        } else {
          Hold(part, is_match);
        }
        break;
      case Behavior::kMergedWithNext:
        if (!is_match && !held_.empty() && held_is_match_) {
          Extend(part);
          held_is_match_ = false;
        } else {
          Hold(part, is_match);
        }
        break;
    }
  }

  void Finish() {
    if (!held_.empty()) Emit(std::exchange(held_, {}));
  }

 private:
  void Hold(std::string_view part, bool is_match) {
    Finish();
    held_ = part;
    held_is_match_ = is_match;
  }
  void Extend(std::string_view part) {
    held_ = std::string_view(held_.data(), held_.size() + part.size());
  }
  void Emit(std::string_view part) { owner_->RunFrom(next_, part, run_); }

  const PreTokenizer* owner_;
  size_t next_;
  Behavior behavior_;
  Run* run_;
  std::string_view held_;
  bool held_is_match_ = false;
};

Result<PreTokenizer> PreTokenizer::Make(const std::vector<files::TextStep>& steps, TextUnit unit) {
  if (steps.size() > kStepsMax) {
    return BadModel(
        StrCat("the tokenizer has ", steps.size(), " pre-tokenizers; the limit is ", kStepsMax));
  }
  PreTokenizer made;
  made.unit_ = unit;
  for (const files::TextStep& step : steps) SLUICE_RETURN_IF_ERROR(made.AddStep(step));
  return made;
}

Status PreTokenizer::AddPattern(Result<Pattern> pattern, Behavior behavior, bool inverted) {
  if (!pattern.ok()) return pattern.status();
  Step step;
  step.behavior = behavior;
  step.inverted = inverted;
  step.pattern = std::make_shared<const Pattern>(std::move(pattern).value());
  step.unit = unit_;
  steps_.push_back(std::move(step));
  return OkStatus();
}

Result<PreTokenizer::Behavior> PreTokenizer::FindBehavior(const files::TextStep& step) {
  static const std::pair<std::string_view, Behavior> kBehaviors[] = {
      {"", Behavior::kIsolated},
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  for (const auto& [name, value] : kBehaviors) {
    if (step.behavior == name) return value;
  }
  return BadModel(StrCat(step.type, " has the unknown behavior ", Quote(step.behavior)));
}

Status PreTokenizer::AddStep(const files::TextStep& step) {
  if (step.type == "Split") {
    SLUICE_ASSIGN_OR_RETURN(Behavior behavior, FindBehavior(step));
    return AddPattern(
        step.pattern_is_regex ? Pattern::Compile(step.pattern) : Pattern::OfLiteral(step.pattern),
        behavior, step.Option("invert", false));
  }
  if (step.type == "Punctuation") {
    SLUICE_ASSIGN_OR_RETURN(Behavior behavior, FindBehavior(step));
    return AddPattern(Pattern::OfSet(PunctuationSet()), behavior, false);
  }
  if (step.type == "Digits") {
    return AddPattern(
        Pattern::OfSet(NumericSet()),
        step.Option("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous,
        false);
  }
  if (step.type == "WhitespaceSplit") {
    return AddPattern(Pattern::OfSet(WhitespaceSet()), Behavior::kRemoved, false);
  }
  if (step.type == "Whitespace") {
    return AddPattern(Pattern::Compile(R"(\w+|[^\w\s]+)"), Behavior::kRemoved, true);
  }
  if (step.type == "CharDelimiterSplit") {
    return AddPattern(Pattern::OfLiteral(step.content), Behavior::kRemoved, false);
  }
  if (step.type == "BertPreTokenizer") {
    SLUICE_RETURN_IF_ERROR(AddPattern(Pattern::OfSet(WhitespaceSet()), Behavior::kRemoved, false));
    return AddPattern(Pattern::OfSet(PunctuationSet()), Behavior::kIsolated, false);
  }
  if (step.type == "FixedLength") return AddFixedLength(step);
  if (step.type == "Metaspace") return AddMetaspace(step);
  if (step.type == "ByteLevel") return AddByteLevel(step);
  return BadModel(StrCat("the pre-tokenizer ", Quote(step.type), " is not known"));
}

Status PreTokenizer::AddFixedLength(const files::TextStep& step) {
  if (step.content.empty() || step.content.size() > 6 ||
      step.content.find_first_not_of("0123456789") != std::string::npos ||
      std::stoul(step.content) == 0) {
    return BadModel("FixedLength needs a length between 1 and 999999");
  }
  Step made;
  made.kind = Kind::kFixedLength;
  made.unit = unit_;
  made.length = std::stoul(step.content);
  steps_.push_back(std::move(made));
  return OkStatus();
}

Status PreTokenizer::AddMetaspace(const files::TextStep& step) {
  Step made;
  made.kind = Kind::kMetaspace;
  made.unit = unit_;
  made.mark = step.content.empty() ? std::string(kSpaceMark) : step.content;
  if (Utf8Length(static_cast<unsigned char>(made.mark[0])) != made.mark.size()) {
    return BadModel(StrCat("Metaspace has the replacement ", Quote(step.content),
                           "; it must be one character"));
  }
  made.prepend = step.behavior == "first"   ? Prepend::kFirst
                 : step.behavior == "never" ? Prepend::kNever
                                            : Prepend::kAlways;
  std::string mark = made.mark;
  steps_.push_back(std::move(made));
  if (!step.Option("split", true)) return OkStatus();
  return AddPattern(Pattern::OfLiteral(mark), Behavior::kMergedWithNext, false);
}

Status PreTokenizer::AddByteLevel(const files::TextStep& step) {
  if (step.Option("add_prefix_space", false)) {
    Step made;
    made.kind = Kind::kByteLevel;
    made.unit = unit_;
    made.prepend = Prepend::kAlways;
    steps_.push_back(std::move(made));
  }
  if (step.Option("use_regex", true)) {
    SLUICE_RETURN_IF_ERROR(AddPattern(Pattern::Compile(kGpt2Pattern), Behavior::kIsolated, false));
  }
  unit_ = TextUnit::kByte;
  return OkStatus();
}

void PreTokenizerState::Start(size_t text_bytes) {
  bytes_max_ = bytes_left_ = kGrowthMax * text_bytes + kGrowthFree;
  budget_ = PatternBudget(text_bytes);
  status_ = OkStatus();
  stopped_ = false;
}

Status PreTokenizer::Split(std::string_view text, bool at_start, PreTokenizerState* state,
                           Sink* sink) const {
  state->patterns_.resize(steps_.size());
  state->buffers_.resize(steps_.size());
  Run run{at_start ? text.data() : nullptr, state, sink};
  RunFrom(0, text, &run);
  return state->status_;
}

bool PreTokenizer::Spend(size_t bytes, Run* run) {
  PreTokenizerState& state = *run->state;
  if (bytes <= state.bytes_left_) {
    state.bytes_left_ -= bytes;
    return true;
  }
  state.stopped_ = true;
  state.status_ =
      InvalidArgument(StrCat("the tokenizer's pre-tokenizer writes more than ", state.bytes_max_,
                             " bytes, the limit for the text's length"));
  return false;
}

void PreTokenizer::RunFrom(size_t number, std::string_view text, Run* run) const {
  if (text.empty() || run->state->stopped_) return;
  if (number == steps_.size()) {
    run->state->stopped_ = !run->sink->Word(text);
    return;
  }
  const Step& step = steps_[number];
  switch (step.kind) {
    case Kind::kPattern:
      return RunPattern(number, text, run);
    case Kind::kFixedLength:
      return RunFixedLength(number, text, run);
    case Kind::kByteLevel: {
      if (text.front() == ' ') return RunFrom(number + 1, text, run);
      std::string& buffer = run->state->buffers_[number];
      buffer.assign(1, ' ');
      buffer += text;
      if (!Spend(buffer.size(), run)) return;
      return RunFrom(number + 1, buffer, run);
    }
    case Kind::kMetaspace: {
      std::string& buffer = run->state->buffers_[number];
      buffer.clear();
      bool prepends = step.prepend == Prepend::kAlways ||
                      (step.prepend == Prepend::kFirst && text.data() == run->start);
      if (prepends && text.front() != ' ' && !text.starts_with(step.mark)) buffer += step.mark;
      for (char c : text) {
        if (c == ' ') {
          buffer += step.mark;
        } else {
          buffer.push_back(c);
        }
      }
      if (!Spend(buffer.size(), run)) return;
      return RunFrom(number + 1, buffer, run);
    }
  }
}

void PreTokenizer::RunPattern(size_t number, std::string_view text, Run* run) const {
  const Step& step = steps_[number];
  PatternState& state = run->state->patterns_[number];
  state.Start(&run->state->budget_);
  Merger merger(this, number, run);
  size_t done = 0;
  size_t begin = 0;
  size_t end = 0;
  while (step.pattern->Find(text, step.unit, done, &state, &begin, &end)) {
    if (run->state->stopped_) return;
    if (begin > done) merger.Part(text.substr(done, begin - done), step.inverted);
    merger.Part(text.substr(begin, end - begin), !step.inverted);
    done = end;
  }
  if (run->state->stopped_) return;
  if (run->state->budget_.spent()) {
    run->state->stopped_ = true;
    run->state->status_ = run->state->budget_.Error("pre-tokenizer");
    return;
  }
  if (done < text.size()) merger.Part(text.substr(done), step.inverted);
  merger.Finish();
}

void PreTokenizer::RunFixedLength(size_t number, std::string_view text, Run* run) const {
  const Step& step = steps_[number];
  size_t begin = 0;
  size_t count = 0;
  for (size_t offset = 0; offset < text.size();) {
    offset +=
        step.unit == TextUnit::kByte ? 1 : Utf8Length(static_cast<unsigned char>(text[offset]));
    if (++count == step.length || offset == text.size()) {
      RunFrom(number + 1, text.substr(begin, offset - begin), run);
      begin = offset;
      count = 0;
    }
  }
}

}  // namespace sluice::text
