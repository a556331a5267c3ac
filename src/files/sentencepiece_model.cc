#include "files/sentencepiece_model.h"

#include <bit>
#include <utility>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

Status Damaged(std::string_view what) {
  return BadModel(
      StrCat("the SentencePiece model ", what, "; the file is damaged, or no SentencePiece model"));
}

// One field of a protobuf message.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // of an integer, or the bits of a float
  std::string_view bytes;  // of a text or a message
  bool is_bytes = false;
};

// The fields of a message, one by one.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}
  bool ended() const { return rest_.empty(); }

  Result<Field> Next() {
    Field field;
    SLUICE_ASSIGN_OR_RETURN(const uint64_t tag, Integer());
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0: {
        SLUICE_ASSIGN_OR_RETURN(field.value, Integer());
        return field;
      }
      case 1:
        return Fixed(8, field);
      case 2: {
        SLUICE_ASSIGN_OR_RETURN(const uint64_t size, Integer());
        if (size > rest_.size()) return Damaged("has a field that is longer than what is left");
        field.is_bytes = true;
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return field;
      }
      case 5:
        return Fixed(4, field);
      default:
        return Damaged("has a field of a kind that there is not");
    }
  }

 private:
  Result<uint64_t> Integer() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return Damaged("ends within a number");
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return Damaged("has a number of more than 64 bits");
  }

  Result<Field> Fixed(size_t size, Field field) {
    if (size > rest_.size()) return Damaged("ends within a number");
    for (size_t i = size; i-- > 0;) {
      field.value = field.value << 8 | static_cast<unsigned char>(rest_[i]);
    }
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

// Numbers of fields in sentencepiece_model.proto.
constexpr uint32_t kPieces = 1, kTrainer = 2, kNormalizer = 3;
constexpr uint32_t kText = 1, kScore = 2, kPieceKind = 3;
constexpr uint32_t kModelType = 3, kSpaceBehind = 24, kByteFallback = 35;
constexpr uint32_t kBosId = 41, kEosId = 42, kPadId = 43;
constexpr uint32_t kCharsmap = 2, kAddsSpace = 3, kRemovesSpaces = 4, kEscapesSpaces = 5;

class PieceReader {
 public:
  Result<SentencePieceModel> Read(std::string_view bytes) {
    Message message(bytes);
    while (!message.ended()) {
      SLUICE_ASSIGN_OR_RETURN(const Field field, message.Next());
      if (!field.is_bytes) continue;
      if (field.number == kPieces) SLUICE_RETURN_IF_ERROR(AddPiece(field.bytes));
      if (field.number == kTrainer) SLUICE_RETURN_IF_ERROR(ReadTrainer(field.bytes));
      if (field.number == kNormalizer) SLUICE_RETURN_IF_ERROR(ReadNormalizer(field.bytes));
    }
    if (model_.pieces.empty()) return Damaged("has no pieces");
    const auto set = [&](int64_t id, std::optional<int32_t>* to) {
      if (id >= 0 && id < static_cast<int64_t>(model_.pieces.size())) {
        *to = static_cast<int32_t>(id);
      }
    };
    set(bos_, &model_.bos_id);
    set(eos_, &model_.eos_id);
    set(pad_, &model_.pad_id);
    return std::move(model_);
  }

 private:
  Status AddPiece(std::string_view bytes) {
    const size_t id = model_.pieces.size();
    if (id >= static_cast<size_t>(kVocabRange.max)) {
      return BadModel(StrCat("the SentencePiece model has more than ", kVocabRange.max, " pieces"));
    }
    SentencePieceModel::Piece piece;
    Message message(bytes);
    while (!message.ended()) {
      SLUICE_ASSIGN_OR_RETURN(const Field field, message.Next());
      if (field.number == kText && field.is_bytes) piece.text = field.bytes;
      if (field.number == kScore && !field.is_bytes) {
        piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      }
      if (field.number != kPieceKind) continue;
      if (field.is_bytes || field.value < 1 || field.value > 6) {
        return Damaged(StrCat("has piece ", id, " of no kind that there is"));
      }
      piece.kind = static_cast<SentencePieceModel::Kind>(field.value);
    }
    if (piece.text.empty() || !IsValidUtf8(piece.text)) {
      return Damaged(StrCat("has piece ", id, " that is empty or not UTF-8"));
    }
    const auto number = static_cast<int32_t>(id);
    if (piece.kind == SentencePieceModel::Kind::kUnknown) model_.unk_id = number;
    if (piece.kind == SentencePieceModel::Kind::kByte) model_.byte_fallback = true;
    model_.pieces.push_back(std::move(piece));
    return OkStatus();
  }

  Status ReadTrainer(std::string_view bytes) {
    Message message(bytes);
    while (!message.ended()) {
      SLUICE_ASSIGN_OR_RETURN(const Field field, message.Next());
      const auto id = static_cast<int64_t>(static_cast<int32_t>(field.value));
      if (field.number == kModelType && field.value != 1 && field.value != 2) {
        return BadModel(StrCat("the SentencePiece model has the model type ", field.value,
                               "; 1 (unigram) and 2 (BPE) are supported"));
      }
      if (field.number == kModelType) {
        model_.type = static_cast<SentencePieceModel::Type>(field.value);
      }
      if (field.number == kSpaceBehind && field.value != 0) {
        return BadModel(
            "the SentencePiece model puts spaces behind words (treat_whitespace_as_suffix), which "
            "is not supported");
      }
      if (field.number == kByteFallback) model_.byte_fallback = field.value != 0;
      if (field.number == kBosId) bos_ = id;
      if (field.number == kEosId) eos_ = id;
      if (field.number == kPadId) pad_ = id;
    }
    return OkStatus();
  }

  Status ReadNormalizer(std::string_view bytes) {
    Message message(bytes);
    while (!message.ended()) {
      SLUICE_ASSIGN_OR_RETURN(const Field field, message.Next());
      if (field.number == kCharsmap) model_.charsmap = field.bytes;
      if (field.number == kAddsSpace) model_.adds_space = field.value != 0;
      if (field.number == kRemovesSpaces) model_.removes_spaces = field.value != 0;
      if (field.number == kEscapesSpaces && field.value == 0) {
        return BadModel(
            "the SentencePiece model does not mark spaces (escape_whitespaces), which is not "
            "supported");
      }
    }
    return OkStatus();
  }

  SentencePieceModel model_;
  int64_t bos_ = 1, eos_ = 2, pad_ = -1;
};

}  // namespace

Result<SentencePieceModel> ReadSentencePieceModel(std::string_view bytes) {
  return PieceReader().Read(bytes);
}

}  // namespace sluice::files
