#include "cli/load/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace sluice::load {
namespace {

using ::testing::HasSubstr;

class WorkloadTest : public ::testing::Test {
 protected:
  WorkloadTest() {
    std::ofstream(path_) << "{\"prompt\": [1, 2], \"output_len\": 3}\n{\"prompt\": \"b\"}\n";
  }
  ~WorkloadTest() override { std::filesystem::remove(path_); }

  const std::string path_ = ::testing::TempDir() + "/sluice_workload_test.jsonl";
};

TEST_F(WorkloadTest, LengthsOfADatasetAreItsOwnUnlessTheyAreGiven) {
  WorkloadOptions options;
  options.dataset = path_;
  auto work = Workload::Make(options);
  ASSERT_TRUE(work.ok()) << work.status().message();
  EXPECT_EQ(work->output_tokens(), (std::vector<int>{3, 128}));
  EXPECT_EQ(work->input_tokens(), (std::vector<int>{2, 0}));
  options.output_tokens = "9";
  work = Workload::Make(options);
  EXPECT_EQ(work->output_tokens(), (std::vector<int>{9, 9}));
  options.requests = 1;
  EXPECT_EQ(Workload::Make(options)->size(), 1u);
  options.requests = 3;
  EXPECT_THAT(Workload::Make(options).status().message(), HasSubstr("than the 2 prompts"));
}

TEST_F(WorkloadTest, RandomRequestsAreDrawnFromTheSeed) {
  WorkloadOptions options;
  options.input_tokens = "uniform:1:1000";
  options.seed = 4;
  const auto work = Workload::Make(options);
  ASSERT_TRUE(work.ok()) << work.status().message();
  EXPECT_EQ(work->size(), 100u);
  EXPECT_EQ(work->input_tokens(), Workload::Make(options)->input_tokens());
  options.seed = 5;
  EXPECT_NE(work->input_tokens(), Workload::Make(options)->input_tokens());
  options.input_tokens = "many";
  EXPECT_EQ(Workload::Make(options).status().field(), "input-tokens");
}

}  // namespace
}  // namespace sluice::load
