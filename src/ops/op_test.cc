#include "ops/op.h"

#include <gmock/gmock.h>

#include "ops/linear.h"
#include "ops/norm.h"

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

template <class Op>
Implementation<Op> Named(std::string_view name) {
  Implementation<Op> implementation{};
  implementation.name = name;
  return implementation;
}

class ForceAllTest : public ::testing::Test {
 protected:
  ForceAllTest() {
    table_.Add<Norm>(Named<Norm>("ref_norm"));
    table_.Add<Norm>(Named<Norm>("fast_norm"));
    table_.Add<Linear>(Named<Linear>("ref_linear"));
  }
  std::string Refused(std::string_view list) {
    const Status status = table_.ForceAll(list);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << list;
    EXPECT_EQ(status.field(), "force-op");
    EXPECT_LT(status.message().size(), 300u);
    return status.message();
  }
  device::DeviceFacts facts_;
  OpTable table_{&facts_};
};

TEST_F(ForceAllTest, TakesOneImplementationOfEachOp) {
  ASSERT_TRUE(table_.ForceAll("norm=fast_norm,linear=ref_linear").ok());
  EXPECT_EQ(*table_.Forced("norm"), "fast_norm");
  EXPECT_EQ(*table_.Forced("linear"), "ref_linear");
  EXPECT_TRUE(table_.ForceAll("").ok());
}

TEST_F(ForceAllTest, RefusesWhatItCannotFollowAndNamesWhatThereIs) {
  EXPECT_THAT(Refused("norm=ref_norm,norm=fast_norm"), HasSubstr("second choice for norm"));
  for (const char* list : {"norm=", "norm=nope", "norm=ref_linear"}) {
    EXPECT_THAT(Refused(list), AllOf(HasSubstr(list), HasSubstr("there are ref_norm, fast_norm")));
  }
  for (const char* list : {"nope=ref_norm", "norm", "=ref_norm", ",norm=ref_norm"}) {
    EXPECT_THAT(Refused(list), HasSubstr("the ops are linear, norm"));
  }
  Refused(std::string(100'000, 'x'));
  Refused("norm=" + std::string(100'000, 'x'));
}

TEST(ArithmeticInName, IsItsPartWithTheType) {
  EXPECT_EQ(ArithmeticInName("any_f32_norm"), Arithmetic::kF32);
  EXPECT_EQ(ArithmeticInName("sm80_f16_attention"), Arithmetic::kF16);
  EXPECT_EQ(ArithmeticInName("amx_bf16_linear"), Arithmetic::kBf16);
  EXPECT_EQ(ArithmeticInName("any_int8_linear_chain"), Arithmetic::kInt8);
  EXPECT_EQ(ArithmeticInName("ref_linear"), Arithmetic::kAsReference);
  EXPECT_EQ(ArithmeticInName("any_gather_rows"), Arithmetic::kAsReference);
}

}  // namespace
}  // namespace sluice::ops
