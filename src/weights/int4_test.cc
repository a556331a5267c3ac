#include "weights/int4.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kInt4Rows = 16, kInt4Columns = 64, kInt4Groups = 2;

int Zero(int64_t row, int64_t group) { return static_cast<int>(1 + (row + 7 * group) % 15); }
float GroupScale(int64_t row, int64_t group) { return 0.25f * static_cast<float>(1 + row + group); }

// I32 words, of which `code` says what stands at a word's nibble.
template <class CodeOf>
std::vector<std::byte> Words(int64_t count, const CodeOf& code) {
  std::vector<std::byte> bytes;
  for (int64_t word = 0; word < count; ++word) {
    uint32_t value = 0;
    for (int nibble = 0; nibble < 8; ++nibble) {
      value |= static_cast<uint32_t>(code(word, nibble)) << 4 * nibble;
    }
    for (int b = 0; b < 4; ++b) bytes.push_back(static_cast<std::byte>(value >> 8 * b & 0xff));
  }
  return bytes;
}
std::vector<std::byte> Ints(const std::vector<int32_t>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// [groups, rows], or [rows, groups] for compressed-tensors.
std::vector<float> GroupScales(bool by_row) {
  std::vector<float> values;
  for (int64_t i = 0; i < kInt4Rows * kInt4Groups; ++i) {
    values.push_back(by_row ? GroupScale(i / kInt4Groups, i % kInt4Groups)
                            : GroupScale(i % kInt4Rows, i / kInt4Rows));
  }
  return values;
}

void Gptq(FakeSource& source) {
  source.Add("x.qweight", DType::kI32, {kInt4Columns / 8, kInt4Rows},
             Words(kInt4Columns / 8 * kInt4Rows, [](int64_t word, int nibble) {
               return CodeAt(word % kInt4Rows, word / kInt4Rows * 8 + nibble);
             }));
  source.Add("x.qzeros", DType::kI32, {kInt4Groups, kInt4Rows / 8},
             Words(kInt4Groups * kInt4Rows / 8, [](int64_t word, int nibble) {
               return Zero(word % (kInt4Rows / 8) * 8 + nibble, word / (kInt4Rows / 8)) - 1;
             }));
  source.AddHalf("x.scales", DType::kF16, {kInt4Groups, kInt4Rows}, GroupScales(false));
}

void Awq(FakeSource& source) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  source.Add("x.qweight", DType::kI32, {kInt4Columns, kInt4Rows / 8},
             Words(kInt4Columns * kInt4Rows / 8, [&](int64_t word, int nibble) {
               return CodeAt(word % (kInt4Rows / 8) * 8 + kOrder[nibble], word / (kInt4Rows / 8));
             }));
  source.Add("x.qzeros", DType::kI32, {kInt4Groups, kInt4Rows / 8},
             Words(kInt4Groups * kInt4Rows / 8, [&](int64_t word, int nibble) {
               return Zero(word % (kInt4Rows / 8) * 8 + kOrder[nibble], word / (kInt4Rows / 8));
             }));
  source.AddHalf("x.scales", DType::kF16, {kInt4Groups, kInt4Rows}, GroupScales(false));
}

void Compressed(FakeSource& source, bool zeros) {
  source.Add("x.weight_packed", DType::kI32, {kInt4Rows, kInt4Columns / 8},
             Words(kInt4Rows * kInt4Columns / 8, [](int64_t word, int nibble) {
               return CodeAt(word / (kInt4Columns / 8), word % (kInt4Columns / 8) * 8 + nibble);
             }));
  if (zeros) {
    source.Add("x.weight_zero_point", DType::kI32, {kInt4Rows / 8, kInt4Groups},
               Words(kInt4Rows / 8 * kInt4Groups, [](int64_t word, int nibble) {
                 return Zero(word / kInt4Groups * 8 + nibble, word % kInt4Groups);
               }));
  }
  source.AddHalf("x.weight_scale", DType::kBF16, {kInt4Rows, kInt4Groups}, GroupScales(true));
}

using Fill = std::function<void(FakeSource&)>;

std::string Int4Error(const Fill& fill, int64_t rows = kInt4Rows, int64_t columns = kInt4Columns) {
  FakeSource source;
  fill(source);
  const auto found = Int4Matrix::Find("x.weight", rows, columns, source);
  if (found.ok()) return "no error";
  EXPECT_EQ(found.status().code(), StatusCode::kBadModel);
  return found.status().message();
}

void ExpectValues(const Fill& fill, bool zeros) {
  FakeSource source;
  fill(source);
  const auto matrix = Int4Matrix::Find("x.weight", kInt4Rows, kInt4Columns, source);
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  ASSERT_NE(*matrix, nullptr);
  EXPECT_EQ((*matrix)->tensor().dtype, DType::kQ4_1);
  // Some rows in the middle, block by block: scale, minimum, 16 bytes.
  const std::vector<std::byte> rows = (*matrix)->Rows(5, 3);
  ASSERT_EQ(rows.size(), 3u * 2 * 20);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t column = 0; column < kInt4Columns; ++column) {
      const std::byte* block = rows.data() + (r * 2 + column / 32) * 20;
      uint16_t head[2];
      std::memcpy(head, block, sizeof head);
      const auto byte = std::to_integer<int>(block[4 + column % 16]);
      const int code = column % 32 < 16 ? byte & 15 : byte >> 4;
      const int64_t row = 5 + r, group = column / 32;
      const float zero = static_cast<float>(zeros ? Zero(row, group) : 8);
      const float expected =
          GroupScale(row, group) * (static_cast<float>(CodeAt(row, column)) - zero);
      EXPECT_EQ(F16ToF32(head[0]) * static_cast<float>(code) + F16ToF32(head[1]), expected)
          << row << ", " << column;
    }
  }
}

TEST(Int4Test, FormatsOfPublishedCheckpointsGiveTheSameMatrix) {
  ExpectValues(&Awq, true);
  ExpectValues(&Gptq, true);
  ExpectValues([](FakeSource& source) { Compressed(source, true); }, true);
  ExpectValues([](FakeSource& source) { Compressed(source, false); }, false);
}

TEST(Int4Test, AnIndexSortsTheColumnsByTheirGroups) {
  std::vector<int32_t> order(kInt4Columns);
  const Fill indexed = [&](FakeSource& source) {
    Gptq(source);
    source.Add("x.g_idx", DType::kI32, {kInt4Columns}, Ints(order));
  };
  for (int64_t i = 0; i < kInt4Columns; ++i) order[i] = static_cast<int32_t>(i / 32);
  ExpectValues(indexed, true);
  std::swap(order[3], order[40]);
  FakeSource source;
  indexed(source);
  const auto matrix = Int4Matrix::Find("x.weight", kInt4Rows, kInt4Columns, source);
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  // Each of the two exchanged columns stands at the end of its group that its number gives it.
  const std::vector<int32_t>& columns = (*matrix)->order();
  ASSERT_EQ(columns.size(), static_cast<size_t>(kInt4Columns));
  EXPECT_TRUE(std::is_sorted(columns.begin(), columns.begin() + 32));
  EXPECT_TRUE(std::is_sorted(columns.begin() + 32, columns.end()));
  EXPECT_EQ(columns[31], 40);
  EXPECT_EQ(columns[32], 3);
  const std::vector<std::byte> row = (*matrix)->Rows(2, 1);
  for (int64_t i = 0; i < kInt4Columns; ++i) {
    const auto byte = std::to_integer<int>(row[static_cast<size_t>(i / 32 * 20 + 4 + i % 16)]);
    EXPECT_EQ(i % 32 < 16 ? byte & 15 : byte >> 4, CodeAt(2, columns[static_cast<size_t>(i)])) << i;
  }
  order[3] = -7;
  EXPECT_THAT(Int4Error(indexed), HasSubstr("into group -7 of 2"));
  order[3] = 0;
  EXPECT_THAT(Int4Error(indexed), HasSubstr("puts 33 columns into group 0"));
}

// Matrices whose columns are sorted alike are one, and the order lies beside it.
TEST(Int4Test, MatricesOfOneOrderAreOne) {
  const auto add = [](FakeSource& source, const std::string& name, int other) {
    FakeSource one;
    Gptq(one);
    for (const files::FileTensor& tensor : one.tensors()) {
      source.Add(name + tensor.name.substr(1), tensor.dtype, tensor.shape,
                 {tensor.data.begin(), tensor.data.end()});
    }
    std::vector<int32_t> groups(kInt4Columns);
    for (int64_t i = 0; i < kInt4Columns; ++i) groups[i] = static_cast<int32_t>((i + other) % 2);
    source.Add(name + ".g_idx", DType::kI32, {kInt4Columns}, Ints(groups));
  };
  FakeSource source;
  add(source, "q", 0);
  add(source, "k", 0);
  add(source, "v", 1);
  FakeDevice device;
  const ParamSpec spec =
      Matrix("m", kInt4Columns,
             {{"q.weight", kInt4Rows}, {"k.weight", kInt4Rows}, {"v.weight", kInt4Rows}});
  const auto map = Place({spec}, source, device);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const auto& parts = map->Find("m")->parts;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].weight.n, 2 * kInt4Rows);
  for (size_t p = 0; p < 2; ++p) {
    EXPECT_TRUE(parts[p].linear.desc().ordered);
    const ops::Tensor& order = parts[p].weight.order;
    ASSERT_EQ(order.size(), kInt4Columns);
    for (int64_t i = 0; i < kInt4Columns; ++i) {
      const int64_t even = i % 32 * 2, second = i / 32;
      EXPECT_EQ(order.ptr<int32_t>()[i], even + (p == 0 ? second : 1 - second)) << i;
    }
  }
}

TEST(Int4Test, AMatrixThatIsNotInFourBitsIsNone) {
  FakeSource source;
  source.AddF32("x.weight", {1, 1}, {1.0f});
  const auto none = Int4Matrix::Find("x.weight", 1, 1, source);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_FALSE(Int4Matrix::IsIn("x.weight", source));
}

TEST(Int4Test, WhatDoesNotFitIsNamed) {
  const auto codes = [](FakeSource& source) {
    source.Add("x.qweight", DType::kI32, {kInt4Columns / 8, kInt4Rows},
               Ints(std::vector<int32_t>(128)));
  };
  EXPECT_THAT(Int4Error(codes), HasSubstr("no tensor \"x.qzeros\""));
  EXPECT_THAT(Int4Error([](FakeSource& source) {
                source.Add("x.weight_packed", DType::kI32, {kInt4Rows, kInt4Columns / 8},
                           Ints(std::vector<int32_t>(128)));
              }),
              HasSubstr("no tensor \"x.weight_scale\""));
  // Of another model: the config asks for other sizes.
  EXPECT_THAT(Int4Error(&Gptq, kInt4Rows, 128), HasSubstr("\"x.qweight\" is I32 of shape [8, 16]"));
  EXPECT_THAT(Int4Error(&Gptq, 24, kInt4Columns), HasSubstr("2 groups of 24 rows need [2, 24]"));
  EXPECT_THAT(Int4Error(&Awq, 20, kInt4Columns), HasSubstr("a multiple of 8 rows"));
  // Groups of 16 columns, and more groups than columns.
  EXPECT_THAT(Int4Error(&Gptq, kInt4Rows, 32), HasSubstr("a multiple of 32 columns"));
  EXPECT_THAT(Int4Error(&Gptq, kInt4Rows, 1), HasSubstr("a multiple of 32 columns"));
  EXPECT_THAT(Int4Error([&](FakeSource& source) {
                codes(source);
                source.Add("x.qzeros", DType::kI32, {2, 2}, Ints(std::vector<int32_t>(4)));
                source.AddF32("x.scales", {2}, {1.0f, 2.0f});
              }),
              HasSubstr("shape [2]"));
  EXPECT_THAT(Int4Error([&](FakeSource& source) {
                codes(source);
                source.Add("x.qzeros", DType::kI32, {1, 2}, Ints(std::vector<int32_t>(2)));
                source.AddF32("x.scales", {1, kInt4Rows}, std::vector<float>(kInt4Rows, -1.0f));
              }),
              HasSubstr("finite and above 0"));
}

}  // namespace
}  // namespace sluice::weights
