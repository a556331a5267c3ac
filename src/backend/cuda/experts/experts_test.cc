// What stands around the products of experts, on a GPU; where there is none these tests say so and
// pass.
#include "ops/experts.h"
#include "backend/cuda/cuda_test.h"
#include "backend/cuda/experts/impls.h"

namespace sluice::cuda {
namespace {

using ops::Array;

class CudaExpertsTest : public CudaTest {};

TEST_F(CudaExpertsTest, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterExperts, 300), "");
}

// More choices than a thread block of group_experts reads at once, of as many experts as there are
// at most; conformance has fewer of both.
TEST_F(CudaExpertsTest, ManyTokensAreGroupedInTheirOrder) {
  constexpr int kExperts = ops::kExpertsMax, kTopK = 8;
  constexpr int64_t kTokens = 3000;
  ops::TestNoise noise(5);
  std::vector<int32_t> chosen;
  for (int64_t t = 0; t < kTokens; ++t) {
    const auto first = static_cast<int32_t>(noise.Below(kExperts));
    for (int32_t i = 0; i < kTopK; ++i) chosen.push_back((first + 37 * i) % kExperts);
  }
  const Array ids = Array::Ints({kTokens, kTopK}, chosen);
  const Array starts(DType::kI32, {kExperts + 1}), tokens(DType::kI32, {kTokens * kTopK});
  const Array places(DType::kI32, {kTokens, kTopK});
  const ops::GroupExperts::Desc desc = {.experts = kExperts, .top_k = kTopK};
  const ops::GroupExperts::Args host = {.ids = ids.tensor(),
                                        .starts = starts.tensor(),
                                        .tokens = tokens.tensor(),
                                        .places = places.tensor()};
  const ops::GroupExperts::Args args = {.ids = memory_->Upload(ids),
                                        .starts = memory_->Upload(starts),
                                        .tokens = memory_->Upload(tokens),
                                        .places = memory_->Upload(places)};
  const auto bound = ops::Bind<ops::GroupExperts>(device_->ops(), desc);
  ASSERT_TRUE(bound.ok());
  ASSERT_TRUE((*bound)(*stream_, args).ok());
  const Array got_starts = memory_->Download(args.starts, starts);
  const Array got_tokens = memory_->Download(args.tokens, tokens);
  const Array got_places = memory_->Download(args.places, places);
  ASSERT_TRUE(ops::RefGroupExperts(*stream_, desc, host).ok());
  EXPECT_EQ(got_starts, starts);
  EXPECT_EQ(got_tokens, tokens);
  EXPECT_EQ(got_places, places);
}

}  // namespace
}  // namespace sluice::cuda
