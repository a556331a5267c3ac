#include "ops/guess_trees.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>

#include "ops/attention.h"
#include "ops/op_fixture.h"
#include "ops/sample_row.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array Outputs(const std::vector<SampleOutput>& outputs) {
  Array bytes(DType::kU8, {static_cast<int64_t>(outputs.size()), int64_t{sizeof(SampleOutput)}});
  std::memcpy(bytes.tensor().data, outputs.data(), outputs.size() * sizeof(SampleOutput));
  return bytes;
}

class GuessTreesTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(GuessTreesTest);

// Two tokens of a chunk; a sequence that computes token 10 once more and verifies behind token 11 a
// tree of 12, 13 behind it, 14 beside 12, and 15 behind 14; and a token of padding.
struct TreeStep {
  Array token_ids = Array::Ints({20, 21, 10, 11, 12, 13, 14, 15, 99});
  Array query_start = Array::Ints({0, 2, 8});
  Array positions = Array::Ints({3, 4, 6, 7, 8, 9, 8, 9, 0});
  Array slots = Array::Ints({0, 1});
  Array paths = Array(DType::kI32, {9, kPathNumbers});
  Array logits_rows = Array::Ints({3, 4, 5, 6, 7, 0});
  Array lengths = Array::Ints({50, 51}), known = Array::Ints({2, 2}, {5, 6, 7, 8});
  Array order = Array::Ints(std::vector<int32_t>(9, -5)), ids = order, places = order;

  TreeStep() {
    const std::array<int32_t, 4> parents = {0, 1, 0, 3};
    WritePaths(parents, &paths.Int(3 * kPathNumbers));
  }
};

TEST_P(GuessTreesTest, WhatTheAnswerWentAlongStandsInARow) {
  TreeStep step;
  // The root draws 14, which draws 15, which draws 77.
  Array outputs = Outputs(
      {{.token = 14}, {.token = 1}, {.token = 2}, {.token = 15}, {.token = 77}, {.token = 0}});
  const Status status = Run<FollowTrees>({}, {.token_ids = step.token_ids.tensor(),
                                              .query_start = step.query_start.tensor(),
                                              .positions = step.positions.tensor(),
                                              .slots = step.slots.tensor(),
                                              .paths = step.paths.tensor(),
                                              .logits_rows = step.logits_rows.tensor(),
                                              .outputs = outputs.tensor(),
                                              .lengths = step.lengths.tensor(),
                                              .known = step.known.tensor(),
                                              .order = step.order.tensor(),
                                              .ids = step.ids.tensor(),
                                              .places = step.places.tensor()});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Ints(step.order), ElementsAre(0, 1, 2, 3, 6, 7, 4, 5, 8));
  EXPECT_THAT(Ints(step.ids), ElementsAre(20, 21, 10, 11, 14, 15, 12, 13, 99));
  EXPECT_THAT(Ints(step.places), ElementsAre(3, 4, 6, 7, 8, 9, 10, 11, 0));
  EXPECT_THAT(Ints(step.lengths), ElementsAre(50, 10));
  EXPECT_THAT(Ints(step.known), ElementsAre(5, 6, 77, 8));
}

TEST_P(GuessTreesTest, ADegenerateRowEndsIt) {
  TreeStep step;
  Array outputs = Outputs({{.token = 12},
                           {.token = 13, .degenerate = true},
                           {.token = 2},
                           {.token = 15},
                           {.token = 77},
                           {.token = 0}});
  ASSERT_TRUE(Run<FollowTrees>({}, {.token_ids = step.token_ids.tensor(),
                                    .query_start = step.query_start.tensor(),
                                    .positions = step.positions.tensor(),
                                    .slots = step.slots.tensor(),
                                    .paths = step.paths.tensor(),
                                    .logits_rows = step.logits_rows.tensor(),
                                    .outputs = outputs.tensor(),
                                    .lengths = step.lengths.tensor(),
                                    .known = step.known.tensor(),
                                    .order = step.order.tensor(),
                                    .ids = step.ids.tensor(),
                                    .places = step.places.tensor()})
                  .ok());
  EXPECT_THAT(Ints(step.order), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(step.lengths.Int(1), 9);
  EXPECT_EQ(step.known.Int(2), 13);
}

// Two beams of three children each, of a sequence that guesses and one that does not.
struct Grown {
  Array nodes = Array::Ints({2, 9, 3}, std::vector<int32_t>(54, -5));
  std::array<Array, 2> beams = {Array(DType::kI32, {2, 2, 2}), Array(DType::kI32, {2, 2, 2})};
  std::array<Array, 2> paths = {Array(DType::kI32, {4, kPathNumbers}),
                                Array(DType::kI32, {4, kPathNumbers})};
  Array ids = Array::Ints({-5, -5, -5, -5}), order = ids, first = Array::Ints({100, 7});
  Array slots = Array::Ints({1, -1});
};

TEST_P(GuessTreesTest, TheLikeliestTogetherGoOn) {
  Grown grown;
  const auto grow = [&](int depth, Array& outputs, Array& top_ids, Array& logprobs, int begin,
                        int moved) {
    const auto turn = static_cast<size_t>(depth % 2);
    return Run<GrowTrees>({}, {.outputs = outputs.tensor(),
                               .top_ids = top_ids.tensor(),
                               .top_logprobs = logprobs.tensor(),
                               .slots = grown.slots.tensor(),
                               .slot_count = 2,
                               .depth = depth,
                               .begin = begin,
                               .moved = moved,
                               .nodes = grown.nodes.tensor(),
                               .beams = grown.beams[1 - turn].tensor(),
                               .paths = grown.paths[1 - turn].tensor(),
                               .next_beams = grown.beams[turn].tensor(),
                               .next_paths = grown.paths[turn].tensor(),
                               .ids = grown.ids.tensor(),
                               .order = grown.order.tensor(),
                               .first = grown.first.tensor()});
  };
  Array outputs = Outputs(std::vector<SampleOutput>(2));
  Array ids = Array::Ints({2, 3}, {40, 41, 42, 0, 0, 0});
  Array logprobs = Array::Floats(DType::kF32, {2, 3}, {-0.5f, -1.0f, -4.0f, 0, 0, 0});
  Status status = grow(1, outputs, ids, logprobs, 0, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Ints(grown.ids), ElementsAre(40, 41, 0, 0));
  EXPECT_THAT(Ints(grown.order), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(Ints(grown.first), ElementsAre(100, 7));
  // Behind 41 two tokens are likelier than the second behind 40, but not together with 41.
  outputs = Outputs(std::vector<SampleOutput>(4));
  ids = Array::Ints({4, 3}, {50, 51, 52, 60, 61, 62, 0, 0, 0, 0, 0, 0});
  logprobs = Array::Floats(DType::kF32, {4, 3},
                           {-0.25f, -2.0f, -3.0f, -1.0f, -1.25f, -5.0f, 0, 0, 0, 0, 0, 0});
  status = grow(2, outputs, ids, logprobs, 3, 2);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Ints(grown.ids), ElementsAre(50, 60, 0, 0));
  EXPECT_THAT(Ints(grown.order), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(Ints(grown.first), ElementsAre(102, 7));
  std::vector<int32_t> tokens, parents;
  for (size_t n = 0; n < 9; ++n) {
    tokens.push_back(grown.nodes.Int(3 * n));
    parents.push_back(grown.nodes.Int(3 * n + 1));
  }
  EXPECT_THAT(tokens, ElementsAre(40, 41, 42, 50, 51, 52, 60, 61, 62));
  EXPECT_THAT(parents, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
  EXPECT_EQ(std::bit_cast<float>(grown.nodes.Int(3 * 7 + 2)), -1.25f);
  // The pass over 40 and 41 took places 100 and 101; 50 stands at 102, one position behind 40's,
  // and 60 at 103, behind 41.
  const auto path_of = [&](size_t beam) {
    std::vector<int32_t> path;
    for (size_t i = 0; i < 3; ++i) path.push_back(grown.paths[0].Int(beam * kPathNumbers + i));
    return path;
  };
  EXPECT_THAT(path_of(0), ElementsAre(2, 0, 1));
  EXPECT_THAT(path_of(1), ElementsAre(2, 1, 2));
  EXPECT_EQ(grown.nodes.Int(27), -5) << "one that guesses nothing gets no nodes";
}

TEST_P(GuessTreesTest, WhatDoesNotFitIsRefused) {
  Grown grown;
  Array outputs = Outputs(std::vector<SampleOutput>(2));
  Array ids = Array::Ints({2, 3}, std::vector<int32_t>(6));
  Array logprobs = Array::Floats(DType::kF32, {2, 3}, std::vector<float>(6));
  const auto refused = [&](int depth, int begin) {
    return Run<GrowTrees>({}, {.outputs = outputs.tensor(),
                               .top_ids = ids.tensor(),
                               .top_logprobs = logprobs.tensor(),
                               .slots = grown.slots.tensor(),
                               .slot_count = 2,
                               .depth = depth,
                               .begin = begin,
                               .nodes = grown.nodes.tensor(),
                               .beams = grown.beams[0].tensor(),
                               .paths = grown.paths[0].tensor(),
                               .next_beams = grown.beams[1].tensor(),
                               .next_paths = grown.paths[1].tensor(),
                               .ids = grown.ids.tensor(),
                               .order = grown.order.tensor(),
                               .first = grown.first.tensor()})
        .message();
  };
  EXPECT_THAT(refused(0, 0), HasSubstr("nodes of depth 0"));
  EXPECT_THAT(refused(1, 7), HasSubstr("nodes from 7 on, of 9"));
}

}  // namespace
}  // namespace sluice::ops
