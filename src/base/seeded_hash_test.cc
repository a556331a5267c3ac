#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr HashSeed kOne = {.text = 0x243F6A8885A308D3u, .state = 0x13198A2E03707345u, .end = 7};
constexpr HashSeed kOther = {.text = 0xA4093822299F31D0u, .state = 0x082EFA98EC4E6C89u, .end = 9};
constexpr size_t kBuckets = 256;

size_t FullestBucket(const std::vector<std::string>& texts, const HashSeed& seed) {
  std::vector<size_t> counts(kBuckets);
  for (const std::string& text : texts) ++counts[HashText(text, seed) % kBuckets];
  return *std::max_element(counts.begin(), counts.end());
}

TEST(SeededHash, EachDrawingIsAnother) {
  const HashSeed first = DrawHashSeed(), second = DrawHashSeed();
  EXPECT_NE(first.text, second.text);
  EXPECT_NE(first.state, second.state);
  EXPECT_NE(first.end, second.end);
  EXPECT_EQ(HashText("a"), HashText("a", ProcessHashSeed()));
}

// As an attacker would choose them who knows the program but not the seed.
TEST(SeededHash, TextsThatCollideUnderOneSeedAreSpreadByAnother) {
  for (const char* const ending : {"", "a tail", "and more than a word"}) {
    std::vector<std::string> texts;
    for (uint32_t i = 0; texts.size() < 1024; ++i) {
      std::string text(reinterpret_cast<const char*>(&i), sizeof i);
      text += ending;
      if (HashText(text, kOne) % kBuckets == 0) texts.push_back(std::move(text));
    }
    EXPECT_EQ(FullestBucket(texts, kOne), texts.size());
    // Four are due to each.
    EXPECT_LT(FullestBucket(texts, kOther), 20u) << ending;
    EXPECT_LT(FullestBucket(texts, DrawHashSeed()), 40u) << ending;
  }
}

TEST(SeededHash, WordsThatCollideUnderOneSeedAreSpreadByAnother) {
  std::vector<size_t> counts(kBuckets);
  size_t found = 0;
  for (uint64_t word = 0; found < 1024; ++word) {
    if (HashWord(word, kOne) % kBuckets != 0) continue;
    ++found;
    ++counts[HashWord(word, kOther) % kBuckets];
  }
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 20u);
}

TEST(SeededHash, LengthAndEveryByteCount) {
  std::vector<uint64_t> hashes;
  for (size_t size = 0; size < 40; ++size) {
    hashes.push_back(HashText(std::string(size, '\0'), kOne));
    for (size_t at = 0; at < size; ++at) {
      std::string text(size, '\0');
      text[at] = '\x80';
      hashes.push_back(HashText(text, kOne));
    }
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

}  // namespace
}  // namespace sluice
