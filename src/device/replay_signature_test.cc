#include "device/replay_signature.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::device {
namespace {

class ReplaySignatureTest : public ::testing::Test {
 protected:
  ReplayParams::Value Value(std::string name, size_t at, size_t bytes) {
    return {std::move(name), {source_.data(), bytes}, {destination_.data() + at, bytes}};
  }
  std::array<std::byte, 64> source_{}, destination_{};
  ReplaySignature signature_;
};

TEST_F(ReplaySignatureTest, TheFirstReplayFixesNamesSizesAndPlaces) {
  const ReplayParams first = {{Value("ids", 0, 16), Value("slots", 16, 8)}};
  ASSERT_TRUE(signature_.Check(first).ok());
  EXPECT_TRUE(signature_.Check(first).ok());
  const auto fails = [&](ReplayParams params, const char* name) {
    const Status status = signature_.Check(params);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  };
  fails({{Value("ids", 0, 16)}}, "slots");
  fails({{Value("ids", 0, 16), Value("slots", 16, 4)}}, "slots");
  fails({{Value("ids", 0, 16), Value("slots", 24, 8)}}, "slots");
  fails({{Value("ids", 0, 16), Value("places", 16, 8)}}, "slots");
  fails({{Value("ids", 0, 16), Value("slots", 16, 8), Value("more", 32, 8)}}, "more");
  EXPECT_TRUE(signature_.Check(first).ok()) << "a refused replay changes nothing";
}

TEST_F(ReplaySignatureTest, AValueFitsItsPlaceAndANameStandsOnce) {
  ReplayParams params = {{Value("ids", 0, 16)}};
  params.values[0].source.bytes = 8;
  EXPECT_FALSE(signature_.Check(params).ok());
  EXPECT_FALSE(signature_.Check({{Value("ids", 0, 16), Value("ids", 16, 8)}}).ok());
}

}  // namespace
}  // namespace sluice::device
