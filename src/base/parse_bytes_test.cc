#include "base/parse_bytes.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ParseBytesTest, ReadsUnits) {
  EXPECT_EQ(*ParseBytes("4096", "x"), 4096u);
  EXPECT_EQ(*ParseBytes("512MiB", "x"), 512u << 20);
  EXPECT_EQ(*ParseBytes("1.5 gib", "x"), 3ull << 29);
  EXPECT_EQ(*ParseBytes("2GB", "x"), 2'000'000'000u);
  EXPECT_EQ(*ParseBytes("7b", "x"), 7u);
}

TEST(ParseBytesTest, RefusesAnythingElse) {
  for (const char* text : {"", "MiB", "-1", "1XB", "1M", "1e400", "nan", "99999999TiB", "0x10"}) {
    auto parsed = ParseBytes(text, "--kv-memory");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("--kv-memory"), std::string::npos);
  }
}

TEST(FormatBytes, TakesTheUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1), "1 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(98362432), "93.81 MiB");
  EXPECT_EQ(FormatBytes((1u << 20) - 1), "1 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{100} << 40), "100 TiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16 EiB");
}

}  // namespace
}  // namespace sluice
