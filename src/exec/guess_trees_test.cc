// Trees that a head guesses on the device: the nodes are those of the reference
// (tools/golden/eagle_trees.py), and behind a step that verified a tree they are those that the
// same text gets token by token, whichever branch was right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "batch/draft_tree.h"
#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

using batch::GuessedToken;
using batch::RowPurpose;
using batch::StepResult;

Json Golden(const std::string& name) {
  const std::string path = SourceDir() + "/tests/golden/drafts/eagle3/" + name;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return *ParseJson(text.str(), path);
}

class GuessTrees : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("xpu")) {
      const auto resolved = device::ResolveDevice("xpu", device::LinkedBackends());
      if (!resolved.ok()) GTEST_SKIP() << "no device: " << resolved.status().message();
    }
    depths_ = guesses_ = Golden("tree.json")["depths"].get<int>();
    prompt_ = Golden("expected.json")["prompt"].get<std::vector<int32_t>>();
    tiny_.emplace("../drafts/target",
                  TinyOptions{.device = GetParam(), .kv_dtype = DType::kF32, .draft_trees = true});
    files_ = files::OpenEagle(SourceDir() + "/tests/golden/drafts/eagle3").value();
    model::ModelOptions options =
        model::EagleHead::OptionsFor(tiny_->model->options(), files_.config.form);
    weights::WeightPlan plan =
        model::EagleHead::PlanWeights(files_, *tiny_->device, options.activation).value();
    head_ = std::move(model::EagleHead::Load(files_.config, std::move(plan), *tiny_->device,
                                             options, *tiny_->model)
                          .value());
    std::vector<batch::KvGroup> groups = head_->groups();
    groups.front().num_blocks = tiny_->store->groups()[0].num_blocks;
    store_ = std::move(kvstore::KvStore::Make(*tiny_->device, groups).value());
    tiny_->executor.reset();
    auto executor = Executor::Make(*tiny_->device, *tiny_->model, *tiny_->store,
                                   {.max_num_seqs = kTestSlots,
                                    .depth = 2,
                                    .draft_tokens = depths_,
                                    .eagle_head = head_.get(),
                                    .draft_store = store_.get(),
                                    .guess_trees = true});
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    tiny_->executor = std::move(executor).value();
  }

  // A step of a sequence, behind which it guesses. `parents`: of its last tokens; empty: it draws
  // behind the last one.
  StepResult Run(int slot, int first, const std::vector<int32_t>& tokens,
                 const std::vector<int32_t>& parents = {}) {
    const int drafts = static_cast<int>(parents.size());
    const int root = static_cast<int>(tokens.size()) - 1 - drafts;
    std::vector<TestRow> rows = {{root}};
    if (drafts > 0) rows.clear();
    for (int i = 0; drafts > 0 && i <= drafts; ++i) {
      const auto next = std::find(parents.begin(), parents.end(), i) - parents.begin();
      rows.push_back({root + i, RowPurpose::kVerify,
                      next < drafts ? tokens[static_cast<size_t>(root + 1 + next)] : -1});
    }
    PlanBuilder plan(++step_, 1);
    // Tables have room for what is guessed.
    const size_t room = static_cast<size_t>(depths_ + tiny_->executor->Info().draft_spare);
    std::vector<int32_t> with_room = tokens;
    with_room.resize(tokens.size() + room, 3);
    plan.Entry(slot, first, with_room, rows);
    plan.plan().tokens.resize(tokens.size());
    plan.plan().entries.back().query_tokens = static_cast<int32_t>(tokens.size());
    if (drafts > 0) plan.Tree(parents);
    if (first == 0) plan.Start(slot, {.temperature = 0.0f}, tokens);
    plan.plan().entries.back().guesses = plan.plan().guesses = guesses_;
    auto result = tiny_->Run(std::move(plan.plan()));
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *std::move(result) : StepResult();
  }

  std::optional<TinyExecutor> tiny_;
  files::EagleFiles files_;
  std::unique_ptr<model::EagleHead> head_;
  std::unique_ptr<kvstore::KvStore> store_;
  std::vector<int32_t> prompt_;
  int depths_ = 0, guesses_ = 0;  // the latter of each step
  uint64_t step_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Devices, GuessTrees, ::testing::Values("cpu", "pinned", "xpu"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(GuessTrees, NodesAreThoseOfTheReference) {
  const Json expected = Golden("tree.json")["nodes"];
  const StepResult result = Run(1, 0, prompt_);
  ASSERT_EQ(result.entries.size(), 1u);
  ASSERT_EQ(result.guesses.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(result.guesses[i].id, expected[i][0].get<int>()) << i;
    EXPECT_EQ(result.guesses[i].parent, expected[i][1].get<int>()) << i;
    EXPECT_NEAR(result.guesses[i].logprob, expected[i][2].get<float>(), 1e-4) << i;
  }
}

TEST_P(GuessTrees, BehindATreeTheyAreThoseOfTheSameText) {
  // Token by token, with what is guessed behind each.
  std::vector<int32_t> text = prompt_;
  std::map<size_t, std::vector<GuessedToken>> guessed;  // by the text's length
  for (int step = 0; step < 14; ++step) {
    const bool first = step == 0;
    const StepResult result = Run(0, first ? 0 : static_cast<int>(text.size()) - 1,
                                  first ? text : std::vector<int32_t>{text.back()});
    ASSERT_EQ(result.tokens.size(), 1u);
    text.push_back(result.tokens[0].id);
    guessed[text.size()] = result.guesses;
  }
  // In trees whose right branches begin at each of their first places, with what is computed again.
  int aside = 0, slot = 1;
  for (const std::vector<int32_t>& parents :
       {std::vector<int32_t>{0, 0, 2, 3}, {0, 1, 1, 3, 4}, {0, 1, 0, 3, 4, 3}}) {
    StepResult result = Run(slot, 0, prompt_);
    size_t known = prompt_.size() + result.tokens.size();
    int again = 0;
    while (known + parents.size() < text.size()) {
      // The last branch of the tree is right.
      std::vector<int32_t> branch, tokens(parents.size());
      for (auto at = static_cast<int32_t>(parents.size()); at > 0; at = parents[at - 1])
        branch.insert(branch.begin(), at);
      const batch::DraftDepths depths = batch::Depths(parents);
      for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = (text[known + static_cast<size_t>(depths[i + 1]) - 1] + 1) % 128;
      for (size_t i = 0; i < branch.size(); ++i) tokens[branch[i] - 1] = text[known + i];
      std::vector<int32_t> query(text.begin() + static_cast<int64_t>(known) - 1 - again,
                                 text.begin() + static_cast<int64_t>(known));
      query.insert(query.end(), tokens.begin(), tokens.end());
      result = Run(slot, static_cast<int>(known) - 1 - again, query, parents);
      ASSERT_EQ(result.entries.size(), 1u);
      known += result.tokens.size();
      EXPECT_EQ(result.tokens.back().id, text[known - 1]);
      EXPECT_GT(result.tokens.size(), branch.size());
      aside += again = result.entries[0].aside;
      EXPECT_EQ(result.guesses, guessed[known]) << known;
    }
    slot = slot % (kTestSlots - 1) + 1;
  }
  EXPECT_GT(aside, 5) << "the test shows little";
}

// What its nodes come to the host by was once made in the first steps that guessed, and again where
// more sequences did.
TEST_P(GuessTrees, AStepAsksTheDeviceForNoMemory) {
  if (GetParam() != std::string("pinned")) GTEST_SKIP() << "of a device that counts";
  guesses_ = 0;  // what every step comes by is made in the first one
  Run(0, 0, prompt_);
  guesses_ = depths_;
  const int64_t before = tiny_->queued().counts().allocations;
  for (int slot = 0; slot < kTestSlots; ++slot) Run(slot, 0, prompt_);
  Run(1, static_cast<int>(prompt_.size()), {7, 8, 9, 10}, {0, 0, 2});
  EXPECT_EQ(tiny_->queued().counts().allocations, before);
}

TEST_P(GuessTrees, AStepIsTwoReplays) {
  if (GetParam() != std::string("pinned")) GTEST_SKIP() << "of a device with graphs";
  Run(1, 0, prompt_);
  for (int step = 0; step < 4; ++step) {
    const int64_t before = tiny_->queued().counts().replays;
    Run(1, static_cast<int>(prompt_.size()), {7, 8, 9, 10}, {0, 0, 2});
    EXPECT_EQ(tiny_->queued().counts().replays - before, step > 0 ? 2 : 0) << step;
  }
}

}  // namespace
}  // namespace sluice::exec
