#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

// Published tokenizers have at most 7.
constexpr size_t kNormalizerStepsMax = 32;
// A text may become so many times longer, and this much. The longest compatible form (U+FDFA) with
// marks for its spaces has 13 times the bytes of its character.
constexpr size_t kNormalizerGrowthMax = 16;
constexpr size_t kNormalizerGrowthFree = 4096;

// Ideographs that Bert puts spaces around.
constexpr CodePointRange kBertIdeographs[] = {
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
    {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
// What SentencePiece's nmt rules remove and turn into a space.
constexpr CodePointRange kNmtRemoved[] = {{0x1, 0x8},   {0xB, 0xB},   {0xE, 0x1F},
                                          {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
constexpr CodePointRange kNmtSpaces[] = {{0x9, 0xA},       {0xC, 0xD},       {0x1680, 0x1680},
                                         {0x200B, 0x200F}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                         {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};

template <size_t count>
bool InRanges(const CodePointRange (&ranges)[count], uint32_t code_point) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const CodePointRange& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

// Calls change(code_point, out) for each character.
template <class Change>
void MapCharacters(std::string_view text, std::string* out, Change change) {
  out->clear();
  out->reserve(text.size());
  for (size_t offset = 0; offset < text.size();) change(DecodeUtf8(text, &offset), out);
}

std::string_view Strip(std::string_view text, bool left, bool right) {
  if (left) text = StripLeft(text, IsWhitespace);
  return right ? StripRight(text, IsWhitespace) : text;
}

bool ReplaceCharacter(std::string_view text, char character, std::string_view content,
                      size_t bytes_max, std::string* out) {
  size_t found = text.find(character);
  if (found == std::string_view::npos) return false;
  out->clear();
  out->reserve(text.size() + text.size() / 2);
  size_t done = 0;
  for (; found != std::string_view::npos; found = text.find(character, done)) {
    out->append(text, done, found - done);
    out->append(content);
    done = found + 1;
    if (out->size() > bytes_max) return true;
  }
  out->append(text, done);
  return true;
}

bool ReplacePattern(std::string_view text, const Pattern& pattern, std::string_view content,
                    size_t bytes_max, PatternState* state, PatternBudget* budget,
                    std::string* out) {
  state->Start(budget);
  out->clear();
  size_t done = 0;
  size_t begin = 0;
  size_t end = 0;
  while (pattern.Find(text, TextUnit::kUtf8, done, state, &begin, &end)) {
    out->append(text, done, begin - done);
    out->append(content);
    done = end;
    if (out->size() > bytes_max) return true;
  }
  if (done == 0) return false;
  out->append(text, done);
  return true;
}

void BertClean(uint32_t code_point, std::string* out) {
  bool blank = code_point == '\t' || code_point == '\n' || code_point == '\r';
  if (!blank &&
      (code_point == 0 || code_point == 0xFFFD || (PropertiesOf(code_point) & kBertControl) != 0)) {
    return;
  }
  AppendUtf8(blank || IsWhitespace(code_point) ? ' ' : code_point, out);
}

void BertChinese(uint32_t code_point, std::string* out) {
  bool ideograph = InRanges(kBertIdeographs, code_point);
  if (ideograph) out->push_back(' ');
  AppendUtf8(code_point, out);
  if (ideograph) out->push_back(' ');
}

void Nmt(uint32_t code_point, std::string* out) {
  if (InRanges(kNmtRemoved, code_point)) return;
  AppendUtf8(InRanges(kNmtSpaces, code_point) ? ' ' : code_point, out);
}

}  // namespace

Result<Normalizer> Normalizer::Make(const std::vector<files::TextStep>& steps) {
  Normalizer made;
  if (steps.size() > kNormalizerStepsMax) {
    return BadModel(StrCat("the tokenizer has ", steps.size(), " normalizers; the limit is ",
                           kNormalizerStepsMax));
  }
  for (const files::TextStep& step : steps) SLUICE_RETURN_IF_ERROR(made.AddStep(step));
  return made;
}

void Normalizer::Add(Kind kind) {
  Step step;
  step.kind = kind;
  steps_.push_back(std::move(step));
}

Status Normalizer::AddStep(const files::TextStep& step) {
  static const std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                                   {"NFD", NormalForm::kNfd},
                                                                   {"NFKC", NormalForm::kNfkc},
                                                                   {"NFKD", NormalForm::kNfkd}};
  if (unit_ == TextUnit::kByte) return BadModel("a normalizer stands behind ByteLevel");
  for (const auto& [name, form] : kForms) {
    if (step.type != name) continue;
    Add(Kind::kForm);
    steps_.back().form = form;
    return OkStatus();
  }
  if (step.type == "Lowercase") {
    Add(Kind::kLowercase);
  } else if (step.type == "Nmt") {
    Add(Kind::kNmt);
  } else if (step.type == "StripAccents") {
    Add(Kind::kStripAccents);
  } else if (step.type == "Strip") {
    Add(Kind::kStrip);
    steps_.back().left = step.Option("strip_left", true);
    steps_.back().right = step.Option("strip_right", true);
  } else if (step.type == "Prepend") {
    Add(Kind::kPrepend);
    steps_.back().content = step.content;
  } else if (step.type == "ByteLevel") {
    unit_ = TextUnit::kByte;
  } else if (step.type == "Precompiled") {
    SLUICE_ASSIGN_OR_RETURN(CharacterMap map, CharacterMap::Parse(step.precompiled));
    Add(Kind::kCharacterMap);
    steps_.back().map = std::make_shared<const CharacterMap>(std::move(map));
  } else if (step.type == "Replace") {
    return AddReplace(step);
  } else if (step.type == "BertNormalizer") {
    return AddBert(step);
  } else {
    return BadModel(StrCat("the normalizer ", Quote(step.type), " is not known"));
  }
  return OkStatus();
}

Status Normalizer::AddReplace(const files::TextStep& step) {
  if (!step.pattern_is_regex && step.pattern.size() == 1) {
    Add(Kind::kReplaceCharacter);
    steps_.back().character = step.pattern[0];
  } else {
    Result<Pattern> pattern =
        step.pattern_is_regex ? Pattern::Compile(step.pattern) : Pattern::OfLiteral(step.pattern);
    if (!pattern.ok()) return pattern.status();
    Add(Kind::kReplace);
    steps_.back().pattern = std::make_shared<const Pattern>(std::move(pattern).value());
  }
  steps_.back().content = step.content;
  return OkStatus();
}

Status Normalizer::AddBert(const files::TextStep& step) {
  bool lowercase = step.Option("lowercase", true);
  if (step.Option("clean_text", true)) Add(Kind::kBertClean);
  if (step.Option("handle_chinese_chars", true)) Add(Kind::kBertChinese);
  if (step.Option("strip_accents", lowercase)) {
    Add(Kind::kForm);
    steps_.back().form = NormalForm::kNfd;
    Add(Kind::kBertAccents);
  }
  if (lowercase) Add(Kind::kLowercase);
  return OkStatus();
}

bool Normalizer::Apply(const Step& step, std::string_view text, size_t bytes_max,
                       NormalizerState* state, std::string* out) {
  auto drop = [&](Properties flag) {
    MapCharacters(text, out, [&](uint32_t code_point, std::string* to) {
      if ((PropertiesOf(code_point) & flag) == 0) AppendUtf8(code_point, to);
    });
    return true;
  };
  switch (step.kind) {
    case Kind::kForm:
      return ToNormalForm(step.form, text, out);
    case Kind::kLowercase:
      MapCharacters(text, out, AppendLowercase);
      return true;
    case Kind::kNmt:
      MapCharacters(text, out, Nmt);
      return true;
    case Kind::kBertClean:
      MapCharacters(text, out, BertClean);
      return true;
    case Kind::kBertChinese:
      MapCharacters(text, out, BertChinese);
      return true;
    case Kind::kStripAccents:
      return drop(kCombiningMark);
    case Kind::kBertAccents:
      return drop(kBertAccent);
    case Kind::kStrip:
      out->assign(Strip(text, step.left, step.right));
      return true;
    case Kind::kPrepend:
      if (text.empty()) return false;
      out->assign(step.content);
      out->append(text);
      return true;
    case Kind::kReplaceCharacter:
      return ReplaceCharacter(text, step.character, step.content, bytes_max, out);
    case Kind::kReplace:
      return ReplacePattern(text, *step.pattern, step.content, bytes_max, &state->pattern_,
                            &state->budget_, out);
    case Kind::kCharacterMap:
      out->clear();
      if (!text.empty()) step.map->Append(text, bytes_max, out);
      return true;
  }
  return false;
}

void NormalizerState::Start(size_t text_bytes, Cancel cancel) {
  bytes_max_ = bytes_left_ = kNormalizerGrowthMax * text_bytes + kNormalizerGrowthFree;
  budget_ = PatternBudget(text_bytes);
  cancel_ = cancel;
}

Result<std::string_view> Normalizer::Normalize(std::string_view valid_utf8,
                                               NormalizerState* state) const {
  std::string_view text = valid_utf8;
  size_t free_buffer = 0;
  for (const Step& step : steps_) {
    std::string& out = state->buffers_[free_buffer];
    if (state->cancel_.asked()) return GivenUp();
    const bool changed = Apply(step, text, state->bytes_left_, state, &out);
    if (state->budget_.spent()) return state->budget_.Error("normalizer");
    if (!changed) continue;
    if (out.size() > state->bytes_left_) {
      return InvalidArgument(StrCat("the tokenizer's normalizer makes the text longer than ",
                                    state->bytes_max_, " bytes, the limit for its length"));
    }
    text = out;
    free_buffer = 1 - free_buffer;
  }
  state->bytes_left_ -= std::min(state->bytes_left_, text.size());
  return text;
}

}  // namespace sluice::text
