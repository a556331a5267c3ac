#include "files/folder_tokenizer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/config_check.h"
#include "files/folder_texts.h"
#include "files/gguf_pre_tokenizers.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/sentencepiece_model.h"
#include "files/tokenizer_parts.h"
#include "files/vocabulary_files.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamesMax = 65'536;
constexpr char kTokenizerName[] = "tokenizer.json";
constexpr std::string_view kTiktokenSuffix = ".tiktoken";
constexpr std::string_view kMarkOfSpace = "\xE2\x96\x81";
constexpr const char* kSpecials[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};
constexpr const char* kTokenizerRemedy =
    "; save the tokenizer with transformers, which writes a tokenizer.json";

// Classes that number the pieces of their SentencePiece model otherwise than it does, or change
// texts before it reads them.
constexpr std::string_view kOtherNumbers[] = {
    "XLMRobertaTokenizer", "CamembertTokenizer", "MBartTokenizer",      "MBart50Tokenizer",
    "NllbTokenizer",       "M2M100Tokenizer",    "XGLMTokenizer",       "BarthezTokenizer",
    "PegasusTokenizer",    "AlbertTokenizer",    "XLNetTokenizer",      "DebertaV2Tokenizer",
    "BigBirdTokenizer",    "FNetTokenizer",      "RemBertTokenizer",    "ReformerTokenizer",
    "MarianTokenizer",     "CpmTokenizer",       "SeamlessM4TTokenizer"};

// How the classes with vocab.json and those of tiktoken cut texts into words.
struct NamedSteps {
  std::string_view class_name, steps;
};
constexpr NamedSteps kByteLevelClasses[] = {
    {"", "gpt-2"},
    {"GPT2Tokenizer", "gpt-2"},
    {"CodeGenTokenizer", "gpt-2"},
    {"RobertaTokenizer", "gpt-2"},
    {"LongformerTokenizer", "gpt-2"},
    {"BartTokenizer", "gpt-2"},
    {"Qwen2Tokenizer", "qwen2"},
};
constexpr NamedSteps kTiktokenClasses[] = {{"QWenTokenizer", "qwen2"},
                                           {"TikTokenTokenizer", "kimi-k2"}};

TextStep TextStepOf(std::string type, std::string_view content = "") {
  TextStep step;
  step.type = std::move(type);
  step.content = content;
  return step;
}

TextStep ReplaceStep(std::string_view pattern, std::string_view content, bool regex = false) {
  TextStep step = TextStepOf("Replace", content);
  step.pattern = pattern;
  step.pattern_is_regex = regex;
  return step;
}

// A token as the JSON files have it: a text, or an object with its "content".
std::optional<std::string> TokenText(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  const auto content = token.is_object() ? token.find("content") : token.end();
  if (content == token.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

class FolderReader {
 public:
  FolderReader(const fs::path& folder, Json config) : folder_(folder) {
    parts_.config = std::move(config);
    const auto name = parts_.config.find("tokenizer_class");
    if (name != parts_.config.end() && name->is_string()) class_ = name->get<std::string>();
    if (class_.ends_with("Fast")) class_.resize(class_.size() - 4);
  }

  // Nothing: there is no file that it knows.
  Result<std::optional<TokenizerData>> Read() {
    SLUICE_ASSIGN_OR_RETURN(const Json specials, JsonFile("special_tokens_map.json"));
    for (const auto& [key, value] : specials.items()) {
      if (!parts_.config.contains(key)) parts_.config[key] = value;
    }
    SLUICE_ASSIGN_OR_RETURN(const bool found, ReadModel());
    if (!found) return std::optional<TokenizerData>();
    SLUICE_RETURN_IF_ERROR(AddTokens());
    SetEnds();
    SLUICE_ASSIGN_OR_RETURN(TokenizerData data, TokenizerFromParts(std::move(parts_)));
    return std::optional(std::move(data));
  }

 private:
  // Sets the model, its pieces and its steps. False: there is no file that it knows.
  Result<bool> ReadModel() {
    for (const char* name : {"tokenizer.model", "spiece.model"}) {
      SLUICE_ASSIGN_OR_RETURN(const auto bytes, Optional(name));
      if (bytes) return Found(name, ReadSentencePiece(*bytes));
    }
    for (const std::string& name : TiktokenNames()) {
      SLUICE_ASSIGN_OR_RETURN(const auto lines, Optional(name));
      if (lines) return Found(name, ReadTiktokenFile(*lines));
    }
    SLUICE_ASSIGN_OR_RETURN(const auto vocab, Optional("vocab.json"));
    SLUICE_ASSIGN_OR_RETURN(const auto merges, Optional("merges.txt"));
    if (vocab && merges) {
      SLUICE_RETURN_IF_ERROR(Found("merges.txt", ReadMerges(*merges, &parts_.data)).status());
      return Found("vocab.json", ReadByteLevel(*vocab));
    }
    SLUICE_ASSIGN_OR_RETURN(const auto words, Optional("vocab.txt"));
    if (words) return Found("vocab.txt", ReadWordPiece(*words));
    return false;
  }

  static Result<bool> Found(std::string_view name, const Status& status) {
    if (!status.ok()) return status.WithContext(name);
    return true;
  }

  // The bytes of a file; nothing where there is none of that name.
  Result<std::optional<std::string>> Optional(const std::string& name) const {
    auto text = ReadTextFile((folder_ / name).string(), kTokenizerBytesMax);
    if (text.ok()) return std::optional(*std::move(text));
    if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
    return text.status();
  }

  Result<Json> JsonFile(const char* name) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadOptional(folder_ / name, kConfigBytesMax));
    if (text.empty()) return Json::object();
    return ParseModelJson(text, name);
  }

  std::vector<std::string> TiktokenNames() const {
    std::vector<std::string> names = {"tiktoken.model"};
    std::error_code error;
    size_t entries = 0;
    for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
      if (++entries > kNamesMax) break;
      if (at->path().extension().string() == kTiktokenSuffix)
        names.push_back(at->path().filename().string());
    }
    std::sort(names.begin() + 1, names.end());
    return names;
  }

  Status Unknown(std::string_view what) const {
    return BadModel(
        StrCat("the tokenizer_class ", Quote(class_.substr(0, 128)), " ", what, kTokenizerRemedy));
  }

  bool Says(const char* key, bool otherwise) const {
    const auto found = parts_.config.find(key);
    return found != parts_.config.end() && found->is_boolean() ? found->get<bool>() : otherwise;
  }

  Status ReadSentencePiece(std::string_view bytes) {
    if (std::find(std::begin(kOtherNumbers), std::end(kOtherNumbers), class_) !=
        std::end(kOtherNumbers)) {
      return Unknown(
          "numbers the pieces of a SentencePiece model otherwise, which is not supported");
    }
    SLUICE_ASSIGN_OR_RETURN(SentencePieceModel model, ReadSentencePieceModel(bytes));
    TokenizerData& data = parts_.data;
    const bool unigram = model.type == SentencePieceModel::Type::kUnigram;
    data.model = unigram ? TokenizerModel::kUnigram : TokenizerModel::kSentencePieceBpe;
    data.byte_fallback = model.byte_fallback;
    data.fuse_unknown = data.derive_merges = !unigram;
    data.unk_id = model.unk_id;
    bool within = false;  // a piece has a space elsewhere than at its beginning
    for (SentencePieceModel::Piece& piece : model.pieces) {
      using Kind = SentencePieceModel::Kind;
      const bool special = piece.kind == Kind::kControl || piece.kind == Kind::kUnknown;
      if (special || piece.kind == Kind::kUserDefined) {
        AddToken(static_cast<int32_t>(data.pieces.size()), piece.text, special);
      }
      within = within || piece.text.find(kMarkOfSpace, 1) != std::string::npos;
      data.scores.push_back(piece.score);
      data.pieces.push_back(std::move(piece.text));
    }
    is_t5_ = class_ == "T5Tokenizer";
    if (is_t5_) AddExtraIds();
    SetSpaceSteps(model, unigram && !within);
    const auto name = [&](const char* key, std::optional<int32_t> id) {
      if (id && !parts_.config.contains(key)) {
        parts_.config[key] = data.pieces[static_cast<size_t>(*id)];
      }
    };
    if (!is_t5_) name("bos_token", model.bos_id);
    name("eos_token", model.eos_id);
    name("pad_token", model.pad_id);
    return OkStatus();
  }

  // T5's tokens for gaps, which its model file lacks: the last one comes first.
  void AddExtraIds() {
    const auto found = parts_.config.find("extra_ids");
    const bool says = found != parts_.config.end() && found->is_number_integer();
    const int64_t count = says ? std::clamp<int64_t>(found->get<int64_t>(), 0, 1000) : 100;
    for (int64_t i = count; i-- > 0;) {
      const std::string text = StrCat("<extra_id_", i, ">");
      AddToken(static_cast<int32_t>(parts_.data.pieces.size()), text, true);
      parts_.data.pieces.push_back(text);
      parts_.data.scores.push_back(0);
    }
  }

  // `words`: no piece goes beyond a word, so that each may be looked up alone.
  void SetSpaceSteps(const SentencePieceModel& model, bool words) {
    TokenizerData& data = parts_.data;
    if (!model.charsmap.empty()) {
      data.normalizers.push_back(TextStepOf("Precompiled"));
      data.normalizers.back().precompiled = model.charsmap;
    }
    if (model.removes_spaces) {
      TextStep strip = TextStepOf("Strip");
      strip.options["strip_left"] = strip.options["strip_right"] = true;
      data.normalizers.push_back(std::move(strip));
      data.normalizers.push_back(ReplaceStep(" {2,}", " ", /*regex=*/true));
    }
    // The class of Llama once put a space before each part between special tokens.
    const bool first_alone = class_ == "LlamaTokenizer" && !Says("legacy", true);
    const bool adds_space = Says("add_prefix_space", model.adds_space) && model.adds_space;
    if (adds_space && !first_alone) data.normalizers.push_back(TextStepOf("Prepend", kMarkOfSpace));
    data.normalizers.push_back(ReplaceStep(" ", kMarkOfSpace));
    if (words || (adds_space && first_alone)) {
      TextStep metaspace = TextStepOf("Metaspace", kMarkOfSpace);
      metaspace.behavior = adds_space && first_alone ? "first" : "never";
      metaspace.options["split"] = words;
      data.pre_tokenizers.push_back(std::move(metaspace));
    }
    data.decoders = {ReplaceStep(kMarkOfSpace, " "), TextStepOf("ByteFallback"),
                     TextStepOf("Fuse")};
    if (!adds_space) return;
    data.decoders.push_back(TextStepOf("Strip", " "));
    data.decoders.back().options["start"] = true;
  }

  static std::optional<std::string_view> StepsOf(std::span<const NamedSteps> classes,
                                                 std::string_view name) {
    for (const NamedSteps& entry : classes) {
      if (entry.class_name == name) return entry.steps;
    }
    return std::nullopt;
  }

  void SetByteSteps(std::string_view name) {
    GgufPreTokenizer steps = *FindGgufPreTokenizer(name, "");
    TokenizerData& data = parts_.data;
    data.normalizers = std::move(steps.normalizers);
    data.pre_tokenizers = std::move(steps.pre_tokenizers);
    data.pre_tokenizers.back().options["add_prefix_space"] = Says("add_prefix_space", false);
    data.decoders = {TextStepOf("ByteLevel")};
  }

  Status ReadTiktokenFile(std::string_view lines) {
    const auto steps = StepsOf(kTiktokenClasses, class_);
    if (!steps) return Unknown("does not say how to cut texts for a tiktoken file");
    SLUICE_RETURN_IF_ERROR(ReadTiktoken(lines, &parts_.data));
    SetByteSteps(*steps);
    auto next = static_cast<int32_t>(parts_.data.pieces.size());
    if (class_ == "QWenTokenizer") {
      for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
        AddToken(next++, text, true);
      }
      for (int i = 0; i < 205; ++i) AddToken(next++, StrCat("<|extra_", i, "|>"), true);
      if (!parts_.config.contains("eos_token")) parts_.config["eos_token"] = "<|endoftext|>";
    } else {
      // Those that tokenizer_config.json names otherwise have another text there.
      for (int i = 0; i < 256; ++i, ++next) {
        AddToken(next, StrCat("<|reserved_token_", next, "|>"), true);
      }
    }
    return OkStatus();
  }

  Status ReadByteLevel(std::string_view vocab) {
    const auto steps = StepsOf(kByteLevelClasses, class_);
    if (!steps) return Unknown("does not say how to cut texts for a vocab.json");
    SLUICE_RETURN_IF_ERROR(ReadVocabJson(vocab, &parts_.data));
    SetByteSteps(*steps);
    if (*steps != "gpt-2" || class_.empty() || class_ == "GPT2Tokenizer" ||
        class_ == "CodeGenTokenizer") {
      if (*steps == "gpt-2") Default("bos_token", "<|endoftext|>");
      Default("eos_token", "<|endoftext|>");
      return OkStatus();
    }
    Default("unk_token", "<unk>");
    Default("pad_token", "<pad>");
    Default("mask_token", "<mask>");
    SetPairEnds("<s>", "</s>", /*doubled=*/true);
    return OkStatus();
  }

  Status ReadWordPiece(std::string_view vocab) {
    SLUICE_RETURN_IF_ERROR(ReadVocabText(vocab, &parts_.data));
    TokenizerData& data = parts_.data;
    const bool mpnet = class_ == "MPNetTokenizer";
    TextStep normalizer = TextStepOf("BertNormalizer");
    normalizer.options["lowercase"] = Says("do_lower_case", true);
    normalizer.options["handle_chinese_chars"] = Says("tokenize_chinese_chars", true);
    const auto accents = parts_.config.find("strip_accents");
    if (accents != parts_.config.end() && accents->is_boolean()) {
      normalizer.options["strip_accents"] = accents->get<bool>();
    }
    data.normalizers = {std::move(normalizer)};
    data.pre_tokenizers = {TextStepOf("BertPreTokenizer")};
    data.decoders = {TextStepOf("WordPiece", "##")};
    data.decoders.back().options["cleanup"] = true;
    data.continuing_prefix = "##";
    Default("unk_token", "[UNK]");
    Default("pad_token", mpnet ? "<pad>" : "[PAD]");
    Default("mask_token", mpnet ? "<mask>" : "[MASK]");
    SetPairEnds(mpnet ? "<s>" : "[CLS]", mpnet ? "</s>" : "[SEP]", /*doubled=*/mpnet);
    data.unk_id = Id("unk_token");
    return OkStatus();
  }

  void Default(const char* key, const char* text) {
    if (!parts_.config.contains(key)) parts_.config[key] = text;
  }

  // The tokens around a text of an encoder, and between two.
  void SetPairEnds(const char* begin, const char* end, bool doubled) {
    doubled_ = doubled;
    Default("cls_token", begin);
    Default("sep_token", end);
    const auto cls = Id("cls_token"), sep = Id("sep_token");
    if (!cls || !sep) return;
    parts_.post_processor = {{"type", doubled ? "RobertaProcessing" : "BertProcessing"},
                             {"cls", {*TokenText(parts_.config["cls_token"]), *cls}},
                             {"sep", {*TokenText(parts_.config["sep_token"]), *sep}}};
  }

  // Of the token that the config has under that key.
  std::optional<int32_t> Id(const char* key) {
    const auto found = parts_.config.find(key);
    const auto text = found == parts_.config.end() ? std::nullopt : TokenText(*found);
    if (!text) return std::nullopt;
    const auto& pieces = parts_.data.pieces;
    if (ids_.empty()) {
      for (size_t id = 0; id < pieces.size(); ++id) {
        ids_.emplace(pieces[id], static_cast<int32_t>(id));
      }
    }
    const auto id = ids_.find(*text);
    return id == ids_.end() ? std::nullopt : std::optional(id->second);
  }

  void AddToken(int32_t id, std::string_view text, bool special) {
    tokens_[id] = {{"id", id},           {"content", text},
                   {"special", special}, {"normalized", false},
                   {"lstrip", false},    {"rstrip", false}};
  }

  // What the JSON files say of tokens goes before what the model file says.
  Status AddTokens() {
    SLUICE_ASSIGN_OR_RETURN(const Json added, JsonFile("added_tokens.json"));
    for (const auto& [text, id] : added.items()) {
      if (!id.is_number_integer() || id < 0 || id >= kVocabRange.max) {
        return BadModel(StrCat("added_tokens.json gives ", Quote(text.substr(0, 128)),
                               " an id that is none from 0 to ", kVocabRange.max - 1));
      }
      AddToken(id.get<int32_t>(), text, IsSpecial(text));
      tokens_[id.get<int32_t>()]["normalized"] = !IsSpecial(text);
    }
    for (const char* key : kSpecials) {
      const auto id = Id(key);
      if (!id) continue;
      AddToken(*id, *TokenText(parts_.config[key]), true);
      // RoBERTa's and MPNet's masks take the space before them.
      if (doubled_ && key == std::string_view("mask_token")) tokens_[*id]["lstrip"] = true;
    }
    const Json decoder = parts_.config.value("added_tokens_decoder", Json::object());
    for (const auto& [key, token] : decoder.items()) {
      const std::optional<int> id = ParseNumber<int>(key);
      if (!decoder.is_object() || !id || *id < 0 || !token.is_object() || !TokenText(token)) {
        return BadModel("tokenizer_config.json has added_tokens_decoder with what is no token");
      }
      tokens_[*id] = token;
      tokens_[*id]["id"] = *id;
    }
    for (auto& [id, token] : tokens_) parts_.added.push_back(std::move(token));
    return OkStatus();
  }

  bool IsSpecial(std::string_view text) const {
    for (const char* key : kSpecials) {
      const auto found = parts_.config.find(key);
      if (found != parts_.config.end() && TokenText(*found) == text) return true;
    }
    const auto more = parts_.config.find("additional_special_tokens");
    if (more == parts_.config.end() || !more->is_array()) return false;
    return std::any_of(more->begin(), more->end(),
                       [&](const Json& token) { return TokenText(token) == text; });
  }

  // What stands around a text where the config does not say.
  void SetEnds() {
    const TokenizerModel model = parts_.data.model;
    if (model != TokenizerModel::kUnigram && model != TokenizerModel::kSentencePieceBpe) return;
    const auto set = [&](const char* key, bool value) {
      if (!parts_.config.contains(key)) parts_.config[key] = value;
    };
    set("add_bos_token", !is_t5_);
    set("add_eos_token", is_t5_);
  }

  const fs::path folder_;
  std::string class_;  // without "Fast"
  TokenizerParts parts_;
  std::map<int32_t, Json> tokens_;  // as tokenizer.json has its added_tokens
  std::unordered_map<std::string, int32_t, SeededTextHash> ids_;
  bool is_t5_ = false;
  bool doubled_ = false;  // two tokens stand between texts
};

}  // namespace

bool IsTokenizerFile(std::string_view name) {
  constexpr std::string_view kNames[] = {
      kTokenizerName,    kTokenizerConfigName, "special_tokens_map.json", "added_tokens.json",
      "tokenizer.model", "spiece.model",       "tiktoken.model",          "vocab.json",
      "merges.txt",      "vocab.txt"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         (name.ends_with(kTiktokenSuffix) && name.find('/') == std::string_view::npos);
}

bool MeansTokenizer(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (IsTokenizerFile(name) || name.starts_with("chat_template.") || name.ends_with(".part"))
      return true;
  }
  return bool(error);  // reading it says what is wrong
}

Result<TokenizerData> ReadFolderTokenizer(const fs::path& folder, std::string_view config) {
  const auto text = ReadTextFile((folder / kTokenizerName).string(), kTokenizerBytesMax);
  if (text.ok()) return TokenizerFromJson(*text, config);
  if (text.status().code() != StatusCode::kNotFound) return text.status();
  Json json = Json::object();
  if (!config.empty()) {
    SLUICE_ASSIGN_OR_RETURN(json, ParseModelJson(config, kTokenizerConfigName));
  }
  SLUICE_ASSIGN_OR_RETURN(auto data, FolderReader(folder, std::move(json)).Read());
  if (data) return *std::move(data);
  return Status(
      StatusCode::kNotFound,
      StrCat(text.status().message(),
             ", nor tokenizer.model, spiece.model, tiktoken.model, *.tiktoken, vocab.json "
             "with merges.txt, or vocab.txt"));
}

}  // namespace sluice::files
