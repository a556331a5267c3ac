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
      {.op = "linear",
       .shape = "q5_1 64x96",
       .chosen = "any_linear",
       .declined = {"avx2_linear: has no q5_1", "amx_linear: no amx"},
       .slow = "plain loops"},
      {.op = "linear",
       .shape = "q5_1 64x32",
       .chosen = "any_linear",
       .declined = {"avx2_linear: has no q5_1", "amx_linear: no amx"},
       .slow = "plain loops"},
      {.op = "norm",
       .shape = "f16 64",
       .chosen = "avx2_f32_norm",
       .declined = {"avx512_norm: has no f16"},
       .slow = "it converts"}};
  EXPECT_THAT(
      SlowFallbacks(bindings),
      ElementsAre(AllOf(HasSubstr("linear runs on any_linear, which is slow: plain loops"),
                        HasSubstr("q5_1 64x96"), HasSubstr("has no q5_1"), HasSubstr("no amx"),
                        Not(HasSubstr("64x32"))),
                  AllOf(HasSubstr("norm"), HasSubstr("it converts"), HasSubstr("has no f16"))));
}

TEST(SlowFallbacks, AnOpThatHasNothingFasterIsNoFallback) {
  const std::vector<BindRecord> bindings = {
      {.op = "embedding", .shape = "f32", .chosen = "ref_embedding", .slow = "plain loops"}};
  EXPECT_THAT(SlowFallbacks(bindings), IsEmpty());
}

template <class Op>
Implementation<Op> Named(std::string_view name) {
  Implementation<Op> implementation{};
  implementation.name = name;
  return implementation;
}

// What is slow says so itself, by the descriptor; no name tells.
TEST(SlowFallbacks, AreWhatImplementationsSayOfThemselves) {
  const device::DeviceFacts facts;
  OpTable table(&facts);
  Implementation<Norm> fast = Named<Norm>("ref_like_norm"), slow = Named<Norm>("quick_norm");
  fast.supports = [](const Norm::Desc& desc, const device::DeviceFacts&) {
    return desc.hidden == 64 ? Support::Yes() : Support::No("rows of 64 alone");
  };
  slow.supports = [](const Norm::Desc&, const device::DeviceFacts&) { return Support::Yes(); };
  slow.slow = [](const Norm::Desc& desc) -> std::string_view {
    return desc.activation == DType::kF16 ? "one element at a time" : "";
  };
  table.Add<Norm>(fast);
  table.Add<Norm>(slow);
  const auto warnings = [&](const Norm::Desc& desc) {
    std::vector<BindRecord> records;
    EXPECT_TRUE(Bind<Norm>(table, desc, &records).ok());
    return SlowFallbacks(records);
  };
  EXPECT_THAT(warnings({.activation = DType::kF16, .hidden = 64}), IsEmpty());
  EXPECT_THAT(warnings({.hidden = 65}), IsEmpty());
  EXPECT_THAT(warnings({.activation = DType::kF16, .hidden = 65}),
              ElementsAre(AllOf(HasSubstr("quick_norm"), HasSubstr("one element at a time"),
                                HasSubstr("rows of 64 alone"))));
}

// Says in the width of a call's x how many calls of its binding there have been.
class Counting final : public Kept<Norm> {
 public:
  Status Run(device::Stream&, const Norm::Desc&, const Norm::Args& args) override {
    *args.x.ptr<float>() = static_cast<float>(++calls_);
    return OkStatus();
  }

 private:
  int calls_ = 0;
};

// Does nothing itself.
class IdleStream final : public device::Stream {
 public:
  Status Synchronize() override { return OkStatus(); }
  Status Record(device::Event&) override { return OkStatus(); }
  Status Wait(device::Event&) override { return OkStatus(); }
  Status CallOnHost(std::function<Status()> call) override { return call(); }
};

TEST(Bind, EachBindingKeepsItsOwnAndCopiesShareIt) {
  const device::DeviceFacts facts;
  OpTable table(&facts);
  table.Add<Norm>(
      {.name = "counting_norm",
       .supports = [](const Norm::Desc&, const device::DeviceFacts&) { return Support::Yes(); },
       .keep = &Keep<Counting, Norm>});
  const Bound<Norm> first = Bind<Norm>(table, {.hidden = 64}).value();
  const Bound<Norm> second = Bind<Norm>(table, {.hidden = 64}).value();
  const Bound<Norm> copy = first;
  IdleStream stream;
  float calls = 0;
  Norm::Args args;
  args.x.data = reinterpret_cast<std::byte*>(&calls);
  const auto after = [&](const Bound<Norm>& bound, device::Stream& on) {
    EXPECT_TRUE(bound(on, args).ok());
    return calls;
  };
  EXPECT_EQ(after(first, stream), 1);
  EXPECT_EQ(after(first, stream), 2);
  EXPECT_EQ(after(second, stream), 1);
  EXPECT_EQ(after(copy, stream), 3);
  CallList list;  // whose calls are made later, by copies
  EXPECT_EQ(after(first, list), 3);
  ASSERT_EQ(list.calls().size(), 1u);
  EXPECT_TRUE(list.calls()[0].make(stream).ok());
  EXPECT_EQ(calls, 4);
}

TEST(LastValue, IsMadeOnceForAKeyAndAnewForAnother) {
  LastValue<int, std::string> last;
  int made = 0;
  const auto of = [&](int key) {
    return *last.Of(key,
                    [&] {
                      ++made;
                      return std::to_string(key);
                    })
                .value();
  };
  EXPECT_EQ(of(0), "0");  // though the key is the one that an empty value has
  EXPECT_EQ(of(0), "0");
  EXPECT_EQ(made, 1);
  EXPECT_EQ(of(7), "7");
  EXPECT_EQ(of(0), "0");
  EXPECT_EQ(made, 3);
}

TEST(LastValue, AnErrorLeavesNothingBehind) {
  LastValue<int, int> last;
  ASSERT_TRUE(last.Of(1, [] { return 10; }).ok());
  const auto fails = [] { return Result<int>(InvalidArgument("no")); };
  EXPECT_FALSE(last.Of(2, fails).ok());
  EXPECT_FALSE(last.Of(2, fails).ok());
  EXPECT_EQ(*last.Of(1, [] { return 11; }).value(), 11);
  EXPECT_EQ(*last.Of(1, fails).value(), 11);
}

TEST(Bind, AnOpThatTheDeviceLacksAsksForAnotherDevice) {
  device::DeviceFacts facts;
  facts.id = {device::DeviceKind::kCuda, 1};
  const OpTable table(&facts);
  const Status status = Bind<Norm>(table, {.hidden = 64}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no implementation of norm on cuda:1 for"),
                                      HasSubstr("take another device, --device cpu for one")));
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
