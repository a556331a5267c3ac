// The references of the ops that keep counts of tokens, and what they refuse.
#include "ops/token_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ops/host_array.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenCounts : public OpTest {
 protected:
  static std::vector<int32_t> Row(Array& counts, int64_t row, int64_t vocab) {
    std::vector<int32_t> words;
    for (int64_t id = 0; id < vocab; ++id) words.push_back(counts.Int(row * vocab + id));
    return words;
  }
  template <class T>
  static Array Structs(const std::vector<T>& values) {
    Array array(DType::kU8, {static_cast<int64_t>(values.size()), int64_t{sizeof(T)}});
    std::memcpy(array.tensor().data, values.data(), values.size() * sizeof(T));
    return array;
  }
  Status Set(const Array& rows, const Array& words, const Array& counts) {
    const int64_t vocab = counts.tensor().dims[1];
    return Run<SetCounts>({vocab}, {rows.tensor(), words.tensor(), counts.tensor()});
  }
  Status Count(const std::vector<SampleRow>& rows, const std::vector<SampleOutput>& outputs,
               const Array& counts) {
    const Array row = Structs(rows), output = Structs(outputs);
    const int64_t vocab = counts.tensor().dims[1];
    const Status status = Run<KeepDrawn>({vocab}, {row.tensor(), output.tensor(), counts.tensor(),
                                                   lengths_.tensor(), tokens_.tensor()});
    kept_.clear();
    for (size_t r = 0; r < rows.size(); ++r)
      kept_.push_back(output.tensor().ptr<SampleOutput>()[r].kept);
    return status;
  }

  Array lengths_ = Array::Ints({50, 51, 52}), tokens_ = Array::Ints({3, 2}, {5, 6, 7, 8, 9, 10});
  std::vector<bool> kept_;  // by row, of the last Count
};
SLUICE_FOR_EACH_INSTRUCTION_SET(TokenCounts);

TEST_P(TokenCounts, ARowIsSetWholeAndTheOthersStay) {
  Array counts = Array::Ints({3, 4}, std::vector<int32_t>(12, 5));
  const Array rows = Array::Ints({2, 3}, {2, 1, 3, 0, 3, 3});
  const Array words = Array::Ints({3, 2}, {0, 99, 3, 7, 1, static_cast<int32_t>(kInPrompt)});
  ASSERT_TRUE(Set(rows, words, counts).ok());
  EXPECT_THAT(Row(counts, 0, 4), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Row(counts, 1, 4), ElementsAre(5, 5, 5, 5));
  EXPECT_THAT(Row(counts, 2, 4), ElementsAre(0, static_cast<int32_t>(kInPrompt), 0, 7));
}

TEST_P(TokenCounts, WhatLiesOutsideIsRefusedAndNothingIsSet) {
  const Array words = Array::Ints({2, 2}, {0, 1, 3, 1}), bad = Array::Ints({1, 2}, {4, 1});
  const auto refused = [&](const Array& rows, const Array& with) {
    const Array counts = Array::Ints({2, 4}, std::vector<int32_t>(8, 5)), before = counts;
    const Status status = Set(rows, with, counts);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(counts, before);
    return status.message();
  };
  EXPECT_THAT(refused(Array::Ints({1, 3}, {2, 0, 1}), words), HasSubstr("row 2 of 2"));
  EXPECT_THAT(refused(Array::Ints({1, 3}, {-1, 0, 1}), words), HasSubstr("row -1 of 2"));
  EXPECT_THAT(refused(Array::Ints({1, 3}, {0, 0, 3}), words), HasSubstr("words up to 3 of 2"));
  EXPECT_THAT(refused(Array::Ints({1, 3}, {0, 2, 1}), words), HasSubstr("words up to"));
  EXPECT_THAT(refused(Array::Ints({1, 3}, {0, 0, 1}), bad), HasSubstr("id 4 of 4"));
}

TEST_P(TokenCounts, RowsThatDrawAndHaveCountsCountTheirTokens) {
  Array counts = Array::Ints({2, 3}, {0, 0, 0, 0, static_cast<int32_t>(kInPrompt), 4});
  const std::vector<SampleRow> rows = {
      {.counts_row = 1}, {}, {.draw = false, .target = 0, .counts_row = 1}, {.counts_row = 0}};
  ASSERT_TRUE(Count(rows, {{.token = 1}, {.token = 0}, {.token = 0}, {.token = 2}}, counts).ok());
  EXPECT_THAT(Row(counts, 0, 3), ElementsAre(0, 0, 1));
  EXPECT_THAT(Row(counts, 1, 3), ElementsAre(0, static_cast<int32_t>(kInPrompt + 1), 4));
}

TEST_P(TokenCounts, WhatIsKeptBecomesLengthAndLastTokenOfItsSlot) {
  std::vector<SampleRow> rows = {
      {.target = 2, .position = 20, .slot = 1},
      {.target = 1, .position = 21, .drafts = 1, .slot = 1},
      {.position = 22, .drafts = 2, .slot = 1},
      {.draw = false, .target = 0},
      {.position = 30, .slot = 2},
      {.position = 40},  // of no slot
  };
  const auto keep = [&](std::vector<int32_t> drawn, int degenerate = -1) {
    std::vector<SampleOutput> outputs;
    for (const int32_t token : drawn) outputs.push_back({.token = token, .kept = true});
    if (degenerate >= 0) outputs[degenerate].degenerate = true;
    lengths_ = Array::Ints({50, 51, 52});
    tokens_ = Array::Ints({3, 2}, {5, 6, 7, 8, 9, 10});
    const Array row = Structs(rows), output = Structs(outputs);
    EXPECT_TRUE(Run<KeepDrawn>({4}, {row.tensor(), output.tensor(), Tensor(), lengths_.tensor(),
                                     tokens_.tensor()})
                    .ok());
    kept_.clear();
    for (size_t r = 0; r < rows.size(); ++r)
      kept_.push_back(output.tensor().ptr<SampleOutput>()[r].kept);
    EXPECT_EQ(lengths_.Int(0), 50);
    EXPECT_EQ(lengths_.Int(2), 30);
    EXPECT_EQ(tokens_.Int(4), 3);
    EXPECT_EQ(tokens_.Int(3), 8) << "a guess is nobody's but the proposer's";
    return std::pair(lengths_.Int(1), tokens_.Int(2));
  };
  EXPECT_EQ(keep({2, 1, 0, 0, 3, 3}), std::pair(22, 0));
  EXPECT_THAT(kept_, ElementsAre(true, true, true, true, true, true));
  EXPECT_EQ(keep({2, 3, 0, 0, 3, 3}), std::pair(21, 3));
  EXPECT_THAT(kept_, ElementsAre(true, true, false, true, true, true));
  EXPECT_EQ(keep({0, 1, 2, 0, 3, 3}), std::pair(20, 0));
  EXPECT_THAT(kept_, ElementsAre(true, false, false, true, true, true));
  EXPECT_EQ(keep({2, 1, 0, 0, 3, 3}, 0), std::pair(20, 2));  // degenerate: the last one
}

// For load tests: a share of drafts counts as drawn, but never against a mask.
TEST_P(TokenCounts, DraftsMayBeTakenByLot) {
  constexpr int kRows = 1000;
  std::vector<SampleRow> rows;
  for (int r = 0; r < kRows; ++r) {
    rows.push_back({.target = r % 4 == 3 ? -1 : 2, .seed = 9, .position = r});
    if (r % 4 == 2) rows.back().mask_row = 0;
  }
  lengths_ = Array::Ints({50});
  tokens_ = Array::Ints({1, 2}, {5, 6});
  for (const double share : {0.0, 0.3, 1.0}) {
    const Array row = Structs(rows);
    const Array output = Structs(std::vector<SampleOutput>(kRows, {.token = 1}));
    const Status status = Run<KeepDrawn>({4}, {.rows = row.tensor(),
                                               .outputs = output.tensor(),
                                               .counts = Tensor(),
                                               .lengths = lengths_.tensor(),
                                               .tokens = tokens_.tensor(),
                                               .taken = share});
    ASSERT_TRUE(status.ok()) << status.message();
    int taken = 0;
    for (int r = 0; r < kRows; ++r) {
      const int32_t token = output.tensor().ptr<SampleOutput>()[r].token;
      EXPECT_TRUE(token == 1 || (token == 2 && r % 4 < 2)) << r;
      taken += token == 2 ? 1 : 0;
    }
    EXPECT_NEAR(taken, share * kRows / 2, share == 0.3 ? 40 : 0) << share;
  }
}

TEST_P(TokenCounts, RowsAreResolvedFromWhatTheirSlotKnows) {
  const Array rows = Structs(std::vector<SampleRow>{
      {.target = -2, .position = -1, .slot = 1},
      {.position = -2, .slot = 2},
      {.target = 3, .position = 17, .slot = 0},
      {.draw = false, .target = 4},
      {.position = -1, .slot = 3},
      {.target = -3, .slot = 0},
  });
  const auto resolve = [&](int64_t count) {
    Tensor some = rows.tensor();
    some.dims[0] = count;
    return Run<ResolveRows>({}, {some, lengths_.tensor(), tokens_.tensor()});
  };
  const auto* const row = rows.tensor().ptr<SampleRow>();
  EXPECT_THAT(resolve(5).message(), HasSubstr("slot 3 of 3"));
  EXPECT_EQ(row[0].target, -2) << "written although the call is refused";
  ASSERT_TRUE(resolve(4).ok());
  EXPECT_THAT(std::pair(row[0].position, row[0].target), std::pair(int64_t{52}, 8));
  EXPECT_THAT(std::pair(row[1].position, row[1].target), std::pair(int64_t{54}, -1));
  EXPECT_THAT(std::pair(row[2].position, row[2].target), std::pair(int64_t{17}, 3));
  EXPECT_THAT(std::pair(row[3].position, row[3].target), std::pair(int64_t{0}, 4));
  rows.tensor().ptr<SampleRow>()[4].slot = 0;
  EXPECT_THAT(resolve(6).message(), HasSubstr("token 2 of 2"));
}

TEST_P(TokenCounts, OfDraftsTheAcceptedCountAndTheTokenBehindThem) {
  const std::vector<SampleRow> rows = {{.target = 2, .counts_row = 0},
                                       {.target = 1, .counts_row = 0, .drafts = 1},
                                       {.counts_row = 0, .drafts = 2},
                                       {.counts_row = 1}};  // of another sequence
  const auto counted = [&](std::vector<int32_t> drawn, int degenerate = -1) {
    Array counts = Array::Ints({2, 4}, std::vector<int32_t>(8, 0));
    std::vector<SampleOutput> outputs;
    for (const int32_t token : drawn) outputs.push_back({.token = token});
    if (degenerate >= 0) outputs[degenerate].degenerate = true;
    EXPECT_TRUE(Count(rows, outputs, counts).ok());
    EXPECT_THAT(Row(counts, 1, 4), ElementsAre(0, 0, 0, 1));
    return Row(counts, 0, 4);
  };
  EXPECT_THAT(counted({2, 1, 2, 3}), ElementsAre(0, 1, 2, 0));     // all accepted
  EXPECT_THAT(counted({2, 0, 2, 3}), ElementsAre(1, 0, 1, 0));     // the second is refused
  EXPECT_THAT(counted({0, 1, 2, 3}), ElementsAre(1, 0, 0, 0));     // the first is
  EXPECT_THAT(counted({2, 1, 2, 3}, 1), ElementsAre(0, 0, 1, 0));  // the second drew nothing
  EXPECT_THAT(counted({2, 1, 2, 3}, 0), ElementsAre(0, 0, 0, 0));
}

TEST_P(TokenCounts, ARowOrATokenThatIsNotThereIsRefused) {
  const Array counts = Array::Ints({2, 3}, std::vector<int32_t>(6, 5)), before = counts;
  EXPECT_THAT(Count({{.counts_row = 1}, {.counts_row = 2}}, {{}, {}}, counts).message(),
              HasSubstr("row 2 of 2"));
  EXPECT_THAT(Count({{.counts_row = 1}, {.counts_row = 0}}, {{}, {.token = 3}}, counts).message(),
              HasSubstr("token 3 of 3"));
  EXPECT_EQ(counts, before);
}

}  // namespace
}  // namespace sluice::ops
