// Experts that move between steps: answers are the same to the bit, and no step finds a slot in the
// map that holds other bytes than its expert's.
#include "exec/expert_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/source_dir_fixture.h"
#include "base/str_cat.h"
#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kMoverPrompt = {1, 75, 65, 67, 20, 98, 13, 12, 99, 7, 31, 53, 85};

// `step_bytes`: so few that experts take several steps to move.
ExpertRanks RanksOf(const std::string& name, int ranks, int redundant, size_t step_bytes) {
  const auto files = files::OpenModel(SourceDir() + "/tests/golden/models/" + name);
  EngineOptions options;
  options.expert_ranks = ranks;
  options.redundant_experts = redundant;
  options.expert_balance_interval = "none";
  options.expert_migration_bytes = StrCat(step_bytes);
  auto wanted = ExpertRanksOf(files->config, options);
  EXPECT_TRUE(wanted.ok()) << wanted.status().message();
  return *std::move(wanted);
}

// Any placement of the layer's experts.
experts::Placement AnyPlacement(const experts::MapShape& shape, std::mt19937& random) {
  std::vector<double> loads(static_cast<size_t>(shape.experts));
  for (double& load : loads) load = std::uniform_real_distribution<double>(0, 1)(random);
  experts::Placement placement =
      experts::Plan(loads, {.ranks = shape.ranks, .replicas = shape.spare() - shape.experts});
  std::shuffle(placement.begin(), placement.end(), random);
  return placement;
}

void WantAnything(experts::Balancer* balancer, std::mt19937& random) {
  for (const int layer : balancer->options().layers) {
    if (random() % 3 == 0) continue;
    const experts::Placement placement = AnyPlacement(balancer->options().shape, random);
    ASSERT_TRUE(balancer->CheckWanted(layer, placement).ok());
    balancer->Want(layer, placement);
  }
}

// Two sequences side by side, two steps in flight where the device has room for them. With a mover
// something else is wanted every few steps.
std::vector<Drawn> GenerateWithMoves(TinyExecutor* tiny, int steps, std::mt19937* random,
                                     uint64_t step = 0) {
  batch::SamplingParams params;
  params.temperature = 0.0f;
  params.top_logprobs = 2;
  std::vector<Drawn> drawn;
  const size_t groups = tiny->model->groups().size();
  const int depth = tiny->executor->Info().depth;
  const auto finish = [&] {
    batch::StepResult result;
    const Status status = tiny->Finish(&result);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const auto& token : result.tokens) drawn.push_back({token.id, token.logprob});
  };
  for (int i = 0; i < steps; ++i) {
    if (random != nullptr && i % 5 == 1) {
      WantAnything(&tiny->mover->balancer(), *random);
    }
    PlanBuilder plan(++step, groups);
    for (int slot = 0; slot < 2; ++slot) {
      const auto length = static_cast<int>(kMoverPrompt.size()) - slot;
      if (i == 0) {
        const std::vector<int32_t> prompt(kMoverPrompt.begin(), kMoverPrompt.begin() + length);
        plan.Start(slot, params, prompt).Entry(slot, 0, prompt, {{length - 1}});
      } else {
        plan.Entry(slot, length + i - 1, {batch::kLastDrawn}, {{0}});
      }
    }
    const Status status = tiny->Launch(std::move(plan.plan()));
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return drawn;
    if (static_cast<int>(tiny->steps.size()) == depth) finish();
  }
  while (!tiny->steps.empty()) finish();
  return drawn;
}

struct MoverCase {
  const char* device;
  const char* model;
  int ranks, redundant;
  size_t step_bytes;
};

class MovingExperts : public ::testing::TestWithParam<MoverCase> {};

TEST_P(MovingExperts, ChangeNoBitOfAnAnswer) {
  constexpr int kSteps = 60;
  const MoverCase& c = GetParam();
  if (std::string_view(c.device) == "xpu") {
    const auto resolved = device::ResolveDevice("xpu", device::LinkedBackends());
    if (!resolved.ok()) GTEST_SKIP() << "no device: " << resolved.status().message();
  }
  TinyExecutor still(c.model, {.device = c.device});
  const std::vector<Drawn> expected = GenerateWithMoves(&still, kSteps, nullptr);
  ASSERT_EQ(expected.size(), size_t{2} * kSteps);
  const ExpertRanks ranks = RanksOf(c.model, c.ranks, c.redundant, c.step_bytes);
  TinyExecutor moving(c.model, {.device = c.device, .ranks = ranks});
  std::mt19937 random(5);
  EXPECT_EQ(GenerateWithMoves(&moving, kSteps, &random), expected);
  const experts::Balancer& balancer = moving.mover->balancer();
  EXPECT_GT(balancer.totals().copies, 3u);
  EXPECT_GT(balancer.map().version(), 4u);
  balancer.map().CheckInvariants();
  if (still.device->facts().runs_beside_host &&
      still.device->facts().graphs != device::GraphSupport::kNone) {
    EXPECT_FALSE(moving.executor->captured().empty()) << "no graph was replayed";
  }
  // What is left is done while no step runs.
  for (int calls = 0; balancer.totals().copies > 0; ++calls) {
    ASSERT_LT(calls, 100'000);
    const Result<bool> more = moving.executor->MoveExperts();
    ASSERT_TRUE(more.ok()) << more.status().message();
    if (!*more) break;
  }
  EXPECT_FALSE(moving.mover->balancer().busy());
}

INSTANTIATE_TEST_SUITE_P(
    Models, MovingExperts,
    ::testing::Values(
        MoverCase{"cpu", "qwen3_moe", 3, 4, 4000}, MoverCase{"pinned", "qwen3_moe", 3, 4, 4000},
        MoverCase{"plain", "qwen3_moe", 4, 0, 4000},
        MoverCase{"nographs", "qwen3_moe", 2, 2, 1 << 20},
        // MXFP4 with biases; scores with a bias beside shared experts; weights on
        // what experts read; a shared expert with a gate.
        MoverCase{"cpu", "gpt_oss", 2, 3, 3000}, MoverCase{"pinned", "deepseek_v3", 2, 2, 5000},
        MoverCase{"cpu", "llama4", 2, 1, 5000}, MoverCase{"cpu", "qwen2_moe", 2, 2, 5000},
        MoverCase{"xpu", "qwen3_moe", 2, 2, 60000}),
    [](const auto& test) {
      return StrCat(test.param.device, "_", test.param.model, "_", test.param.ranks, "_",
                    test.param.redundant);
    });

TEST(MovingExpertsOnADevice, AStepThatFailsLosesNoExpert) {
  constexpr int kSteps = 30;
  TinyExecutor still("qwen3_moe", {.device = "pinned"});
  const std::vector<Drawn> expected = GenerateWithMoves(&still, kSteps, nullptr);
  TinyExecutor moving("qwen3_moe", {.device = "pinned", .ranks = RanksOf("qwen3_moe", 2, 2, 4000)});
  std::mt19937 random(6);
  constexpr int kFailing = 20;
  for (int failing = 0; failing < kFailing; ++failing) {
    WantAnything(&moving.mover->balancer(), random);
    moving.queued().FailOp("norm", 1 + failing % 3);
    PlanBuilder plan(static_cast<uint64_t>(failing) + 1, moving.model->groups().size());
    batch::SamplingParams params;
    plan.Start(0, params, kMoverPrompt)
        .Entry(0, 0, kMoverPrompt, {{static_cast<int>(kMoverPrompt.size()) - 1}});
    EXPECT_FALSE(moving.Run(std::move(plan.plan())).ok());
    ASSERT_TRUE(moving.executor->MoveExperts().ok());
  }
  EXPECT_EQ(GenerateWithMoves(&moving, kSteps, &random, kFailing), expected);
}

// The CPU, with a look at every piece of memory that a copy has changed.
class WatchedDevice : public device::Device {
 public:
  WatchedDevice() : cpu_(OpenTestDevice("cpu")) {}
  std::function<void()> copied;

  const device::DeviceFacts& facts() const override { return cpu_->facts(); }
  const ops::OpTable& ops() const override { return cpu_->ops(); }
  Result<device::MemoryInfo> Memory() const override { return cpu_->Memory(); }
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind) override {
    return cpu_->Allocate(bytes, kind);
  }
  Result<std::unique_ptr<device::Stream>> CreateStream() override { return cpu_->CreateStream(); }
  Result<std::unique_ptr<device::Event>> CreateEvent() override { return cpu_->CreateEvent(); }
  Status Copy(device::Stream& stream, std::span<const device::CopyItem> items) override {
    for (const device::CopyItem& item : items) {
      SLUICE_RETURN_IF_ERROR(cpu_->Copy(stream, {&item, 1}));
      if (copied) copied();
    }
    return OkStatus();
  }
  Result<std::unique_ptr<device::Graph>> Capture(device::Stream& stream, device::Communicator* with,
                                                 const device::CaptureBody& body) override {
    return cpu_->Capture(stream, with, body);
  }

 private:
  const std::unique_ptr<device::Device> cpu_;
};

// A model with slots, and what its experts' bytes are, all parts one behind the other.
struct Watched {
  Watched(const std::string& path, const ExpertRanks& ranks) {
    auto files = files::OpenModel(path).value();
    const model::ModelOptions options{.max_tokens = 16, .expert_slots = ranks.slots()};
    auto plan = model::PlanWeights(files, device, options.activation, 0, options.expert_slots);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    model = std::move(model::LoadModel(files.config, *std::move(plan), device, options).value());
    mover = std::move(ExpertMover::Make(device, *model, ranks).value());
    for (const int layer : mover->balancer().options().layers) {
      for (int expert = 0; expert < ranks.shape.experts; ++expert)
        experts[layer].push_back(BytesOf(layer, expert));
    }
  }

  std::string BytesOf(int layer, int slot) const {
    std::string bytes;
    for (const char* name : {"gate_up", "down", "gate_up_bias", "down_bias"}) {
      const auto* found = model->parameters().Find(StrCat("layers.", layer, ".experts.", name));
      if (found == nullptr) continue;
      for (const weights::SlotMemory& part : weights::SlotMemoryOf(*found)) {
        const device::View view = part.Of(slot, 0, part.slot_bytes);
        bytes.append(reinterpret_cast<const char*>(view.data), view.bytes);
      }
    }
    return bytes;
  }

  // What a step would find now.
  void ExpectRight() const {
    const ops::Tensor& maps = mover->maps();
    const experts::MapShape& shape = mover->balancer().options().shape;
    for (size_t i = 0; i < mover->balancer().options().layers.size(); ++i) {
      const int layer = mover->balancer().options().layers[i];
      const int32_t* row = maps.ptr<int32_t>() + static_cast<int64_t>(i) * maps.strides[0];
      for (int expert = 0; expert < shape.experts; ++expert) {
        ASSERT_LT(row[expert], row[expert + 1]);
        for (int32_t at = row[expert]; at < row[expert + 1]; ++at) {
          const int32_t slot = row[shape.experts + 1 + at];
          ASSERT_EQ(BytesOf(layer, slot), experts.at(layer)[static_cast<size_t>(expert)])
              << "layer " << layer << ", slot " << slot;
        }
      }
    }
  }

  WatchedDevice device;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<ExpertMover> mover;
  std::map<int, std::vector<std::string>> experts;  // by layer and expert
};

class WatchedExperts : public ::testing::TestWithParam<std::string> {};

TEST_P(WatchedExperts, NeverLieWhereTheMapDoesNotSaySo) {
  const std::string path = SourceDir() + "/tests/golden/" + GetParam();
  EngineOptions options;
  options.expert_ranks = 2;
  options.expert_migration_bytes = "3001";
  const files::ModelConfig config = files::OpenModel(path)->config;
  options.redundant_experts = 2 + config.experts.count % 2;
  const auto ranks = ExpertRanksOf(config, options);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  Watched watched(path, *ranks);
  int looks = 0;
  watched.device.copied = [&] {
    ++looks;
    if (!::testing::Test::HasFatalFailure()) watched.ExpectRight();
  };
  const auto stream = watched.device.CreateStream().value();
  experts::Balancer& balancer = watched.mover->balancer();
  const experts::Loads loads(balancer.options().layers, ranks->shape.experts);
  std::mt19937 random(3);
  for (int call = 0; call < 60 || balancer.busy(); ++call) {
    ASSERT_LT(call, 10'000);
    if (call < 60 && call % 20 == 0) WantAnything(&balancer, random);
    if (call % 17 == 16) watched.mover->Lost();
    const uint64_t copies = balancer.totals().copies;
    ASSERT_TRUE(watched.mover->Advance(*stream, loads).ok());
    ASSERT_LE(balancer.totals().copies, copies + balancer.options().layers.size());
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  EXPECT_GT(looks, 15);
  EXPECT_GT(balancer.totals().layers, 1u);
}

INSTANTIATE_TEST_SUITE_P(Models, WatchedExperts,
                         ::testing::Values("models/qwen3_moe", "models/gpt_oss",
                                           "models/deepseek_v3_fp8_e8m0", "gguf/lfm2_moe-F32.gguf"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

TEST(ExpertRanks, OptionsThatDoNotFitAreRefused) {
  const auto config = [](const char* name) {
    return files::OpenModel(SourceDir() + "/tests/golden/models/" + name)->config;
  };
  EngineOptions options;
  EXPECT_EQ(ExpertRanksOf(config("llama"), options)->slots(), 0);
  options.expert_ranks = 2;
  EXPECT_THAT(ExpertRanksOf(config("llama"), options).status().message(),
              HasSubstr("--expert-ranks: the model has no experts"));
  EXPECT_EQ(ExpertRanksOf(config("qwen3_moe"), options)->slots(), 9);
  options.redundant_experts = 3;
  EXPECT_EQ(ExpertRanksOf(config("qwen3_moe"), options).status().field(), "redundant-experts");
  options.redundant_experts = 2;
  options.expert_migration_bytes = "0";
  EXPECT_EQ(ExpertRanksOf(config("qwen3_moe"), options).status().field(), "expert-migration-bytes");
  options.expert_migration_bytes = "1MiB";
  options.expert_balance_interval = "often";
  EXPECT_EQ(ExpertRanksOf(config("qwen3_moe"), options).status().field(),
            "expert-balance-interval");
}

}  // namespace
}  // namespace sluice::exec
