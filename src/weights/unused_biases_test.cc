#include "weights/unused_biases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

TEST(UnusedBiases, AreThoseOfMatricesThatAreTakenWithoutThem) {
  FakeSource source;
  source.AddF32("a.weight", {2, 1}, {1, 2}).AddF32("a.bias", {2}, {0, 3});
  source.AddF32("b.weight", {2, 1}, {1, 2}).AddF32("b.bias", {2}, {0, 3});  // taken with its own
  source.AddF32("c.weight", {2, 1}, {1, 2}).AddF32("c.bias", {2}, {0, 0});  // of zeros
  source.AddF32("vision.weight", {2, 1}, {1, 2}).AddF32("vision.bias", {2}, {4, 3});
  source.AddF32("h.attn.bias", {1}, {1});  // a mask of GPT-2, which is no bias
  WeightPlan plan;
  plan.source = &source;
  for (const char* name : {"a.weight", "b.weight", "b.bias", "c.weight"}) {
    PlannedParam& param = plan.params.emplace_back();
    param.resolved.sources = {{name, 2}};
  }
  EXPECT_THAT(UnusedBiases(plan), ::testing::ElementsAre("a.bias"));
}

}  // namespace
}  // namespace sluice::weights
