// Steps of a model whose experts lie on the host beside a device: the same bits as with all on the
// device where both compute alike, in graphs, in pieces and without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/source_dir_fixture.h"
#include "exec/executor_fixture.h"
#include "exec/experts_on.h"

namespace sluice::exec {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kHostPrompt = {5, 17, 101, 44, 3, 60, 9, 77, 50, 31, 6, 20, 12};

// What `sequences` sequences draw side by side, as many steps in flight as the device has room for;
// by sequence, of which the first ones draw the same whoever is beside them.
std::vector<std::vector<Drawn>> GenerateSequences(TinyExecutor* tiny, int steps, int sequences,
                                                  uint64_t step = 0) {
  std::vector<std::vector<Drawn>> drawn(static_cast<size_t>(sequences));
  const auto finish = [&] {
    batch::StepResult result;
    const Status status = tiny->Finish(&result);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < result.tokens.size(); ++i)
      drawn[i].push_back({result.tokens[i].id, result.tokens[i].logprob});
  };
  batch::SamplingParams params;
  params.temperature = 0.0f;
  params.top_logprobs = 2;
  for (int i = 0; i < steps; ++i) {
    PlanBuilder plan(++step, tiny->model->groups().size());
    for (int slot = 0; slot < sequences; ++slot) {
      const auto length = static_cast<int>(kHostPrompt.size()) - slot;
      if (i == 0) {
        const std::vector<int32_t> prompt(kHostPrompt.begin(), kHostPrompt.begin() + length);
        plan.Start(slot, params, prompt).Entry(slot, 0, prompt, {{length - 1}});
      } else {
        plan.Entry(slot, length + i - 1, {batch::kLastDrawn}, {{0}});
      }
    }
    const Status status = tiny->Launch(std::move(plan.plan()));
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return drawn;
    if (static_cast<int>(tiny->steps.size()) == tiny->executor->Info().depth) finish();
  }
  while (!tiny->steps.empty()) finish();
  return drawn;
}

std::vector<int> AllLayers(const std::string& model) {
  return ExpertLayers(files::OpenModel(SourceDir() + "/tests/golden/models/" + model)->config);
}

TinyExecutor Open(const std::string& model, const std::string& device, std::vector<int> layers) {
  return TinyExecutor(model, {.device = device, .host_layers = std::move(layers)});
}

constexpr int kSteps = 24;

class HostExperts : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// The queued device computes with the CPU's kernels, so not a bit differs.
TEST_P(HostExperts, GiveTheBitsOfThoseOnTheDevice) {
  const auto& [device, model] = GetParam();
  TinyExecutor with = Open(model, device, {});
  const auto expected = GenerateSequences(&with, kSteps, 3);
  ASSERT_EQ(expected[2].size(), size_t{kSteps});
  ASSERT_TRUE(with.executor->ReadExpertLoads().ok());
  std::vector<int> layers = AllLayers(model);
  for (int round = 0; round < 2; ++round) {
    TinyExecutor host = Open(model, device, layers);
    EXPECT_EQ(GenerateSequences(&host, kSteps, 3), expected) << layers.size() << " layers";
    EXPECT_LT(host.model->parameters().bytes(), with.model->parameters().bytes());
    EXPECT_GT(host.model->host_parameters().bytes(), 0u);
    EXPECT_GT(host.queued().counts().host_calls, 0);
    // What tokens are given is counted as ever.
    ASSERT_TRUE(host.executor->ReadExpertLoads().ok());
    EXPECT_EQ(host.executor->ExpertLoads()->choices(), with.executor->ExpertLoads()->choices());
    layers.resize(1);
  }
}

TEST_P(HostExperts, GiveASequenceTheSameBitsBesideAnyone) {
  const auto& [device, model] = GetParam();
  TinyExecutor host = Open(model, device, AllLayers(model));
  const auto alone = GenerateSequences(&host, kSteps, 1);
  TinyExecutor again = Open(model, device, AllLayers(model));
  EXPECT_EQ(GenerateSequences(&again, kSteps, 5)[0], alone[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, HostExperts,
    // MXFP4 with biases; scores with a bias beside shared experts; weights on what experts read; a
    // dense part beside.
    ::testing::Values(std::pair("pinned", "qwen3_moe"), std::pair("chunks", "qwen3_moe"),
                      std::pair("nographs", "qwen3_moe"), std::pair("noattention", "qwen3_moe"),
                      std::pair("checked", "qwen3_moe"), std::pair("nohostcalls", "qwen3_moe"),
                      std::pair("pinned", "gpt_oss"), std::pair("pinned", "deepseek_v3"),
                      std::pair("pinned", "llama4"), std::pair("pinned", "gemma4_moe"),
                      std::pair("pinned", "qwen2_moe")),
    [](const auto& test) { return StrCat(test.param.first, "_", test.param.second); });

TEST(HostExpertsInGraphs, AreCalledByReplaysOrBetweenThem) {
  for (const char* const device : {"pinned", "nohostcalls"}) {
    TinyExecutor host = Open("qwen3_moe", device, AllLayers("qwen3_moe"));
    const uint64_t layers = AllLayers("qwen3_moe").size();
    GenerateSequences(&host, kSteps, 2);
    EXPECT_FALSE(host.executor->captured().empty()) << device;
    const ops::QueuedDevice::Counts counts = host.queued().counts();
    EXPECT_GT(counts.replays, 0) << device;
    // A replay calls what it holds without being told again.
    if (std::string_view(device) == "pinned") {
      EXPECT_LT(counts.host_calls, static_cast<int64_t>(layers) * kSteps);
    } else {
      EXPECT_GE(counts.host_calls, static_cast<int64_t>(layers) * kSteps);
    }
  }
}

TEST(HostExpertsOnADevice, AStepThatFailsDisturbsNoneBehindIt) {
  TinyExecutor host = Open("qwen3_moe", "pinned", AllLayers("qwen3_moe"));
  constexpr int kFailing = 6;
  for (int failing = 0; failing < kFailing; ++failing) {
    host.queued().FailOp(failing % 2 == 0 ? "route_experts" : "norm", 1 + failing % 2);
    PlanBuilder plan(static_cast<uint64_t>(failing) + 1, host.model->groups().size());
    plan.Start(0, {}, kHostPrompt)
        .Entry(0, 0, kHostPrompt, {{static_cast<int>(kHostPrompt.size()) - 1}});
    EXPECT_FALSE(host.Run(std::move(plan.plan())).ok());
  }
  TinyExecutor fresh = Open("qwen3_moe", "pinned", AllLayers("qwen3_moe"));
  EXPECT_EQ(GenerateSequences(&host, kSteps, 2, kFailing), GenerateSequences(&fresh, kSteps, 2));
}

// Of two sequences that draw on, the step in the middle fails at its first or a later call of the
// host; each slot is sent again whole then, as the scheduler sends it.
TEST(HostExpertsOnADevice, ACallThatFailsEndsItsStepAndNoOther) {
  for (const char* const device : {"pinned", "nographs", "nohostcalls"}) {
    for (const int nth : {1, 2}) {
      TinyExecutor host = Open("qwen3_moe", device, AllLayers("qwen3_moe"));
      GenerateSequences(&host, 3, 2);
      host.queued().FailHostCall(nth);
      PlanBuilder plan(4, host.model->groups().size());
      plan.Start(0, {}, kHostPrompt)
          .Entry(0, 0, kHostPrompt, {{static_cast<int>(kHostPrompt.size()) - 1}});
      const Status status = host.Run(std::move(plan.plan())).status();
      EXPECT_EQ(status.code(), StatusCode::kDevice) << device << " " << nth;
      EXPECT_THAT(status.message(), HasSubstr("a call of the host failed"));
      EXPECT_EQ(host.executor->in_flight(), 0);
      TinyExecutor fresh = Open("qwen3_moe", device, AllLayers("qwen3_moe"));
      EXPECT_EQ(GenerateSequences(&host, kSteps, 2, 4), GenerateSequences(&fresh, kSteps, 2))
          << device << " " << nth;
    }
  }
}

TEST(HostExpertsOnADevice, ACallThatFailsEndsTheStepBehindItToo) {
  TinyExecutor host = Open("qwen3_moe", "pinned", AllLayers("qwen3_moe"));
  host.queued().FailHostCall(1);
  PlanBuilder first(1, host.model->groups().size()), behind(2, host.model->groups().size());
  const auto length = static_cast<int>(kHostPrompt.size());
  first.Start(0, {}, kHostPrompt).Entry(0, 0, kHostPrompt, {{length - 1}});
  behind.Entry(0, length, {batch::kLastDrawn}, {{0}});
  ASSERT_TRUE(host.Launch(std::move(first.plan())).ok());
  ASSERT_TRUE(host.Launch(std::move(behind.plan())).ok());
  batch::StepResult result;
  EXPECT_EQ(host.Finish(&result).code(), StatusCode::kDevice);
  EXPECT_FALSE(host.Finish(&result).ok());
  TinyExecutor fresh = Open("qwen3_moe", "pinned", AllLayers("qwen3_moe"));
  EXPECT_EQ(GenerateSequences(&host, kSteps, 2, 2), GenerateSequences(&fresh, kSteps, 2));
}

TEST(HostExpertsOnADevice, TakeNothingOfItsMemoryForTheirWeights) {
  const auto files = files::OpenModel(SourceDir() + "/tests/golden/models/qwen3_moe").value();
  const auto device = OpenTestDevice("pinned"), host = OpenTestDevice("cpu");
  const std::vector<int> layers = AllLayers("qwen3_moe");
  const size_t all = model::PlanWeights(files, *device, DType::kF32)->bytes;
  size_t before = all;
  for (size_t count = 1; count <= layers.size(); ++count) {
    const std::span<const int> first(layers.data(), count);
    const size_t rest = model::PlanWeights(files, *device, DType::kF32, 0, 0, first)->bytes;
    const size_t moved = model::PlanHostExperts(files, *host, first)->bytes;
    EXPECT_LT(rest, before);
    EXPECT_EQ(rest + moved, all) << "both pack F32 alike";
    before = rest;
  }
}

TEST(HostExpertsOnADevice, HaveBuffersThatGrowWithAStep) {
  const auto files = files::OpenModel(SourceDir() + "/tests/golden/models/qwen3_moe").value();
  const auto host = OpenTestDevice("cpu");
  model::ModelOptions options{.max_tokens = 1024, .host = host.get()};
  EXPECT_EQ(model::HostExpertBuffers(files.config, options), 0u) << "no layer is there";
  options.host_layers = AllLayers("qwen3_moe");
  const size_t some = model::HostExpertBuffers(files.config, options);
  // What experts read and give in F32, and an id and a weight for each choice, come and go; and the
  // host's ops have at least what two matrices of each chosen expert give.
  const auto hidden = static_cast<size_t>(files.config.hidden_size);
  const auto each = static_cast<size_t>(files.config.experts.per_token);
  const auto width = static_cast<size_t>(files.config.experts.width);
  EXPECT_GE(some, 1024 * (2 * hidden + 2 * each + 2 * each * width) * sizeof(float));
  options.max_tokens = 2048;
  EXPECT_GT(model::HostExpertBuffers(files.config, options), some * 3 / 2);
}

TEST(HostExpertsOnADevice, NeedPinnedMemory) {
  const auto files = files::OpenModel(SourceDir() + "/tests/golden/models/qwen3_moe").value();
  const auto device = OpenTestDevice("plain"), host = OpenTestDevice("cpu");
  const std::vector<int> layers = AllLayers("qwen3_moe");
  const model::ModelOptions options{.host_layers = layers, .host = host.get()};
  auto plan = model::PlanWeights(files, *device, options.activation, 0, 0, layers);
  auto host_plan = model::PlanHostExperts(files, *host, layers);
  const auto loaded =
      model::LoadModel(files.config, *std::move(plan), *device, options, *std::move(host_plan));
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(loaded.status().message(), HasSubstr("leave --experts-on out"));
}

}  // namespace
}  // namespace sluice::exec
