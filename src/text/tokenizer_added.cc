#include "text/tokenizer_added.h"

#include <algorithm>
#include <map>

#include "base/str_cat.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

// Bounds the bytes looked at per byte of text. Published tokens stay below 100 bytes.
constexpr size_t kTokenBytesMax = 256;

size_t CharacterBefore(std::string_view text, size_t end) {
  --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

bool IsWordAt(std::string_view text, size_t offset) {
  return IsWordCharacter(DecodeUtf8(text, &offset));
}

bool StandsAlone(std::string_view text, size_t start, size_t end) {
  if (start > 0 && IsWordAt(text, CharacterBefore(text, start))) return false;
  return end == text.size() || !IsWordAt(text, end);
}

}  // namespace

Result<AddedTokens> AddedTokens::Make(const std::vector<files::AddedToken>& tokens, bool normalized,
                                      const Normalizer& normalizer) {
  AddedTokens made;
  NormalizerState state;
  std::map<std::string, Entry> entries;
  for (const files::AddedToken& token : tokens) {
    if (token.normalized != normalized || token.text.empty()) continue;
    std::string text = token.text;
    if (normalized && normalizer.unit() == TextUnit::kUtf8) {
      state.Start(text.size());
      Result<std::string_view> normal = normalizer.Normalize(text, &state);
      if (!normal.ok()) return BadModel(normal.status().message());
      text = std::string(*normal);
    }
    if (text.size() > kTokenBytesMax) {
      return BadModel(StrCat("added token ", token.id, " has ", text.size(),
                             " bytes; the limit is ", kTokenBytesMax));
    }
    if (text.empty()) continue;
    entries[text] = {token.id, token.special, token.left_strip, token.right_strip,
                     token.single_word};
  }
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (const auto& [text, entry] : entries) {
    keys.emplace_back(text, static_cast<int32_t>(made.tokens_.size()));
    made.tokens_.push_back(entry);
    made.begins_[static_cast<unsigned char>(text[0])] = true;
  }
  made.trie_ = Trie::Build(std::move(keys));
  return made;
}

const AddedTokens::Entry* AddedTokens::MatchAt(std::string_view text, size_t start,
                                               size_t* end) const {
  const Entry* found = nullptr;
  uint32_t node = Trie::kRoot;
  for (size_t to = start; to < text.size();) {
    if (!trie_.Step(static_cast<unsigned char>(text[to++]), &node)) break;
    int32_t value = trie_.ValueAt(node);
    if (value == Trie::kNoValue) continue;
    found = &tokens_[static_cast<size_t>(value)];
    *end = to;
  }
  return found;
}

void AddedTokens::Split(std::string_view valid_utf8, bool parse_special, Sink* sink) const {
  size_t done = 0;
  for (size_t at = 0; at < valid_utf8.size() && !tokens_.empty();) {
    size_t end = 0;
    const Entry* entry = nullptr;
    if (begins_[static_cast<unsigned char>(valid_utf8[at])]) {
      entry = MatchAt(valid_utf8, at, &end);
    }
    if (entry == nullptr) {
      ++at;
      continue;
    }
    size_t start = at;
    at = end;
    if (entry->special && !parse_special) continue;
    if (entry->single_word && !StandsAlone(valid_utf8, start, end)) continue;
    if (entry->left_strip && start > done) {
      start = done + StripRight(valid_utf8.substr(done, start - done), IsWhitespace).size();
    }
    if (entry->right_strip) {
      end = valid_utf8.size() - StripLeft(valid_utf8.substr(end), IsWhitespace).size();
    }
    if (start > done) sink->Text(valid_utf8.substr(done, start - done));
    sink->Token(entry->id);
    done = std::max(done, end);
    at = std::max(at, done);
  }
  if (done < valid_utf8.size()) sink->Text(valid_utf8.substr(done));
}

}  // namespace sluice::text
