// What a model's memory is planned from, on the CPU of this machine: a length that nobody asked
// for, where a step's buffers and tables of positions take more than any machine has.
#include "exec/plan_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/source_dir_fixture.h"
#include "exec/local_runner.h"

namespace sluice::exec {
namespace {

using ::testing::HasSubstr;

constexpr int kDeclared = 1 << 28;

// Block tables of so many sequences of that length take terabytes.
EngineOptions Options() {
  EngineOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.max_num_seqs = options.max_batch_tokens = 1 << 14;
  options.block_size = 8;
  options.kernel_block_size = 4;
  options.speculate = "none";
  return options;
}

Result<MemoryPlan> Plan(const EngineOptions& options) {
  files::ModelFiles files = files::OpenModel(SourceDir() + "/tests/golden/drafts/target").value();
  files.config.context_length = kDeclared;
  return LocalRunner::Plan(files, {}, options);
}

TEST(PlanTarget, AModelWhoseDeclaredLengthDoesNotFitIsServedShorter) {
  const auto plan = Plan(Options());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_LT(plan->max_model_len, kDeclared);
  EXPECT_GE(plan->max_model_len, 16);
  EXPECT_LE(plan->step_bytes + plan->bytes + plan->weight_bytes, plan->free_bytes);
  EXPECT_THAT(plan->note, HasSubstr("--max-model-len is "));
  EXPECT_THAT(plan->note, HasSubstr("the model declares 268435456"));
}

TEST(PlanTarget, ALengthThatIsAskedForIsRefused) {
  EngineOptions options = Options();
  options.max_model_len = kDeclared;
  const Status status = Plan(options).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("a step of 16384 tokens and 16384 sequences needs"));
}

}  // namespace
}  // namespace sluice::exec
