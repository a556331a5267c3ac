#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/tokenizer_check.h"
#include "files/tokenizer_data.h"
#include "files/tokenizer_end.h"
#include "files/tokenizer_json_steps.h"
#include "files/tokenizer_parts.h"

namespace sluice::files {
namespace {

constexpr JsonLimits kLimits = {.bytes_max = 256u << 20, .depth_max = 32, .values_max = 1u << 24};
constexpr int64_t kIdsMax = kVocabRange.max;

bool IsByteLevel(const std::vector<TextStep>& steps) {
  return std::any_of(steps.begin(), steps.end(),
                     [](const TextStep& step) { return step.type == "ByteLevel"; });
}

class JsonReader {
 public:
  Result<TokenizerData> Read(const Json& root, const Json& config) {
    if (!root.is_object()) return BadModel("tokenizer.json is not an object");
    static const Json kNull;
    auto member = [&](const char* key) -> const Json& {
      auto found = root.find(key);
      return found == root.end() ? kNull : *found;
    };
    SLUICE_RETURN_IF_ERROR(
        ReadTextSteps(member("normalizer"), "the normalizer", &data_.normalizers));
    SLUICE_RETURN_IF_ERROR(
        ReadTextSteps(member("pre_tokenizer"), "the pre-tokenizer", &data_.pre_tokenizers));
    SLUICE_RETURN_IF_ERROR(ReadTextSteps(member("decoder"), "the decoder", &data_.decoders));
    SLUICE_RETURN_IF_ERROR(ReadModel(member("model")));
    return Complete(member("added_tokens"), member("post_processor"), config);
  }

  Result<TokenizerData> Complete(TokenizerParts parts) {
    data_ = std::move(parts.data);
    for (size_t id = 0; id < data_.pieces.size(); ++id) {
      taken_.push_back(!data_.pieces[id].empty());
      if (taken_[id]) ids_.emplace(data_.pieces[id], static_cast<int32_t>(id));
    }
    return Complete(parts.added, parts.post_processor, parts.config);
  }

 private:
  Result<TokenizerData> Complete(const Json& added, const Json& post_processor,
                                 const Json& config) {
    SLUICE_RETURN_IF_ERROR(ReadAddedTokens(added));
    SLUICE_RETURN_IF_ERROR(ReadPostProcessor(post_processor, &data_));
    SLUICE_RETURN_IF_ERROR(ReadConfig(config));
    SetKinds();
    FindEndOfGeneration({data_.eos_id}, &data_);
    SLUICE_RETURN_IF_ERROR(FinishTokenizer(data_));
    return std::move(data_);
  }

  Status ReadModel(const Json& model) {
    if (!model.is_object()) return BadModel("tokenizer.json has no model");
    std::string type = TypeOf(model);
    if (type != "BPE" && type != "Unigram" && type != "WordPiece") {
      return BadModel(StrCat("the tokenizer model ", Quote(type),
                             " is not known; known are BPE, Unigram and WordPiece"));
    }
    bool byte_level = IsByteLevel(data_.pre_tokenizers) || IsByteLevel(data_.normalizers);
    if (type == "BPE") {
      data_.model = byte_level ? TokenizerModel::kByteBpe : TokenizerModel::kSentencePieceBpe;
      return ReadBpe(model);
    }
    if (byte_level) {
      return BadModel(StrCat("tokenizer.json puts ByteLevel before the model ", type,
                             "; only BPE is supported there"));
    }
    data_.model = type == "Unigram" ? TokenizerModel::kUnigram : TokenizerModel::kWordPiece;
    return type == "Unigram" ? ReadUnigram(model) : ReadWordPiece(model);
  }

  // Old files do not say it.
  static std::string TypeOf(const Json& model) {
    auto found = model.find("type");
    if (found != model.end() && found->is_string()) return found->get<std::string>();
    if (model.contains("merges")) return "BPE";
    return model.contains("unk_id") ? "Unigram" : "WordPiece";
  }

  static Result<bool> Flag(const Json& object, const char* key, bool otherwise) {
    auto found = object.find(key);
    if (found == object.end() || found->is_null()) return otherwise;
    if (!found->is_boolean()) {
      return BadModel(StrCat("tokenizer.json has a ", key, " that is neither true nor false"));
    }
    return found->get<bool>();
  }

  static Result<std::string> Text(const Json& object, const char* key) {
    auto found = object.find(key);
    if (found == object.end() || found->is_null()) return std::string();
    if (!found->is_string()) {
      return BadModel(StrCat("tokenizer.json has a ", key, " that is not a string"));
    }
    return found->get<std::string>();
  }

  static Result<int32_t> Id(const Json& value, std::string_view what) {
    if (!value.is_number_integer() || value < 0 || value >= kIdsMax) {
      return BadModel(StrCat(what, " has the id ", value.dump().substr(0, 40),
                             "; it must be an integer from 0 to ", kIdsMax - 1));
    }
    return value.get<int32_t>();
  }

  Status AddPiece(const std::string& piece, int32_t id) {
    auto index = static_cast<size_t>(id);
    if (index >= data_.pieces.size()) {
      data_.pieces.resize(index + 1);
      taken_.resize(index + 1);
    }
    if (taken_[index]) {
      return BadModel(StrCat("the tokenizer's id ", id, " belongs to both ",
                             Quote(data_.pieces[index]), " and ", Quote(piece)));
    }
    taken_[index] = true;
    data_.pieces[index] = piece;
    ids_[piece] = id;
    return OkStatus();
  }

  Status ReadVocabulary(const Json& model) {
    auto vocabulary = model.find("vocab");
    if (vocabulary == model.end() || !vocabulary->is_object() || vocabulary->empty()) {
      return BadModel("the tokenizer's vocab is not an object with at least one piece");
    }
    for (const auto& [piece, value] : vocabulary->items()) {
      SLUICE_ASSIGN_OR_RETURN(int32_t id, Id(value, StrCat("the piece ", Quote(piece))));
      SLUICE_RETURN_IF_ERROR(AddPiece(piece, id));
    }
    return OkStatus();
  }

  Status ReadMerges(const Json& model) {
    auto merges = model.find("merges");
    if (merges == model.end() || !merges->is_array()) {
      return BadModel("the tokenizer's merges are not a list");
    }
    data_.merges.reserve(merges->size());
    for (const Json& merge : *merges) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        data_.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
      if (text.starts_with("#version")) continue;
      size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
        return BadModel(StrCat("merge ", data_.merges.size(), " of the tokenizer is ",
                               Quote(merge.dump()), "; it must be two pieces"));
      }
      data_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
    return OkStatus();
  }

  Status ReadBpe(const Json& model) {
    SLUICE_RETURN_IF_ERROR(ReadVocabulary(model));
    SLUICE_RETURN_IF_ERROR(ReadMerges(model));
    SLUICE_ASSIGN_OR_RETURN(data_.byte_fallback, Flag(model, "byte_fallback", false));
    SLUICE_ASSIGN_OR_RETURN(data_.fuse_unknown, Flag(model, "fuse_unk", false));
    SLUICE_ASSIGN_OR_RETURN(data_.ignore_merges, Flag(model, "ignore_merges", false));
    SLUICE_ASSIGN_OR_RETURN(data_.continuing_prefix, Text(model, "continuing_subword_prefix"));
    SLUICE_ASSIGN_OR_RETURN(data_.word_suffix, Text(model, "end_of_word_suffix"));
    auto dropout = model.find("dropout");
    if (dropout != model.end() && !dropout->is_null() && *dropout != 0) {
      return BadModel("the tokenizer has a dropout, so it would give other ids each time");
    }
    return ReadUnknown(model);
  }

  Status ReadUnknown(const Json& model) {
    SLUICE_ASSIGN_OR_RETURN(std::string unknown, Text(model, "unk_token"));
    auto found = ids_.find(unknown);
    if (!unknown.empty() && found != ids_.end()) data_.unk_id = found->second;
    return OkStatus();
  }

  Status ReadUnigram(const Json& model) {
    auto vocabulary = model.find("vocab");
    if (vocabulary == model.end() || !vocabulary->is_array() || vocabulary->empty()) {
      return BadModel("the tokenizer's vocab is not a list with at least one piece");
    }
    for (const Json& entry : *vocabulary) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
          !entry[1].is_number()) {
        return BadModel(StrCat("piece ", data_.pieces.size(),
                               " of the tokenizer is not a pair of a text and a score"));
      }
      data_.scores.push_back(entry[1].get<double>());
      SLUICE_RETURN_IF_ERROR(
          AddPiece(entry[0].get<std::string>(), static_cast<int32_t>(data_.pieces.size())));
    }
    SLUICE_ASSIGN_OR_RETURN(data_.byte_fallback, Flag(model, "byte_fallback", false));
    auto unknown = model.find("unk_id");
    if (unknown != model.end() && !unknown->is_null()) {
      SLUICE_ASSIGN_OR_RETURN(data_.unk_id, Id(*unknown, "the unknown token"));
      if (static_cast<size_t>(*data_.unk_id) >= data_.pieces.size()) {
        return BadModel(StrCat("the tokenizer's unknown id ", *data_.unk_id, " is outside its ",
                               data_.pieces.size(), " pieces"));
      }
    }
    return OkStatus();
  }

  Status ReadWordPiece(const Json& model) {
    SLUICE_RETURN_IF_ERROR(ReadVocabulary(model));
    data_.continuing_prefix = "##";
    if (model.contains("continuing_subword_prefix")) {
      SLUICE_ASSIGN_OR_RETURN(data_.continuing_prefix, Text(model, "continuing_subword_prefix"));
    }
    auto limit = model.find("max_input_chars_per_word");
    if (limit != model.end()) {
      if (!limit->is_number_integer() || *limit < 1 || *limit > 1'000'000) {
        return BadModel(StrCat("the tokenizer's max_input_chars_per_word is ",
                               limit->dump().substr(0, 40), "; it must be from 1 to 1000000"));
      }
      data_.max_chars_per_word = limit->get<int>();
    }
    return ReadUnknown(model);
  }

  Status ReadAddedTokens(const Json& tokens) {
    if (tokens.is_null()) return OkStatus();
    if (!tokens.is_array()) return BadModel("tokenizer.json has added_tokens that are not a list");
    std::vector<bool> seen;
    for (const Json& json : tokens) {
      if (!json.is_object() || !json.contains("id")) {
        return BadModel("tokenizer.json has an added token without an id");
      }
      AddedToken token;
      SLUICE_ASSIGN_OR_RETURN(token.id, Id(json["id"], "an added token"));
      SLUICE_ASSIGN_OR_RETURN(token.text, Text(json, "content"));
      SLUICE_ASSIGN_OR_RETURN(token.special, Flag(json, "special", false));
      SLUICE_ASSIGN_OR_RETURN(token.normalized, Flag(json, "normalized", !token.special));
      SLUICE_ASSIGN_OR_RETURN(token.left_strip, Flag(json, "lstrip", false));
      SLUICE_ASSIGN_OR_RETURN(token.right_strip, Flag(json, "rstrip", false));
      SLUICE_ASSIGN_OR_RETURN(token.single_word, Flag(json, "single_word", false));
      if (token.text.empty()) continue;
      auto found = ids_.find(token.text);
      if (found == ids_.end()) {
        SLUICE_RETURN_IF_ERROR(AddPiece(token.text, token.id));
      } else if (found->second != token.id) {
        return BadModel(StrCat("the added token ", Quote(token.text), " has the id ", token.id,
                               " but the vocabulary gives it ", found->second));
      }
      auto index = static_cast<size_t>(token.id);
      if (seen.size() <= index) seen.resize(index + 1);
      if (seen[index]) {
        return BadModel(StrCat("tokenizer.json adds the token id ", token.id, " twice"));
      }
      seen[index] = true;
      data_.added_tokens.push_back(std::move(token));
    }
    // A unigram piece without a score never matches, but its id exists.
    if (!data_.scores.empty()) data_.scores.resize(data_.pieces.size(), 0.0f);
    return OkStatus();
  }

  // tokenizer_config.json: a token is a text or an object with its "content".
  std::optional<int32_t> ConfigToken(const Json& config, const char* key) const {
    auto found = config.find(key);
    if (found == config.end()) return std::nullopt;
    const Json* text = &*found;
    if (text->is_object() && text->contains("content")) text = &(*text)["content"];
    if (!text->is_string()) return std::nullopt;
    auto id = ids_.find(text->get_ref<const std::string&>());
    if (id == ids_.end()) return std::nullopt;
    return id->second;
  }

  Status ReadConfig(const Json& config) {
    if (config.is_null()) return OkStatus();
    if (!config.is_object()) return BadModel("tokenizer_config.json is not an object");
    data_.bos_id = ConfigToken(config, "bos_token");
    data_.eos_id = ConfigToken(config, "eos_token");
    data_.pad_id = ConfigToken(config, "pad_token");
    SLUICE_RETURN_IF_ERROR(AdjustPattern(config));
    SLUICE_RETURN_IF_ERROR(AdjustEnd(config, "add_bos_token", data_.bos_id, true));
    return AdjustEnd(config, "add_eos_token", data_.eos_id, false);
  }

  // Qwen 3.5 was released with an older expression in tokenizer.json than the one that it was
  // trained with, which stands here; transformers uses this one, too.
  Status AdjustPattern(const Json& config) {
    SLUICE_ASSIGN_OR_RETURN(std::string pattern, Text(config, "pretokenize_regex"));
    auto is_split = [](const TextStep& step) {
      return step.type == "Split" && step.pattern_is_regex;
    };
    auto& steps = data_.pre_tokenizers;
    if (pattern.empty() || std::count_if(steps.begin(), steps.end(), is_split) != 1) {
      return OkStatus();
    }
    std::find_if(steps.begin(), steps.end(), is_split)->pattern = std::move(pattern);
    return OkStatus();
  }

  // What the config says explicitly wins over the post-processor.
  Status AdjustEnd(const Json& config, const char* key, std::optional<int32_t> id, bool at_front) {
    auto found = config.find(key);
    if (found == config.end() || !found->is_boolean() || !id) return OkStatus();
    auto& ids = at_front ? data_.prefix_ids : data_.suffix_ids;
    auto present = std::find(ids.begin(), ids.end(), *id);
    if (found->get<bool>() && present == ids.end()) {
      ids.insert(at_front ? ids.begin() : ids.end(), *id);
    } else if (!found->get<bool>() && present != ids.end()) {
      ids.erase(present);
    }
    return OkStatus();
  }

  void SetKinds() {
    data_.kinds.assign(data_.pieces.size(), TokenKind::kNormal);
    for (size_t id = 0; id < data_.pieces.size(); ++id) {
      const std::string& piece = data_.pieces[id];
      if (!taken_[id]) data_.kinds[id] = TokenKind::kUnused;
      if (data_.byte_fallback && piece.size() == 6 && piece.starts_with("<0x")) {
        data_.kinds[id] = TokenKind::kByte;
      }
    }
    for (const AddedToken& token : data_.added_tokens) {
      data_.kinds[static_cast<size_t>(token.id)] =
          token.special ? TokenKind::kControl : TokenKind::kUserDefined;
    }
    if (data_.unk_id) data_.kinds[static_cast<size_t>(*data_.unk_id)] = TokenKind::kUnknown;
  }

  TokenizerData data_;
  std::vector<bool> taken_;  // by id
  std::unordered_map<std::string, int32_t, SeededTextHash> ids_;
};

Result<Json> ParsePart(std::string_view text, std::string_view what) {
  Result<Json> json = ParseJson(text, what, kLimits);
  if (!json.ok()) return BadModel(json.status().message());
  return json;
}

}  // namespace

Result<TokenizerData> TokenizerFromJson(std::string_view tokenizer_json,
                                        std::string_view config_json) {
  SLUICE_ASSIGN_OR_RETURN(Json root, ParsePart(tokenizer_json, "tokenizer.json"));
  Json config;
  if (!config_json.empty()) {
    SLUICE_ASSIGN_OR_RETURN(config, ParsePart(config_json, "tokenizer_config.json"));
  }
  return JsonReader().Read(root, config);
}

Result<TokenizerData> TokenizerFromParts(TokenizerParts parts) {
  return JsonReader().Complete(std::move(parts));
}

}  // namespace sluice::files
