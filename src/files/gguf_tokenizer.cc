#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/gguf.h"
#include "files/gguf_pre_tokenizers.h"
#include "files/tokenizer_check.h"
#include "files/tokenizer_data.h"
#include "files/tokenizer_end.h"

namespace sluice::files {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
constexpr std::string_view kPrefix = "tokenizer.ggml.";

// Converters fill a vocabulary up to the size of its matrix with such pieces; no published
// tokenizer has them.
bool IsPadding(std::string_view piece) {
  return piece.starts_with("[PAD") && piece.ends_with("]") && piece.size() > 5 &&
         piece.find_first_not_of("0123456789", 4) == piece.size() - 1;
}

TextStep GgufStep(std::string type) {
  TextStep step;
  step.type = std::move(type);
  return step;
}

TextStep Replace(std::string_view pattern, std::string_view content) {
  TextStep step = GgufStep("Replace");
  step.pattern = pattern;
  step.content = content;
  return step;
}

class GgufReader {
 public:
  explicit GgufReader(const GgufFile& file) : file_(file) {}

  Result<TokenizerData> Read() {
    SLUICE_ASSIGN_OR_RETURN(auto model, file_.String(Key("model")));
    if (!model) return BadModel("the file has no tokenizer (tokenizer.ggml.model is missing)");
    if (*model == "none" || *model == "no_vocab") {  // as llama.cpp has it
      data_.model = TokenizerModel::kNone;
      return std::move(data_);
    }
    SLUICE_RETURN_IF_ERROR(ReadPieces());
    SLUICE_RETURN_IF_ERROR(ReadIds());
    if (*model == "gpt2") {
      SLUICE_RETURN_IF_ERROR(ReadByteLevel());
    } else if (*model == "gemma4") {
      SLUICE_RETURN_IF_ERROR(ReadGemma4());
    } else if (*model == "llama") {
      SLUICE_RETURN_IF_ERROR(ReadSentencePiece());
    } else if (*model == "t5") {
      SLUICE_RETURN_IF_ERROR(ReadUnigram());
    } else if (*model == "bert") {
      SLUICE_RETURN_IF_ERROR(ReadWordPiece());
    } else {
      return BadModel(StrCat("the tokenizer model ", Quote(*model),
                             " is not known; known are gpt2, llama, gemma4, t5 and bert"));
    }
    FindAddedTokens();
    SLUICE_RETURN_IF_ERROR(AdjustAddedTokens());
    FindEndOfGeneration({data_.eos_id, eot_id_, eom_id_}, &data_);
    SLUICE_RETURN_IF_ERROR(FinishTokenizer(data_));
    return std::move(data_);
  }

 private:
  static std::string Key(std::string_view name) { return StrCat(kPrefix, name); }

  // The array of `name`, or null when it is absent; an empty array fits every type.
  template <class T>
  Result<const std::vector<T>*> Array(std::string_view name) {
    static const std::vector<T> kEmpty;
    auto found = file_.metadata().find(Key(name));
    if (found == file_.metadata().end()) return static_cast<const std::vector<T>*>(nullptr);
    const auto* array = std::get_if<GgufValue::Array>(&found->second.value);
    const auto* values = array == nullptr ? nullptr : std::get_if<std::vector<T>>(array);
    if (values != nullptr) return values;
    if (array != nullptr && std::visit([](const auto& any) { return any.empty(); }, *array)) {
      return &kEmpty;
    }
    return BadModel(StrCat(Key(name), " has the wrong type"));
  }

  Status ReadPieces() {
    SLUICE_ASSIGN_OR_RETURN(const auto* pieces, Array<std::string_view>("tokens"));
    if (pieces == nullptr || pieces->empty()) {
      return BadModel("the tokenizer has no pieces (tokenizer.ggml.tokens is missing or empty)");
    }
    data_.pieces.assign(pieces->begin(), pieces->end());
    SLUICE_ASSIGN_OR_RETURN(const auto* kinds, Array<int64_t>("token_type"));
    data_.kinds.assign(data_.pieces.size(), TokenKind::kNormal);
    if (kinds == nullptr) return OkStatus();
    if (kinds->size() != data_.pieces.size()) {
      return BadModel(StrCat("the tokenizer has ", data_.pieces.size(), " pieces but ",
                             kinds->size(), " token types"));
    }
    constexpr std::array kKinds = {
        TokenKind::kNormal,      TokenKind::kNormal, TokenKind::kUnknown, TokenKind::kControl,
        TokenKind::kUserDefined, TokenKind::kUnused, TokenKind::kByte};
    for (size_t id = 0; id < kinds->size(); ++id) {
      int64_t kind = (*kinds)[id];
      if (kind < 0 || kind >= static_cast<int64_t>(kKinds.size())) {
        return BadModel(StrCat("token ", id, " has the type ", kind, "; it must be 0 to 6"));
      }
      data_.kinds[id] = kKinds[static_cast<size_t>(kind)];
    }
    return OkStatus();
  }

  Status ReadScores() {
    SLUICE_ASSIGN_OR_RETURN(const auto* scores, Array<double>("scores"));
    if (scores == nullptr || scores->size() != data_.pieces.size()) {
      return BadModel(StrCat("the tokenizer has ", data_.pieces.size(), " pieces but ",
                             scores == nullptr ? 0 : scores->size(), " scores"));
    }
    data_.scores.assign(scores->begin(), scores->end());
    return OkStatus();
  }

  Status ReadId(std::string_view name, std::optional<int32_t>* id) {
    SLUICE_ASSIGN_OR_RETURN(auto value, file_.Integer(Key(name)));
    if (!value) return OkStatus();
    // Converters write the largest number for "none".
    if (*value == -1 || *value == std::numeric_limits<uint32_t>::max()) return OkStatus();
    if (*value < 0 || *value >= static_cast<int64_t>(data_.pieces.size())) {
      return BadModel(StrCat(Key(name), " is ", *value, "; the tokenizer has ", data_.pieces.size(),
                             " pieces"));
    }
    *id = static_cast<int32_t>(*value);
    return OkStatus();
  }

  Status ReadIds() {
    SLUICE_RETURN_IF_ERROR(ReadId("bos_token_id", &data_.bos_id));
    SLUICE_RETURN_IF_ERROR(ReadId("eos_token_id", &data_.eos_id));
    SLUICE_RETURN_IF_ERROR(ReadId("unknown_token_id", &data_.unk_id));
    SLUICE_RETURN_IF_ERROR(ReadId("padding_token_id", &data_.pad_id));
    SLUICE_RETURN_IF_ERROR(ReadId("eot_token_id", &eot_id_));
    return ReadId("eom_token_id", &eom_id_);
  }

  Status SetEnds(bool adds_bos, bool adds_eos) {
    SLUICE_ASSIGN_OR_RETURN(auto bos, file_.Boolean(Key("add_bos_token")));
    SLUICE_ASSIGN_OR_RETURN(auto eos, file_.Boolean(Key("add_eos_token")));
    adds_bos = bos.value_or(adds_bos);
    adds_eos = eos.value_or(adds_eos);
    if (adds_bos && !data_.bos_id) return BadModel("the tokenizer adds a BOS token but has none");
    if (adds_eos && !data_.eos_id) return BadModel("the tokenizer adds an EOS token but has none");
    if (adds_bos) data_.prefix_ids = {*data_.bos_id};
    if (adds_eos) data_.suffix_ids = {*data_.eos_id};
    return OkStatus();
  }

  Status ReadMerges() {
    SLUICE_ASSIGN_OR_RETURN(const auto* merges, Array<std::string_view>("merges"));
    if (merges == nullptr) return OkStatus();
    data_.merges.reserve(merges->size());
    for (size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = (*merges)[i];
      size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == merge.size()) {
        return BadModel(StrCat("merge ", i, " of the tokenizer is ", Quote(merge),
                               "; it must be two pieces with a space between"));
      }
      data_.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    return OkStatus();
  }

  Status ReadByteLevel() {
    SLUICE_ASSIGN_OR_RETURN(auto name, file_.String(Key("pre")));
    SLUICE_ASSIGN_OR_RETURN(auto architecture, file_.String("general.architecture"));
    auto found = FindGgufPreTokenizer(name.value_or(""), architecture.value_or(""));
    if (!found) {
      return BadModel(StrCat("the pre-tokenizer ", Quote(*name),
                             " is not known, so the text would be split wrongly"));
    }
    data_.model = TokenizerModel::kByteBpe;
    data_.normalizers = std::move(found->normalizers);
    data_.pre_tokenizers = std::move(found->pre_tokenizers);
    data_.ignore_merges = found->ignore_merges;
    data_.decoders = {GgufStep("ByteLevel")};
    data_.unk_id.reset();  // every byte is a piece
    SLUICE_RETURN_IF_ERROR(ReadMerges());
    data_.derive_merges = data_.merges.empty() && name == "kimi-k2";
    if (data_.merges.empty() && !data_.derive_merges) {
      return BadModel("the tokenizer has no merges (tokenizer.ggml.merges is missing or empty)");
    }
    return SetEnds(found->adds_bos, false);
  }

  void SetSpaceMarks(bool prefix) {
    if (prefix) {
      data_.normalizers.push_back(GgufStep("Prepend"));
      data_.normalizers.back().content = kSpaceMark;
    }
    data_.normalizers.push_back(Replace(" ", kSpaceMark));
    data_.decoders = {Replace(kSpaceMark, " "), GgufStep("ByteFallback"), GgufStep("Fuse")};
    if (prefix) {
      data_.decoders.push_back(GgufStep("Strip"));
      data_.decoders.back().content = " ";
      data_.decoders.back().options["start"] = true;
    }
  }

  Status ReadGemma4() {
    data_.model = TokenizerModel::kSentencePieceBpe;
    data_.byte_fallback = true;
    data_.fuse_unknown = true;
    SetSpaceMarks(false);
    SLUICE_RETURN_IF_ERROR(ReadMerges());
    if (data_.merges.empty()) {
      return BadModel("the tokenizer has no merges (tokenizer.ggml.merges is missing or empty)");
    }
    return SetEnds(false, false);
  }

  Status ReadSentencePiece() {
    data_.model = TokenizerModel::kSentencePieceBpe;
    data_.byte_fallback = true;
    data_.fuse_unknown = true;
    auto fill = [&](std::optional<int32_t>* id, int32_t usual) {
      if (!*id && static_cast<size_t>(usual) < data_.pieces.size()) *id = usual;
    };
    fill(&data_.unk_id, 0);
    fill(&data_.bos_id, 1);
    fill(&data_.eos_id, 2);
    data_.derive_merges = true;
    SLUICE_RETURN_IF_ERROR(ReadScores());
    SLUICE_ASSIGN_OR_RETURN(auto prefix, file_.Boolean(Key("add_space_prefix")));
    SetSpaceMarks(prefix.value_or(true));
    return SetEnds(true, false);
  }

  Status ReadUnigram() {
    data_.model = TokenizerModel::kUnigram;
    SLUICE_RETURN_IF_ERROR(ReadScores());
    if (!data_.unk_id && data_.pieces.size() > 2) data_.unk_id = 2;
    if (!data_.eos_id && data_.pieces.size() > 1) data_.eos_id = 1;
    SLUICE_ASSIGN_OR_RETURN(const auto* map, Array<int64_t>("precompiled_charsmap"));
    if (map != nullptr && !map->empty()) {
      TextStep step = GgufStep("Precompiled");
      step.precompiled.reserve(map->size());
      for (int64_t byte : *map) step.precompiled.push_back(static_cast<char>(byte));
      data_.normalizers.push_back(std::move(step));
    }
    SLUICE_ASSIGN_OR_RETURN(auto prefix, file_.Boolean(Key("add_space_prefix")));
    SLUICE_ASSIGN_OR_RETURN(auto squeeze, file_.Boolean(Key("remove_extra_whitespaces")));
    if (squeeze.value_or(false)) data_.pre_tokenizers.push_back(GgufStep("WhitespaceSplit"));
    TextStep metaspace = GgufStep("Metaspace");
    metaspace.content = kSpaceMark;
    metaspace.behavior = prefix.value_or(true) ? "always" : "never";
    metaspace.options["split"] = true;
    data_.pre_tokenizers.push_back(metaspace);
    data_.decoders = {metaspace};
    return SetEnds(false, true);
  }

  // The file spells the beginning of a word with a space mark; BERT spells its continuation with
  // "##".
  Status ReadWordPiece() {
    data_.model = TokenizerModel::kWordPiece;
    data_.continuing_prefix = "##";
    for (size_t id = 0; id < data_.pieces.size(); ++id) {
      std::string& piece = data_.pieces[id];
      if (data_.kinds[id] != TokenKind::kNormal) continue;
      if (piece.starts_with(kSpaceMark)) {
        piece.erase(0, kSpaceMark.size());
      } else if (!(piece.starts_with('[') && piece.ends_with(']') && piece.size() > 2)) {
        piece.insert(0, "##");
      }
    }
    data_.normalizers = {GgufStep("BertNormalizer")};
    SLUICE_ASSIGN_OR_RETURN(const auto lower, file_.Boolean(Key("normalizer.lowercase")));
    data_.normalizers.back().options["lowercase"] = lower.value_or(true);
    data_.pre_tokenizers = {GgufStep("BertPreTokenizer")};
    data_.decoders = {GgufStep("WordPiece")};
    data_.decoders.back().content = "##";
    auto fill = [&](std::optional<int32_t>* id, int32_t usual) {
      if (!*id && static_cast<size_t>(usual) < data_.pieces.size()) *id = usual;
    };
    fill(&data_.unk_id, 100);
    std::optional<int32_t> begin;
    std::optional<int32_t> end;
    SLUICE_RETURN_IF_ERROR(ReadId("cls_token_id", &begin));
    SLUICE_RETURN_IF_ERROR(ReadId("seperator_token_id", &end));
    if (!begin) begin = data_.bos_id;
    fill(&begin, 101);
    fill(&end, 102);
    if (begin) data_.prefix_ids = {*begin};
    if (end) data_.suffix_ids = data_.between_ids = {*end};
    if (!data_.bos_id) data_.bos_id = begin;
    return OkStatus();
  }

  void FindAddedTokens() {
    bool bytes = data_.model == TokenizerModel::kByteBpe;
    for (size_t i = 0; i < data_.pieces.size(); ++i) {
      TokenKind kind = data_.kinds[i];
      auto id = static_cast<int32_t>(i);
      bool special =
          kind == TokenKind::kControl || (kind == TokenKind::kUnknown && data_.unk_id == id);
      bool user = kind == TokenKind::kUserDefined;
      if ((!special && !user) || data_.pieces[i].empty() || IsPadding(data_.pieces[i])) continue;
      AddedToken token;
      token.id = id;
      token.text = data_.pieces[i];
      token.special = special;
      token.normalized = user && bytes;
      data_.added_tokens.push_back(std::move(token));
    }
  }

  // Two flags of published tokenizers that GGUF has no key for.
  Status AdjustAddedTokens() {
    SLUICE_ASSIGN_OR_RETURN(auto name, file_.String("general.name"));
    SLUICE_ASSIGN_OR_RETURN(auto architecture, file_.String("general.architecture"));
    const std::string lower = Lower(name.value_or(""));
    bool phi3 = architecture == "phi3" || lower.find("phi-3") != std::string::npos ||
                lower.find("phi3") != std::string::npos;
    for (AddedToken& token : data_.added_tokens) {
      if (phi3 && data_.model == TokenizerModel::kSentencePieceBpe) {
        token.right_strip =
            token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
      }
      if (data_.model == TokenizerModel::kUnigram && token.text == "<mask>")
        token.left_strip = true;
    }
    return OkStatus();
  }

  const GgufFile& file_;
  TokenizerData data_;
  std::optional<int32_t> eot_id_, eom_id_;
};

}  // namespace

Result<TokenizerData> TokenizerFromGguf(const GgufFile& file) { return GgufReader(file).Read(); }

}  // namespace sluice::files
