#include "base/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace sluice {
namespace {

struct ByteAlphabet {
  std::array<uint32_t, 256> to_character{};
  std::array<int16_t, 0x144> to_byte{};

  constexpr ByteAlphabet() {
    to_byte.fill(-1);
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      to_character[byte] = printable ? byte : next++;
      to_byte[to_character[byte]] = static_cast<int16_t>(byte);
    }
  }
};

constexpr ByteAlphabet kAlphabet;

}  // namespace

uint32_t ByteToCharacter(uint8_t byte) { return kAlphabet.to_character[byte]; }

int CharacterToByte(uint32_t code_point) {
  constexpr auto& to_byte = kAlphabet.to_byte;
  return code_point < to_byte.size() ? to_byte[code_point] : -1;
}

bool BytesOfAlphabet(std::string_view piece, std::string* bytes) {
  bytes->resize(piece.size());
  size_t count = 0;
  for (size_t offset = 0; offset < piece.size();) {
    int byte = CharacterToByte(DecodeUtf8(piece, &offset));
    if (byte < 0) return false;
    (*bytes)[count++] = static_cast<char>(byte);
  }
  bytes->resize(count);
  return true;
}

}  // namespace sluice
