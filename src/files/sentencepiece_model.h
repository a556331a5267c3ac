// A SentencePiece model file (tokenizer.model, spiece.model): the fields of its protobuf that say
// how texts become ids, read within its bounds. Pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::files {

struct SentencePieceModel {
  enum class Type { kUnigram = 1, kBpe = 2 };
  enum class Kind : uint8_t {
    kNormal = 1,
    kUnknown,
    kControl,
    kUserDefined,
    kUnused,
    kByte,
  };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::kNormal;
  };

  Type type = Type::kUnigram;
  std::vector<Piece> pieces;  // by id
  bool byte_fallback = false;
  std::optional<int32_t> unk_id, bos_id, eos_id, pad_id;  // of a piece
  std::string charsmap;                                   // what characters become; empty: the same
  bool adds_space = true;                                 // before a text
  bool removes_spaces = true;                             // but for one between words
};

// kBadModel where the bytes are no such model, or ask for what is not supported.
Result<SentencePieceModel> ReadSentencePieceModel(std::string_view bytes);

}  // namespace sluice::files
