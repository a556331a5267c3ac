#include "server/shared/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "server/fake_engine.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;

class ModelsTest : public ::testing::Test {
 protected:
  // What became of a model: how often it was opened, and its last engine.
  struct Fate {
    int opened = 0;
    Status failure;      // of the next opening
    int64_t bytes = 10;  // that it says it needs
    std::promise<void> ended;
    std::function<void()> on_drain;
  };

  class Engine : public FakeEngine {
   public:
    explicit Engine(Fate* fate) : fate_(fate) {}
    ~Engine() override { fate_->ended.set_value(); }
    Status Drain(double) override {
      if (fate_->on_drain) fate_->on_drain();
      return OkStatus();
    }

   private:
    Fate* const fate_;
  };

  void Make(const std::vector<std::string>& names, Models::Options options = {}) {
    std::vector<ModelToServe> models;
    for (const std::string& name : names) {
      Fate* fate = &fates_[name];
      ModelToServe model;
      model.name = name;
      model.open = [fate]() -> Result<std::unique_ptr<sluice::Engine>> {
        ++fate->opened;
        if (!fate->failure.ok()) return fate->failure;
        fate->ended = {};
        return std::unique_ptr<sluice::Engine>(std::make_unique<Engine>(fate));
      };
      model.need = [fate]() -> Result<int64_t> { return fate->bytes; };
      models.push_back(std::move(model));
    }
    models_ = std::make_unique<Models>(std::move(models), options);
  }

  Result<ModelUse> Load(const std::string& name) {
    std::promise<Result<ModelUse>> told;
    models_->Load(name, [&](Result<ModelUse> use) { told.set_value(std::move(use)); });
    return told.get_future().get();
  }
  Status Unload(const std::string& name) {
    std::promise<Status> told;
    models_->Unload(name, [&](const Status& status) { told.set_value(status); });
    return told.get_future().get();
  }
  ModelState StateOf(const std::string& name) const {
    models_->CheckInvariants();
    for (const ModelReport& report : models_->Report()) {
      if (report.name == name) return report.state;
    }
    return ModelState::kUnloading;
  }

  std::map<std::string, Fate> fates_;
  std::unique_ptr<Models> models_;
};

TEST_F(ModelsTest, NamesAreFoundWithOllamasTagOrWithout) {
  Make({"a", "b:latest", "c:7b"});
  EXPECT_EQ(*models_->Resolve(""), "a");
  EXPECT_EQ(*models_->Resolve("a:latest"), "a");
  EXPECT_EQ(*models_->Resolve("b:latest"), "b:latest");
  EXPECT_EQ(*models_->Resolve("c:7b"), "c:7b");
  const Status status = models_->Resolve("c").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.field(), "model");
  EXPECT_THAT(status.message(), HasSubstr(R"(this server has "a", "b:latest", "c:7b")"));
}

TEST_F(ModelsTest, AModelIsLoadedWhenItIsAskedFor) {
  Make({"a", "b"});
  EXPECT_EQ(StateOf("b"), ModelState::kUnloaded);
  EXPECT_EQ(models_->Find("b").status().code(), StatusCode::kUnavailable);
  std::promise<std::string> told;
  models_->Await("b", [&](const Result<ModelUse>& use) { told.set_value((*use)->facts.name); });
  EXPECT_EQ(told.get_future().get(), "b");
  EXPECT_EQ(StateOf("b"), ModelState::kLoaded);
  EXPECT_TRUE(models_->Find("b").ok());
  EXPECT_EQ(fates_["b"].opened, 1);
  EXPECT_EQ(fates_["a"].opened, 0);
}

TEST_F(ModelsTest, ARequestLoadsNoneWhereThatIsSwitchedOff) {
  Make({"a"}, {.autoload = false});
  Status told;
  models_->Await("a", [&](const Result<ModelUse>& use) { told = use.status(); });
  EXPECT_EQ(told.code(), StatusCode::kUnavailable);
  EXPECT_THAT(told.message(), HasSubstr("POST /v1/models/NAME/load"));
  EXPECT_TRUE(Load("a").ok());
}

// As a profile uses a model: until it is told to end, which it is told again where it was too
// early.
TEST_F(ModelsTest, UnloadingEndsAProfile) {
  Make({"a"}, {.drain_seconds = 3600});
  ModelUse use = *Load("a");
  std::atomic<int> told = 0;
  static_cast<FakeEngine&>(use->engine).on_admin = [&](const std::string& command) {
    EXPECT_THAT(command, HasSubstr("profile_end"));
    ++told;
    return Result<std::string>("{}");
  };
  std::thread profile([&] {
    while (told < 2) std::this_thread::yield();
    use.reset();
  });
  EXPECT_TRUE(Unload("a").ok());
  profile.join();
  EXPECT_EQ(StateOf("a"), ModelState::kUnloaded);
}

TEST_F(ModelsTest, AnEngineEndsWhenNobodyUsesIt) {
  Make({"a"}, {.drain_seconds = 3600});
  ModelUse use = *Load("a");
  std::promise<Status> told;
  models_->Unload("a", [&](const Status& status) { told.set_value(status); });
  std::future<Status> done = told.get_future();
  while (models_->Find("a").ok()) std::this_thread::yield();
  EXPECT_EQ(StateOf("a"), ModelState::kUnloading);
  EXPECT_EQ(use->engine.Info().vocab_size, 256);
  use.reset();
  EXPECT_TRUE(done.get().ok());
  fates_["a"].ended.get_future().get();
  EXPECT_EQ(StateOf("a"), ModelState::kUnloaded);
  EXPECT_TRUE(Unload("a").ok());
  EXPECT_TRUE(Load("a").ok());
  EXPECT_EQ(fates_["a"].opened, 2);
}

TEST_F(ModelsTest, WhatRunsLongerThanItMayIsCancelled) {
  Make({"a"}, {.drain_seconds = 0});
  ModelUse use = *Load("a");
  int drains = 0;
  fates_["a"].on_drain = [&] {
    ++drains;
    use.reset();
  };
  EXPECT_TRUE(Unload("a").ok());
  EXPECT_EQ(drains, 1);
  EXPECT_EQ(StateOf("a"), ModelState::kUnloaded);
}

TEST_F(ModelsTest, WhatIsOverTheBudgetIsRefusedAndTouchesNothing) {
  Make({"a", "b", "c"}, {.budget_bytes = 25});
  fates_["c"].bytes = 26;
  ASSERT_TRUE(Load("a").ok());
  fates_["b"].bytes = 16;
  Status status = Load("b").status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(status.message(),
            "the model \"b\" takes 16 B, but of --memory-budget 25 B only 15 B are left; unload "
            "another model, lower --kv-memory, or raise the budget");
  EXPECT_EQ(fates_["b"].opened, 0);
  EXPECT_EQ(StateOf("a"), ModelState::kLoaded);
  EXPECT_EQ(fates_["a"].opened, 1);
  EXPECT_EQ(models_->Report().at(1).failure.message(), status.message());
  fates_["b"].bytes = 15;
  EXPECT_TRUE(Load("b").ok());
  EXPECT_EQ(models_->Report().at(1).failure.message(), "");
  EXPECT_EQ(StateOf("b"), ModelState::kLoaded);
  // What an unloaded model had is free again.
  EXPECT_EQ(Load("c").status().code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(Unload("b").ok());
  EXPECT_TRUE(Unload("a").ok());
  EXPECT_THAT(Load("c").status().message(), HasSubstr("lower --kv-memory, or raise the budget"));
  fates_["c"].bytes = 25;
  EXPECT_TRUE(Load("c").ok());
}

TEST_F(ModelsTest, AFailureIsToldToAllWhoWait) {
  Make({"a", "b"});
  // The first waits within its load, so that the others come behind it.
  std::promise<void> asked;
  std::shared_future<void> all = asked.get_future().share();
  fates_["a"].failure = Status(StatusCode::kBadModel, "the file is broken");
  std::vector<std::promise<Status>> told(3);
  models_->Load("b", [all](const Result<ModelUse>&) { all.wait(); });
  for (auto& one : told) {
    models_->Load("a", [&one](const Result<ModelUse>& use) { one.set_value(use.status()); });
  }
  asked.set_value();
  for (auto& one : told) EXPECT_EQ(one.get_future().get().message(), "the file is broken");
  EXPECT_EQ(fates_["a"].opened, 1);
  EXPECT_EQ(StateOf("a"), ModelState::kUnloaded);
}

TEST_F(ModelsTest, AModelLeavesWhenNobodyHasAskedForIt) {
  Make({"a"});
  ModelUse use = *Load("a");
  EXPECT_EQ(models_->Report().front().leaves_in_s, -1);
  models_->KeepFor("a", int64_t{3600} * 1'000'000);
  EXPECT_EQ(models_->Report().front().leaves_in_s, 3600);
  std::vector<ModelUse> looks = models_->Loaded();
  models_->KeepFor("a", 0);
  std::future<void> ended = fates_["a"].ended.get_future();
  use.reset();
  EXPECT_EQ(looks.front()->facts.name, "a");  // a look keeps it, too
  looks.clear();
  ended.get();
  EXPECT_EQ(fates_["a"].opened, 1);
  // Loaded anew it stays.
  EXPECT_TRUE(Load("a").ok());
  EXPECT_EQ(models_->Report().front().leaves_in_s, -1);
}

TEST_F(ModelsTest, ALookIsNoUse) {
  Make({"a"});
  { const ModelUse use = *Load("a"); }
  models_->KeepFor("a", 0);
  models_->Loaded();
  EXPECT_EQ(StateOf("a"), ModelState::kLoaded);
}

TEST_F(ModelsTest, WhoWaitsIsToldOfTheEnd) {
  Make({"a", "b"});
  std::promise<void> asked;
  std::shared_future<void> go = asked.get_future().share();
  Status told;
  models_->Load("a", [go](const Result<ModelUse>&) { go.wait(); });
  models_->Load("b", [&](const Result<ModelUse>& use) { told = use.status(); });
  std::thread closing([this] { models_->Close(); });
  // Whoever asks from then on is refused at once.
  const auto closed = std::make_shared<std::atomic<bool>>(false);
  for (; !*closed; std::this_thread::yield()) {
    models_->Load("b", [closed](const Result<ModelUse>& use) {
      if (use.status().code() == StatusCode::kUnavailable) *closed = true;
    });
  }
  asked.set_value();
  closing.join();
  EXPECT_EQ(told.code(), StatusCode::kUnavailable);
  EXPECT_EQ(fates_["b"].opened, 0);
}

TEST_F(ModelsTest, TheCallersModelStays) {
  FakeEngine engine;
  Models models(engine);
  Status told;
  models.Unload("tiny", [&](const Status& status) { told = status; });
  EXPECT_EQ(told.code(), StatusCode::kFailedPrecondition);
  models.KeepFor("tiny", 0);
  EXPECT_EQ((*models.Find("tiny"))->facts.vocab_size, 256);
  EXPECT_TRUE(models.Find("tiny").ok());
}

}  // namespace
}  // namespace sluice::server
