// GPT-2's byte alphabet, in which pieces of byte-level vocabularies are spelled: every byte is a
// printable character of U+0000..U+0143. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

uint32_t ByteToCharacter(uint8_t byte);
// The byte, or -1 when the code point is not of the alphabet.
int CharacterToByte(uint32_t code_point);
// A piece spelled in the alphabet as bytes; false when it holds another character.
bool BytesOfAlphabet(std::string_view piece, std::string* bytes);

}  // namespace sluice
