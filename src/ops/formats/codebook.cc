#include "ops/formats/codebook.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "ops/formats/codebook_tables.h"

namespace sluice::ops {

namespace {

constexpr int kCodebookBlock = 256;
constexpr int kSigned = 8;    // elements that share a byte of signs
constexpr int kMiddle = 128;  // a code is a value and this

// The values that an entry of a vector stands for.
constexpr uint8_t kIq2Levels[4] = {8, 25, 43, 0};  // no vector has the fourth
constexpr uint8_t kIq3XxsLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr uint8_t kIq3SLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

uint32_t Word(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
uint16_t Half(const uint8_t* from) {
  uint16_t half;
  std::memcpy(&half, from, sizeof half);
  return half;
}

// Nibble i of some bytes, the low half of a byte first.
int Nibble(const uint8_t* bytes, int i) { return bytes[i / 2] >> i % 2 * 4 & 15; }

// Scales are odd multiples of the block's.
int8_t Odd(int stored) { return static_cast<int8_t>(2 * stored + 1); }

// Eight signs of which seven are stored: there is an even number of minus signs.
uint8_t EvenSigns(uint32_t seven) {
  seven &= 127;
  return static_cast<uint8_t>(seven | (std::popcount(seven) & 1) << 7);
}

// `count` elements of a vector whose entries have `bits` bits; a set bit of `signs` is a minus.
void PutVector(uint16_t vector, int bits, int count, const uint8_t* levels, unsigned signs,
               uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    const int value = levels[vector >> bits * i & ((1 << bits) - 1)];
    codes[i] = static_cast<uint8_t>(kMiddle + ((signs >> i & 1) != 0 ? -value : value));
  }
}

void PutIq2(uint16_t vector, unsigned signs, uint8_t* codes) {
  PutVector(vector, 2, kSigned, kIq2Levels, signs, codes);
}

// Two vectors of four elements.
void PutIq3(uint16_t first, uint16_t second, const uint8_t* levels, unsigned signs,
            uint8_t* codes) {
  PutVector(first, 3, 4, levels, signs, codes);
  PutVector(second, 3, 4, levels, signs >> 4, codes + 4);
}

// Values are eighths: -8, 0 or 8, and one up or down.
void PutIq1(uint16_t vector, bool down, uint8_t* codes) {
  for (int i = 0; i < kSigned; ++i) {
    const int level = static_cast<int>(vector >> 2 * i & 3) - 1;
    codes[i] = static_cast<uint8_t>(kMiddle + 8 * level + (down ? -1 : 1));
  }
}

void TakeApartIq2Xxs(const uint8_t* block, BlockParts* parts) {
  parts->d = Half(block);
  for (int i = 0; i < 8; ++i) {
    const uint8_t* indexes = block + 2 + 8 * i;
    const uint32_t rest = Word(indexes + 4);
    parts->scales[i] = Odd(static_cast<int>(rest >> 28));
    for (int v = 0; v < 4; ++v) {
      PutIq2(kIq2XxsVectors[indexes[v]], EvenSigns(rest >> 7 * v), parts->codes + 32 * i + 8 * v);
    }
  }
}

void TakeApartIq2Xs(const uint8_t* block, BlockParts* parts) {
  parts->d = Half(block);
  for (int v = 0; v < kCodebookBlock / kSigned; ++v) {
    const uint16_t both = Half(block + 2 + 2 * v);
    PutIq2(kIq2XsVectors[both & 511], EvenSigns(both >> 9), parts->codes + 8 * v);
  }
  for (int i = 0; i < 16; ++i) parts->scales[i] = Odd(Nibble(block + 66, i));
}

void TakeApartIq2S(const uint8_t* block, BlockParts* parts) {
  parts->d = Half(block);
  for (int v = 0; v < kCodebookBlock / kSigned; ++v) {
    const int high = block[66 + v / 4] >> v % 4 * 2 & 3;
    PutIq2(kIq2SVectors[block[2 + v] | high << 8], block[34 + v], parts->codes + 8 * v);
  }
  for (int i = 0; i < 16; ++i) parts->scales[i] = Odd(Nibble(block + 74, i));
}

void TakeApartIq3Xxs(const uint8_t* block, BlockParts* parts) {
  parts->d = Half(block);
  for (int i = 0; i < 8; ++i) {
    const uint32_t rest = Word(block + 66 + 4 * i);
    parts->scales[i] = Odd(static_cast<int>(rest >> 28));
    for (int v = 0; v < 4; ++v) {
      const uint8_t* indexes = block + 2 + 8 * i + 2 * v;
      PutIq3(kIq3XxsVectors[indexes[0]], kIq3XxsVectors[indexes[1]], kIq3XxsLevels,
             EvenSigns(rest >> 7 * v), parts->codes + 32 * i + 8 * v);
    }
  }
}

void TakeApartIq3S(const uint8_t* block, BlockParts* parts) {
  parts->d = Half(block);
  const auto vector = [&](int v) {
    return kIq3SVectors[block[2 + v] | (block[66 + v / 8] >> v % 8 & 1) << 8];
  };
  for (int v = 0; v < kCodebookBlock / kSigned; ++v) {
    PutIq3(vector(2 * v), vector(2 * v + 1), kIq3SLevels, block[74 + v], parts->codes + 8 * v);
  }
  for (int i = 0; i < 8; ++i) parts->scales[i] = Odd(Nibble(block + 106, i));
}

void TakeApartIq1S(const uint8_t* block, BlockParts* parts) {
  parts->d = Half(block);
  for (int i = 0; i < 8; ++i) {
    const uint16_t rest = Half(block + 34 + 2 * i);
    parts->scales[i] = Odd(rest >> 12 & 7);
    for (int v = 0; v < 4; ++v) {
      const int high = rest >> 3 * v & 7;
      PutIq1(kIq1Vectors[block[2 + 4 * i + v] | high << 8], (rest & 0x8000) != 0,
             parts->codes + 32 * i + 8 * v);
    }
  }
}

void TakeApartIq1M(const uint8_t* block, BlockParts* parts) {
  for (int v = 0; v < kCodebookBlock / kSigned; ++v) {
    const int high = Nibble(block + 32, v);
    PutIq1(kIq1Vectors[block[v] | (high & 7) << 8], (high & 8) != 0, parts->codes + 8 * v);
  }
  // Four words of four scales of three bits; their upper bits are d's.
  parts->d = 0;
  for (int w = 0; w < 4; ++w) {
    const uint16_t word = Half(block + 48 + 2 * w);
    parts->d |= static_cast<uint16_t>(word >> 12 << 4 * w);
    for (int i = 0; i < 4; ++i) parts->scales[4 * w + i] = Odd(word >> 3 * i & 7);
  }
}

}  // namespace

void TakeApartCodebook(const BlockFormat& format, const uint8_t* block, BlockParts* parts) {
  switch (format.dtype) {
    case DType::kIQ2_XXS:
      return TakeApartIq2Xxs(block, parts);
    case DType::kIQ2_XS:
      return TakeApartIq2Xs(block, parts);
    case DType::kIQ2_S:
      return TakeApartIq2S(block, parts);
    case DType::kIQ3_XXS:
      return TakeApartIq3Xxs(block, parts);
    case DType::kIQ3_S:
      return TakeApartIq3S(block, parts);
    case DType::kIQ1_S:
      return TakeApartIq1S(block, parts);
    case DType::kIQ1_M:
      return TakeApartIq1M(block, parts);
    default:
      CHECK(false, Name(format.dtype), " has no codebook");
  }
}

}  // namespace sluice::ops
