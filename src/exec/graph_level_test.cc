#include "exec/graph_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::exec {
namespace {

TEST(GraphLevel, IsOneOfThree) {
  EXPECT_EQ(ParseGraphLevel("none").value(), device::GraphSupport::kNone);
  EXPECT_EQ(ParseGraphLevel("piecewise").value(), device::GraphSupport::kPiecewise);
  EXPECT_EQ(ParseGraphLevel("full").value(), device::GraphSupport::kFull);
  for (const char* text : {"", "Full", "pieces", "true"}) {
    const Status status = ParseGraphLevel(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.field(), "graphs");
    EXPECT_THAT(status.message(), ::testing::HasSubstr("choose none, piecewise or full"));
  }
}

}  // namespace
}  // namespace sluice::exec
