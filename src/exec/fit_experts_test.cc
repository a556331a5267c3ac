// Experts that go to the host by themselves, as a model's memory is planned. On an OpenCL device
// whose memory is known to the byte: PoCL's, limited by POCL_MEMORY_LIMIT.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/source_dir_fixture.h"
#include "base/str_cat.h"
#include "exec/experts_on.h"
#include "exec/local_runner.h"
#include "model/load/load_model.h"

namespace sluice::exec {
namespace {

using ::testing::HasSubstr;

class FitExperts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("POCL_MEMORY_LIMIT") == nullptr) {
      GTEST_SKIP() << "POCL_MEMORY_LIMIT is not set, so that free memory is not known to the byte";
    }
    const auto plan = Plan("device", "");
    if (plan.status().code() == StatusCode::kDevice) GTEST_SKIP() << plan.status().message();
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    plain_ = *plan;
  }

  static files::ModelFiles Files() {
    return files::OpenModel(SourceDir() + "/tests/golden/models/gpt_oss").value();
  }
  static EngineOptions Options(const std::string& experts_on, const std::string& kv_memory) {
    EngineOptions options;
    options.device = "xpu";
    options.threads = 1;
    options.max_model_len = 64;
    options.max_num_seqs = 2;
    options.max_batch_tokens = 16;
    options.block_size = 8;
    options.kernel_block_size = 4;
    options.kv_memory = kv_memory;
    options.speculate = "none";
    options.experts_on = experts_on;
    return options;
  }
  static Result<MemoryPlan> Plan(const std::string& experts_on, const std::string& kv_memory) {
    return LocalRunner::Plan(Files(), {}, Options(experts_on, kv_memory));
  }
  // What the KV cache may take at most beside weights of so many bytes, by what a plan refuses.
  static bool Fits(const std::string& experts_on, size_t kv_bytes) {
    return Plan(experts_on, StrCat(kv_bytes, "B")).ok();
  }
  static size_t MostBeside(const std::string& experts_on) {
    size_t low = 0, high = size_t{4} << 30;
    while (low + 1 < high) {
      const size_t middle = low + (high - low) / 2;
      (Fits(experts_on, middle) ? low : high) = middle;
    }
    return low;
  }

  MemoryPlan plain_;
};

TEST_F(FitExperts, GoToTheHostInAsFewLayersAsItTakes) {
  const std::vector<int> layers = ExpertLayers(Files().config);
  ASSERT_EQ(layers.size(), 3u);
  size_t beside_fewer = MostBeside("device");
  EXPECT_EQ(Plan("auto", StrCat(beside_fewer, "B"))->host_weight_bytes, 0u) << "it fits";
  size_t before = 0;
  for (size_t count = 1; count <= layers.size(); ++count) {
    const std::string named = StrCat("host:0-", layers[count - 1]);
    const auto fitted = Plan("auto", StrCat(beside_fewer + 1, "B"));
    ASSERT_TRUE(fitted.ok()) << fitted.status().message();
    const auto by_hand = Plan(named, StrCat(beside_fewer + 1, "B"));
    ASSERT_TRUE(by_hand.ok()) << by_hand.status().message();
    EXPECT_EQ(fitted->host_weight_bytes, by_hand->host_weight_bytes) << named;
    EXPECT_EQ(fitted->weight_bytes, by_hand->weight_bytes) << named;
    EXPECT_GT(fitted->host_weight_bytes, before);
    EXPECT_LT(fitted->weight_bytes, plain_.weight_bytes);
    before = fitted->host_weight_bytes;
    EXPECT_THAT(fitted->note,
                HasSubstr(StrCat("the experts of its first ", count, " of 3 layers")));
    EXPECT_THAT(fitted->note, HasSubstr("computed by the CPU (threads: 1)"));
    EXPECT_THAT(fitted->ToString(), HasSubstr("of experts on the host"));
    EXPECT_TRUE(by_hand->note.empty()) << by_hand->note;
    EXPECT_EQ(Plan("device", StrCat(beside_fewer + 1, "B")).status().code(),
              StatusCode::kOutOfMemory);
    beside_fewer = MostBeside(named);
  }
  const Status none = Plan("auto", StrCat(beside_fewer + 1, "B")).status();
  EXPECT_EQ(none.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(none.message(), HasSubstr("with the experts of all layers on the host"));
}

TEST_F(FitExperts, AreLoadedWhereThePlanHasThem) {
  const EngineOptions options = Options("auto", StrCat(MostBeside("device") + 1, "B"));
  const auto planned = LocalRunner::Plan(Files(), {}, options);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  const auto runner = LocalRunner::Open(Files(), {}, options, {});
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  EXPECT_EQ((*runner)->Info().weight_bytes, planned->weight_bytes);
  EXPECT_EQ((*runner)->Info().memory_note, planned->note);
}

}  // namespace
}  // namespace sluice::exec
