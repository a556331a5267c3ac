#include "text/utf8_masks.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::text {
namespace {

Utf8End Next(Utf8End end, uint8_t byte) {
  const auto within = [byte](uint8_t first, uint8_t last, Utf8End then) {
    return byte >= first && byte <= last ? then : Utf8End::kNone;
  };
  switch (end) {
    case Utf8End::kWhole:
      if (byte < 0x80) return Utf8End::kWhole;
      if (byte >= 0xC2 && byte <= 0xDF) return Utf8End::kOneMore;
      if (byte == 0xE0) return Utf8End::kBehindE0;
      if (byte == 0xED) return Utf8End::kBehindED;
      if (byte >= 0xE1 && byte <= 0xEF) return Utf8End::kTwoMore;
      if (byte == 0xF0) return Utf8End::kBehindF0;
      if (byte == 0xF4) return Utf8End::kBehindF4;
      return within(0xF1, 0xF3, Utf8End::kThreeMore);
    case Utf8End::kOneMore:
      return within(0x80, 0xBF, Utf8End::kWhole);
    case Utf8End::kTwoMore:
      return within(0x80, 0xBF, Utf8End::kOneMore);
    case Utf8End::kThreeMore:
      return within(0x80, 0xBF, Utf8End::kTwoMore);
    case Utf8End::kBehindE0:
      return within(0xA0, 0xBF, Utf8End::kOneMore);
    case Utf8End::kBehindED:
      return within(0x80, 0x9F, Utf8End::kOneMore);
    case Utf8End::kBehindF0:
      return within(0x90, 0xBF, Utf8End::kTwoMore);
    case Utf8End::kBehindF4:
      return within(0x80, 0x8F, Utf8End::kTwoMore);
    case Utf8End::kNone:
      break;
  }
  return Utf8End::kNone;
}

}  // namespace

Utf8End Utf8EndBehind(Utf8End end, std::string_view bytes) {
  for (const char byte : bytes) end = Next(end, static_cast<uint8_t>(byte));
  return end;
}

Utf8Masks::Utf8Masks(std::span<const std::string> pieces) {
  for (size_t end = 0; end < masks_.size(); ++end) {
    masks_[end].resize((pieces.size() + 31) / 32);
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (Utf8EndBehind(static_cast<Utf8End>(end), pieces[id]) != Utf8End::kNone) {
        masks_[end][id / 32] |= 1u << (id % 32);
      }
    }
  }
}

void Utf8Masks::Restrict(Utf8End end, std::span<uint32_t> allowed) const {
  CHECK(end != Utf8End::kNone);
  const std::vector<uint32_t>& mask = masks_[static_cast<size_t>(end)];
  const size_t words = std::min(mask.size(), allowed.size());
  for (size_t i = 0; i < words; ++i) allowed[i] &= mask[i];
}

}  // namespace sluice::text
