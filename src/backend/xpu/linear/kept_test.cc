// A binding's kernel and choice that stay from call to call: on other streams, with other weights
// and other numbers of rows they give what a binding gives at its first call.
#include <gtest/gtest.h>

#include "backend/xpu/xpu_fixture.h"
#include "ops/linear.h"

namespace sluice::xpu {
namespace {

using ops::Linear;

constexpr int64_t kRows = 40, kColumns = 64, kTokens = 5;
const Linear::Desc kDesc = {.weight = DType::kF32, .n = kRows, .k = kColumns};

class KeptLinearTest : public XpuTest {
 protected:
  void SetUp() override {
    XpuTest::SetUp();
    std::vector<float> x(kTokens * kColumns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6.0f;
    x_ = Upload(x);
  }
  ops::Bound<Linear> Bind() const { return ops::Bind<Linear>(device_->ops(), kDesc).value(); }
  // A weight all of whose elements are `value`, but that each row adds its number at column 0.
  ops::PackedWeight Weight(float value) {
    std::vector<float> rows(kRows * kColumns, value);
    for (int64_t row = 0; row < kRows; ++row) rows[row * kColumns] += static_cast<float>(row);
    const ops::LinearPacking& packing = ops::PackingOf(device_->ops(), Bind().name());
    std::vector<std::byte> packed(packing.packed_bytes(kDesc));
    EXPECT_TRUE(packing.pack(kDesc, 0, std::as_bytes(std::span(rows)), packed).ok());
    weights_.push_back(Upload(packed));
    const device::View view = weights_.back().view();
    ops::PackedWeight weight = {{}, kDesc.weight, packing.layout, kRows, kColumns};
    weight.data = ops::Dense(view, DType::kU8, {static_cast<int64_t>(view.bytes)});
    return weight;
  }
  std::vector<float> Run(const ops::Bound<Linear>& bound, device::Stream& stream,
                         const ops::PackedWeight& weight, int64_t m) {
    device::Buffer out = Upload(std::vector<float>(kTokens * kRows));
    const ops::Tensor x = ops::Dense(x_.view(), DType::kF32, {kTokens, kColumns});
    const ops::Tensor all = ops::Dense(out.view(), DType::kF32, {kTokens, kRows});
    const Status status =
        bound(stream, {.x = x.Rows(0, m), .weight = &weight, .out = all.Rows(0, m)});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(stream.Synchronize().ok());
    return Download<float>(out);
  }

  device::Buffer x_;
  std::vector<device::Buffer> weights_;
};

TEST_F(KeptLinearTest, LaterCallsGiveWhatFirstOnesDo) {
  const ops::PackedWeight one = Weight(1.0f), two = Weight(-2.0f);
  const auto first = [&](const ops::PackedWeight& weight, int64_t m) {
    return Run(Bind(), *stream_, weight, m);
  };
  ASSERT_NE(first(one, 1), first(two, 1));
  ASSERT_NE(first(one, 1), first(one, kTokens));
  const ops::Bound<Linear> bound = Bind();
  for (const int64_t m : {int64_t{1}, int64_t{1}, kTokens, int64_t{1}, int64_t{3}, int64_t{3}}) {
    EXPECT_EQ(Run(bound, *stream_, one, m), first(one, m)) << m;
    EXPECT_EQ(Run(bound, *stream_, two, m), first(two, m)) << m;
  }
}

// A kernel belongs to its stream, which may be gone when the binding is called again.
TEST_F(KeptLinearTest, AnotherStreamHasItsOwnKernel) {
  const ops::PackedWeight weight = Weight(1.0f);
  const ops::Bound<Linear> bound = Bind();
  const std::vector<float> expected = Run(bound, *stream_, weight, 2);
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<device::Stream> other = std::move(device_->CreateStream().value());
    EXPECT_EQ(Run(bound, *other, weight, 2), expected);
    EXPECT_EQ(Run(bound, *stream_, weight, 2), expected);
    EXPECT_EQ(Run(bound, *other, weight, 2), expected);
  }
}

}  // namespace
}  // namespace sluice::xpu
