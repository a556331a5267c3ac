// Rows that become codes where they are made, for products that read some: whether a model's layers
// are wired so, and that no bit of an answer tells.
#include <gtest/gtest.h>

#include "exec/generate_fixture.h"

namespace sluice::exec {
namespace {

struct Wired {
  const char* model;
  int64_t norms, norms_of_both, gates, gates_alone;
};

class CodedRows : public ::testing::TestWithParam<Wired> {};

TEST_P(CodedRows, AreMadeWhereProductsReadThemAndChangeNoBit) {
  const Wired& wired = GetParam();
  TinyExecutor plain(wired.model, {.device = "reference"}), coded(wired.model, {.device = "codes"});
  EXPECT_EQ(Count(plain, "norm", "codes"), 0);
  EXPECT_EQ(Count(plain, ops::GroupQuant::kName, ""), 0);
  EXPECT_EQ(Count(coded, "norm", " to codes"), wired.norms);
  EXPECT_EQ(Count(coded, "norm", " and codes"), wired.norms_of_both);
  EXPECT_EQ(Count(coded, ops::GroupQuant::kName, "silu"), wired.gates);
  EXPECT_EQ(Count(plain, "gated_activation", ""), 1);
  EXPECT_EQ(Count(coded, "gated_activation", ""), wired.gates_alone);
  const std::vector<Drawn> expected = Generate(&plain);
  EXPECT_EQ(expected.size(), 6u);
  EXPECT_EQ(Generate(&coded), expected);
}

// Qwen3: both norms of a layer and the gate between its products. DeepSeek-V3, whose attention
// reads its rows by several products: the norm before a router, which reads them as they are, and
// an expert that every token takes; the others are too narrow for scales of blocks.
INSTANTIATE_TEST_SUITE_P(Models, CodedRows,
                         ::testing::Values(Wired{"qwen3_fp8_block", 1, 0, 1, 0},
                                           Wired{"deepseek_v3_fp8_e8m0", 0, 1, 1, 1}),
                         [](const auto& test) { return std::string(test.param.model); });

// Static scales of whole tensors are the product's own.
TEST(CodedRowsOfAnotherRule, AreNotMade) {
  TinyExecutor tiny("llama_fp8_static", {.device = "codes"});
  EXPECT_EQ(Count(tiny, "norm", "codes"), 0);
  EXPECT_EQ(Count(tiny, ops::GroupQuant::kName, ""), 0);
}

}  // namespace
}  // namespace sluice::exec
