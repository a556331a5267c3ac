// A tokenizer as data, from GGUF metadata or a tokenizer.json, checked and brought to one form.
// text/ turns it into a working tokenizer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/status.h"

namespace sluice::files {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// kNone: the model comes without a tokenizer, and all else is empty.
enum class TokenizerModel { kByteBpe, kSentencePieceBpe, kUnigram, kWordPiece, kNone };

// One step of a normalizer or a pre-tokenizer, named as tokenizer.json names it ("Split", "NFC",
// "ByteLevel", "Replace", ...) with its options; a GGUF pre-tokenizer name ("llama-bpe", "qwen2")
// is translated to such steps by files/gguf_tokenizer.cc.
struct TextStep {
  std::string type;
  std::string pattern;  // of Split and Replace
  bool pattern_is_regex = false;
  std::string content;   // Replace: the new text; Prepend: the prefix; Metaspace: the mark
  std::string behavior;  // of Split: "Isolated", "Removed", "MergedWithPrevious", ...
  std::map<std::string, bool>
      options;              // "invert", "add_prefix_space", "use_regex", "lowercase", ...
  std::string precompiled;  // Precompiled: the character map, raw bytes

  bool Option(const char* name, bool otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
  }
};

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special =
      false;  // dropped from decoded text; parsed only where special strings are asked for
  bool normalized = false, left_strip = false, right_strip = false, single_word = false;
};

struct TokenizerData {
  TokenizerModel model = TokenizerModel::kByteBpe;
  std::vector<std::string> pieces;                          // by id; a piece as the file spells it
  std::vector<float> scores;                                // by id, or empty
  std::vector<TokenKind> kinds;                             // by id
  std::vector<std::pair<std::string, std::string>> merges;  // best first; byte-level BPE and HF BPE
  bool derive_merges = false;  // any two pieces merge whose text is a piece: by score, else by id
  std::vector<AddedToken> added_tokens;
  std::vector<TextStep> normalizers;
  std::vector<TextStep> pre_tokenizers;
  std::vector<TextStep> decoders;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a whole piece is not merged from parts
  std::optional<int32_t> bos_id, eos_id, unk_id, pad_id;
  bool fuse_unknown = false;      // BPE: neighbouring unknown characters are one unknown token
  std::string continuing_prefix;  // WordPiece: "##"; BPE: of characters after a word's first
  std::string word_suffix;        // BPE: of a word's last character
  int max_chars_per_word = 100;   // WordPiece
  // Ids put around a text when special tokens are asked for.
  std::vector<int32_t> prefix_ids, suffix_ids;
  // Ids that stand between two texts which are read as a pair; empty: the file does not say.
  std::vector<int32_t> between_ids;
  std::vector<int32_t> end_of_generation_ids;  // eos, eot, ... whatever ends an answer
};

class GgufFile;
Result<TokenizerData> TokenizerFromGguf(const GgufFile& file);
// `config_json` is tokenizer_config.json's text or empty.
Result<TokenizerData> TokenizerFromJson(std::string_view tokenizer_json,
                                        std::string_view config_json);

}  // namespace sluice::files
