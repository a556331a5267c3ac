#include "ops/op.h"

#include <gmock/gmock.h>

namespace sluice::ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(SlowFallbacks, OneSentencePerOpWithTheFirstReason) {
  const std::vector<BindRecord> bindings = {
      {"linear", "q4_1 64x64", "avx2_q4_1_linear", {"avx512_linear: no avx512"}},
      {"linear", "q5_1 64x96", "ref_linear", {"avx2_linear: has no q5_1", "amx_linear: no amx"}},
      {"linear", "q5_1 64x32", "ref_linear", {"avx2_linear: has no q5_1", "amx_linear: no amx"}},
      {"norm", "f16 64", "ref_norm", {"avx2_norm: has no f16"}}};
  EXPECT_THAT(
      SlowFallbacks(bindings),
      ElementsAre(AllOf(HasSubstr("linear"), HasSubstr("q5_1 64x96"), HasSubstr("has no q5_1"),
                        HasSubstr("no amx"), Not(HasSubstr("64x32"))),
                  AllOf(HasSubstr("norm"), HasSubstr("has no f16"))));
}

TEST(SlowFallbacks, AnOpThatHasNothingFasterIsNoFallback) {
  EXPECT_THAT(SlowFallbacks(std::vector<BindRecord>{{"embedding", "f32", "ref_embedding", {}}}),
              IsEmpty());
}

}  // namespace
}  // namespace sluice::ops
