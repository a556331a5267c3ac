#include "ops/call_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/activation.h"
#include "ops/queued_device_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

TEST(CallList, NotesCallsThatAreMadeLater) {
  QueuedDevice device({.piecewise_op = "soft_cap"});
  const auto stream = std::move(device.CreateStream().value());
  const auto memory = std::move(device.Allocate(64, device::MemoryKind::kDevice).value());
  const auto op = Bind<SoftCap>(device.ops(), {.activation = DType::kF32, .cap = 2.0f}).value();
  CallList list;
  {
    const SoftCap::Args args = {Dense(memory.view(), DType::kF32, {1, 16})};
    ASSERT_TRUE(op(list, args).ok());
  }
  EXPECT_EQ(device.counts().ops, 0);
  ASSERT_EQ(list.calls().size(), 1u);
  EXPECT_EQ(list.calls()[0].op, "soft_cap");
  EXPECT_EQ(list.calls()[0].graphs, device::GraphSupport::kPiecewise);
  for (const int64_t made : {1, 2}) {
    EXPECT_TRUE(list.calls()[0].make(*stream).ok());
    EXPECT_EQ(device.counts().ops, made);
  }
  EXPECT_TRUE(stream->Synchronize().ok());
}

TEST(CallList, RefusesWhatIsNoCall) {
  QueuedDevice device;
  const auto event = std::move(device.CreateEvent().value());
  CallList list;
  for (const Status& status : {list.Synchronize(), list.Record(*event), list.Wait(*event)}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("among the calls of ops"));
  }
}

}  // namespace
}  // namespace sluice::ops
