#include "text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/byte_alphabet.h"
#include "base/str_cat.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_bound.h"
#include "text/tokenizer_decoder.h"
#include "text/tokenizer_model.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

// Working memory is kept for the next text unless it has grown with a longer text than this.
constexpr size_t kKeptTextBytes = 1u << 20;
constexpr size_t kKeptStates = 64;

// Of a model without a tokenizer: no text has tokens, and no token has text.
class NoTokenizer : public Tokenizer {
 public:
  explicit NoTokenizer(files::TokenizerData data) : data_(std::move(data)) {}
  Result<std::vector<TokenId>> Encode(std::string_view, const EncodeOptions&) const override {
    return InvalidArgument(
        "the model has no tokenizer, so that it takes and gives token ids alone: texts cannot be "
        "tokenized; /v1/completions takes token ids as prompt");
  }
  size_t LeastTokens(std::string_view) const override { return 0; }
  std::string PieceBytes(TokenId, bool) const override { return ""; }
  std::string FirstPieceBytes(TokenId, bool) const override { return ""; }
  bool IsSpecial(TokenId) const override { return false; }
  std::string Decode(std::span<const TokenId>, bool) const override { return ""; }
  int vocab_size() const override { return 0; }
  const files::TokenizerData& data() const override { return data_; }
  TokenId Find(std::string_view) const override { return -1; }

 private:
  const files::TokenizerData data_;
};

class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(files::TokenizerData data) : data_(std::move(data)) {}

  Status Init() {
    IndexPieces();
    bound_ = TokenBound(data_);
    SLUICE_ASSIGN_OR_RETURN(normalizer_, Normalizer::Make(data_.normalizers));
    SLUICE_ASSIGN_OR_RETURN(pre_tokenizer_,
                            PreTokenizer::Make(data_.pre_tokenizers, normalizer_.unit()));
    SLUICE_ASSIGN_OR_RETURN(added_raw_, AddedTokens::Make(data_.added_tokens, false, normalizer_));
    SLUICE_ASSIGN_OR_RETURN(added_normalized_,
                            AddedTokens::Make(data_.added_tokens, true, normalizer_));
    SLUICE_ASSIGN_OR_RETURN(decoder_, TokenDecoder::Make(data_));
    switch (data_.model) {
      case files::TokenizerModel::kByteBpe:
      case files::TokenizerModel::kSentencePieceBpe: {
        SLUICE_ASSIGN_OR_RETURN(model_, MakeBpeModel(data_, words_));
        return OkStatus();
      }
      case files::TokenizerModel::kUnigram: {
        SLUICE_ASSIGN_OR_RETURN(model_, MakeUnigramModel(data_, words_));
        return OkStatus();
      }
      case files::TokenizerModel::kWordPiece: {
        SLUICE_ASSIGN_OR_RETURN(model_, MakeWordPieceModel(data_, words_));
        return OkStatus();
      }
      case files::TokenizerModel::kNone:
        break;  // NoTokenizer
    }
    return BadModel("the tokenizer's model is not known");
  }

  Result<std::vector<TokenId>> Encode(std::string_view text,
                                      const EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (options.add_special) ids = data_.prefix_ids;
    std::string repaired;
    if (!IsValidUtf8(text)) {
      repaired = RepairUtf8(text);
      text = repaired;
    }
    std::unique_ptr<State> state = TakeState();
    state->Start(text.size(), options);
    RawSink sink(this, options.parse_special, text.data(), state.get(), &ids);
    added_raw_.Split(text, options.parse_special, &sink);
    Status status = state->model.budget.spent() ? state->model.budget.Error() : state->status;
    if (state->model.cancel.asked()) status = GivenUp();
    if (text.size() <= kKeptTextBytes) ReturnState(std::move(state));
    SLUICE_RETURN_IF_ERROR(status);
    if (options.add_special) {
      ids.insert(ids.end(), data_.suffix_ids.begin(), data_.suffix_ids.end());
    }
    return ids;
  }

  size_t LeastTokens(std::string_view text) const override { return bound_.LeastTokens(text); }

  std::string PieceBytes(TokenId id, bool render_special) const override {
    if (decoder_.IsSpecial(id) && !render_special) return {};
    return std::string(decoder_.Bytes(id));
  }

  std::string FirstPieceBytes(TokenId id, bool render_special) const override {
    if (decoder_.IsSpecial(id) && !render_special) return {};
    return std::string(decoder_.FirstBytes(id));
  }

  bool IsSpecial(TokenId id) const override { return decoder_.IsSpecial(id); }

  std::string Decode(std::span<const TokenId> ids, bool render_special) const override {
    std::string bytes;
    bool first = true;
    for (TokenId id : ids) {
      if (id < 0 || id >= vocab_size() || (decoder_.IsSpecial(id) && !render_special)) continue;
      bytes += first ? decoder_.FirstBytes(id) : decoder_.Bytes(id);
      first = false;
    }
    return IsValidUtf8(bytes) ? bytes : RepairUtf8(bytes);
  }

  int vocab_size() const override { return static_cast<int>(data_.pieces.size()); }
  const files::TokenizerData& data() const override { return data_; }
  TokenId Find(std::string_view piece) const override {
    if (const int32_t id = added_.Find(piece); id != Vocabulary::kNone) return id;
    if (data_.model != files::TokenizerModel::kByteBpe) return words_.Find(piece);
    std::string bytes;
    const bool spelled = IsValidUtf8(piece) && BytesOfAlphabet(piece, &bytes);
    return spelled ? words_.Find(bytes) : others_.Find(piece);
  }

 private:
  struct State {
    NormalizerState normalizer;
    PreTokenizerState pre_tokenizer;
    ModelState model;
    size_t tokens_max = 0;
    Status status;  // of the text so far

    void Start(size_t text_bytes, const EncodeOptions& options) {
      const Cancel cancel(options.cancelled);
      normalizer.Start(text_bytes, cancel);
      pre_tokenizer.Start(text_bytes);
      model.cancel = cancel;
      model.budget = PieceBudget(text_bytes);
      tokens_max = options.tokens_max;
      status = OkStatus();
    }
    bool GoesOn(const std::vector<TokenId>& ids) const {
      return status.ok() && ids.size() <= tokens_max && !model.cancel.asked() &&
             !model.budget.spent();
    }
  };

  // Words to ids.
  class WordSink final : public PreTokenizer::Sink {
   public:
    WordSink(const PipelineTokenizer* owner, State* state, std::vector<TokenId>* ids)
        : owner_(owner), state_(state), ids_(ids) {}
    bool Word(std::string_view word) override {
      owner_->model_->Encode(word, &state_->model, ids_);
      return state_->GoesOn(*ids_);
    }

   private:
    const PipelineTokenizer* owner_;
    State* state_;
    std::vector<TokenId>* ids_;
  };

  // Normalized text between added tokens to words.
  class NormalizedSink final : public AddedTokens::Sink {
   public:
    NormalizedSink(const PipelineTokenizer* owner, const char* start, State* state,
                   std::vector<TokenId>* ids)
        : owner_(owner), start_(start), state_(state), ids_(ids), words_(owner, state, ids) {}
    void Text(std::string_view text) override {
      if (!state_->GoesOn(*ids_)) return;
      state_->status = owner_->pre_tokenizer_.Split(text, text.data() == start_,
                                                    &state_->pre_tokenizer, &words_);
    }
    void Token(int32_t id) override { ids_->push_back(id); }

   private:
    const PipelineTokenizer* owner_;
    const char* start_;
    State* state_;
    std::vector<TokenId>* ids_;
    WordSink words_;
  };

  // Text as it came, between the added tokens that match it so, to normalized text.
  class RawSink final : public AddedTokens::Sink {
   public:
    RawSink(const PipelineTokenizer* owner, bool parse_special, const char* start, State* state,
            std::vector<TokenId>* ids)
        : owner_(owner), parse_special_(parse_special), start_(start), state_(state), ids_(ids) {}
    void Text(std::string_view text) override {
      if (!state_->GoesOn(*ids_)) return;
      const Result<std::string_view> made =
          owner_->normalizer_.Normalize(text, &state_->normalizer);
      if (!made.ok()) {
        state_->status = made.status();
        return;
      }
      const std::string_view normalized = *made;
      const char* start = text.data() == start_ ? normalized.data() : nullptr;
      NormalizedSink sink(owner_, start, state_, ids_);
      owner_->added_normalized_.Split(normalized, parse_special_, &sink);
    }
    void Token(int32_t id) override { ids_->push_back(id); }

   private:
    const PipelineTokenizer* owner_;
    bool parse_special_;
    const char* start_;
    State* state_;
    std::vector<TokenId>* ids_;
  };

  void IndexPieces() {
    const bool bytes = data_.model == files::TokenizerModel::kByteBpe;
    words_ = Vocabulary(data_.pieces.size());
    if (bytes) piece_bytes_.resize(data_.pieces.size());
    std::vector<int32_t> others;
    for (size_t i = 0; i < data_.pieces.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const std::string& piece = data_.pieces[i];
      if (piece.empty()) continue;
      if (!bytes) {
        words_.Insert(piece, id);
      } else if (BytesOfAlphabet(piece, &piece_bytes_[i])) {
        words_.Insert(piece_bytes_[i], id);
      } else {
        others.push_back(id);
      }
    }
    others_ = Vocabulary(others.size());
    for (const int32_t id : others) others_.Insert(data_.pieces[static_cast<size_t>(id)], id);
    added_ = Vocabulary(data_.added_tokens.size());
    for (const files::AddedToken& token : data_.added_tokens) added_.Insert(token.text, token.id);
  }

  std::unique_ptr<State> TakeState() const {
    {
      std::lock_guard lock(mutex_);
      if (!free_states_.empty()) {
        std::unique_ptr<State> state = std::move(free_states_.back());
        free_states_.pop_back();
        return state;
      }
    }
    return std::make_unique<State>();
  }
  void ReturnState(std::unique_ptr<State> state) const {
    std::lock_guard lock(mutex_);
    if (free_states_.size() < kKeptStates) free_states_.push_back(std::move(state));
  }

  // Constant after Init.
  const files::TokenizerData data_;
  std::vector<std::string> piece_bytes_;  // byte-level: pieces as bytes
  // Point into data_ and piece_bytes_. `others_`: byte-level pieces that are not of bytes (an added
  // token, or one that no text can give).
  Vocabulary words_, others_, added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_raw_, added_normalized_;
  TokenDecoder decoder_;
  TokenBound bound_;
  std::unique_ptr<TokenizerModel> model_;

  // Guarded by mutex_: working memory that no Encode uses now.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<State>> free_states_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Make(files::TokenizerData data) {
  if (data.model == files::TokenizerModel::kNone)
    return std::shared_ptr<const Tokenizer>(std::make_shared<NoTokenizer>(std::move(data)));
  auto tokenizer = std::make_shared<PipelineTokenizer>(std::move(data));
  SLUICE_RETURN_IF_ERROR(tokenizer->Init());
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

}  // namespace sluice::text
