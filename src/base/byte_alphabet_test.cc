#include "base/byte_alphabet.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ByteAlphabetTest, GoesBothWays) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(CharacterToByte(ByteToCharacter(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(ByteToCharacter(' '), 0x120u);
  EXPECT_EQ(CharacterToByte(0x144), -1);
  std::string bytes;
  EXPECT_TRUE(
      BytesOfAlphabet("\xC4\xA0"
                      "hi",
                      &bytes));
  EXPECT_EQ(bytes, " hi");
  EXPECT_FALSE(BytesOfAlphabet("\xE4\xB8\xAD", &bytes));
}

}  // namespace
}  // namespace sluice
