// Drafts of a second model: requests of every kind get the answers that they get without, beside
// others, in any chunks, from the prefix cache and through preemption. Whether the draft's KV is
// what it should be shows where the draft is the model itself: then no greedy draft is wrong.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/str_cat.h"
#include "engine/device_drafts_fixture.h"
#include "files/draft_cut.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

std::string ModelFolder(const std::string& name) { return TinyOptions(name).model; }

EngineOptions DraftModelOptions(int drafts, const std::string& model = "qwen3",
                                const std::string& draft = "qwen3") {
  EngineOptions options = TinyOptions(model);
  options.speculate = drafts > 0 ? "model" : "none";
  if (drafts > 0) options.draft_model = ModelFolder(draft);
  options.speculate_tokens = std::max(1, drafts);
  options.speculate_adapt = false;  // what pays is a matter of time
  return options;
}

// Of the sample with this label.
double ValueWith(const Engine& engine, const std::string& name, const std::string& label) {
  std::istringstream text(engine.Metrics());
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(name + "{") && line.find(label) != std::string::npos)
      return std::stod(line.substr(line.rfind(' ')));
  }
  return -1;
}

class DraftModel : public DeviceDraftsTest {
 protected:
  DraftModel() : DeviceDraftsTest(DraftModelOptions(0)) {}
};
class DraftModelBesideWindows : public DeviceDraftsTest {
 protected:
  DraftModelBesideWindows() : DeviceDraftsTest(DraftModelOptions(0, "gemma3")) {}
};

// Greedy requests of many lengths at once, some of which share beginnings; a round later they find
// them in the cache.
Usage AskGreedily(Engine& engine) {
  Usage sum;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<Answer>> answers;
    for (int i = 0; i < 12; ++i) {
      std::vector<int32_t> prompt = RandomPrompt(1 + i * 29 % 60, 200 + i / 3);
      Request request = TinyRequest(std::move(prompt), 10 + i * 17 % 40);
      if (i % 4 == 1) request.n = 2;
      auto [answer, sink] = Answer::Make();
      EXPECT_TRUE(engine.Submit(std::move(request), sink).ok());
      answers.push_back(answer);
    }
    for (const auto& answer : answers) {
      answer->Wait();
      EXPECT_TRUE(answer->error.ok()) << answer->error.message();
      sum.accepted_tokens += answer->usage.accepted_tokens;
      sum.rejected_tokens += answer->usage.rejected_tokens;
      sum.completion_tokens += answer->usage.completion_tokens;
    }
  }
  ExpectNothingLeft(engine);
  return sum;
}

void ExpectAllRight(const EngineOptions& options) {
  const auto engine = OpenTiny(options);
  const Usage usage = AskGreedily(*engine);
  EXPECT_EQ(usage.rejected_tokens, 0) << "of " << usage.accepted_tokens;
  EXPECT_GT(usage.accepted_tokens, usage.completion_tokens / 3);
}

TEST_F(DraftModel, RequestsOfEveryKindGetTheSameAnswer) {
  for (const int drafts : {1, 3, 8}) {
    const auto engine = OpenTiny(DraftModelOptions(drafts));
    ExpectSame(*engine);
    EXPECT_GT(Accepted(*engine), 50) << drafts;
    EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  }
}

TEST_F(DraftModel, OneThatIsOftenWrongChangesNothing) {
  for (const char* const draft : {"qwen2", "gemma3", "smollm3"}) {
    const auto engine = OpenTiny(DraftModelOptions(3, "qwen3", draft));
    ExpectSame(*engine);
    EXPECT_GT(Metric(*engine, "vllm:spec_decode_num_draft_tokens_total"), 50) << draft;
  }
}

// A draft whose vocabulary is cut guesses what is left of it, by the model's ids.
TEST_F(DraftModel, OneWithACutVocabularyChangesNothing) {
  const std::string out = ::testing::TempDir() + "/sluice_cut_draft";
  const auto source = files::OpenDraftSource(ModelFolder("qwen3"));
  ASSERT_TRUE(source.ok()) << source.status().message();
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < 128; ++row) {
    if (row % 5 != 1) rows.push_back(row);
  }
  ASSERT_TRUE(files::WriteCutDraft(*source, rows, out, /*replace=*/true).ok());
  EngineOptions options = DraftModelOptions(3);
  options.draft_model = out;
  const auto engine = OpenTiny(options);
  ExpectSame(*engine);
  EXPECT_GT(Accepted(*engine), 50);
  std::filesystem::remove_all(out);
}

TEST_F(DraftModel, AsManyAsPayChangeNothing) { ExpectSameAsManyAsPay(DraftModelOptions(8)); }

TEST_F(DraftModel, ChunksChangeNothing) { ExpectSameInChunks(DraftModelOptions(3)); }

EngineOptions Tight(int drafts) {
  EngineOptions options = DraftModelOptions(drafts);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string tight = std::to_string(OpenTiny(options)->Info().kv_bytes * 5 / 4) + "B";
  options = DraftModelOptions(drafts);
  options.kv_memory = tight;
  return options;
}

TEST_F(DraftModel, PreemptionChangesNothing) {
  const auto engine = OpenTiny(Tight(3));
  ExpectSame(*engine);
  EXPECT_GT(Metric(*engine, "vllm:num_preemptions_total"), 0) << "the test shows nothing";
  EXPECT_GT(Accepted(*engine), 10);
}

TEST_F(DraftModelBesideWindows, RequestsOfEveryKindGetTheSameAnswer) {
  for (const char* const draft : {"gemma3", "qwen2"}) {
    const auto engine = OpenTiny(DraftModelOptions(3, "gemma3", draft));
    ExpectSame(*engine);
  }
}

TEST(DraftModelOfItself, NoGreedyDraftIsWrong) {
  for (const int drafts : {1, 2, 5, 8}) ExpectAllRight(DraftModelOptions(drafts));
}

TEST(DraftModelOfItself, NoGreedyDraftIsWrongInChunks) {
  for (const int tokens : {8, 19}) {
    EngineOptions options = DraftModelOptions(4);
    options.max_batch_tokens = tokens;
    ExpectAllRight(options);
  }
}

TEST(DraftModelOfItself, NoGreedyDraftIsWrongThroughPreemption) { ExpectAllRight(Tight(4)); }

TEST(DraftModelOfItself, NoGreedyDraftIsWrongBesideWindows) {
  ExpectAllRight(DraftModelOptions(4, "gemma3", "gemma3"));
}

// Each family by what answers tell of themselves.
TEST(DraftMetrics, CountWhatAnswersCount) {
  const std::string prefix = "vllm:spec_decode_num_";
  for (const char* const proposer : {"none", "model", "ngram"}) {
    EngineOptions options =
        DraftModelOptions(std::string(proposer) == "model" ? 3 : 0, "qwen3", "qwen3");
    options.speculate = proposer;
    options.speculate_tokens = 3;
    options.draft_wait_us = 10'000'000;
    const auto engine = OpenTiny(options);
    Usage sum;
    for (int i = 0; i < 6; ++i) {
      std::vector<int32_t> prompt = {20, 33, 46, 20, 33, 46, 20 + i};
      Request request = TinyRequest(std::move(prompt), 30);
      if (i % 2 == 1) request.sampling.temperature = 0.7, request.sampling.seed = 10 + i;
      const Usage usage = Ask(*engine, request)->usage;
      sum.accepted_tokens += usage.accepted_tokens;
      sum.rejected_tokens += usage.rejected_tokens;
    }
    Settle(*engine);
    const bool drafts = proposer != std::string("none");
    const int drafted = sum.accepted_tokens + sum.rejected_tokens;
    EXPECT_EQ(drafted > 0, drafts) << proposer;
    EXPECT_EQ(Metric(*engine, prefix + "draft_tokens_total"), drafted) << proposer;
    EXPECT_EQ(Metric(*engine, prefix + "accepted_tokens_total"), sum.accepted_tokens) << proposer;
    double accepted = 0, before = 1e9;
    for (int place = 0; place < limits::kDraftTokensMax; ++place) {
      const std::string label = StrCat("position=\"", place, "\"");
      const double here = ValueWith(*engine, prefix + "accepted_tokens_per_pos_total", label);
      EXPECT_LE(here, before) << proposer << ", " << place;
      EXPECT_TRUE(here >= 0 && (place < 3 || here == 0)) << proposer << ", " << place;
      accepted += here;
      before = here;
    }
    EXPECT_EQ(accepted, sum.accepted_tokens) << proposer;
    const double times = Metric(*engine, prefix + "drafts_total");
    EXPECT_LE(drafted, 3 * times) << proposer;
    EXPECT_GE(drafted, times) << proposer;
    EXPECT_EQ(Metric(*engine, "sluice_drafting_seconds_total") > 0, drafts) << proposer;
  }
}

TEST(DraftModelOpen, ItTakesMemoryOfThePlan) {
  EngineOptions options = DraftModelOptions(0);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const EngineInfo without = OpenTiny(options)->Info();
  options.speculate = "auto";  // which a model that is named decides
  options.draft_model = ModelFolder("qwen3");
  const EngineInfo with = OpenTiny(options)->Info();
  EXPECT_EQ(with.weight_bytes, 2 * without.weight_bytes);
  EXPECT_EQ(with.kv_bytes, 2 * without.kv_bytes);
  EXPECT_EQ(with.kv_blocks, without.kv_blocks);
}

Status OpenWith(const EngineOptions& options) { return Engine::Open(options, {}).status(); }

TEST(DraftModelOpen, WhatCannotWorkIsRefused) {
  EngineOptions options = DraftModelOptions(2);
  options.draft_model.clear();
  ExpectRefused(options, "speculate", "name it with --draft-model");
  options = DraftModelOptions(2);
  options.speculate = "ngram";
  ExpectRefused(options, "draft-model", "of no use with --speculate ngram");
  ExpectRefused(DraftModelOptions(2, "qwen3", "no_such_model"), "draft-model", "no_such_model");
  ExpectRefused(DraftModelOptions(2, "qwen3", "llama"), "draft-model",
                "it has 320 tokens, not 128");
  ExpectRefused(DraftModelOptions(2, "qwen3", "qwen3_next"), "draft-model", "has recurrent layers");
  ExpectRefused(DraftModelOptions(2, "qwen3_next", "qwen3"), "draft-model", "has recurrent layers");
  ExpectRefused(DraftModelOptions(2, "phi3_window", "phi3"), "draft-model", "have windows");
}

TEST(DraftModelOpen, OneThatDoesNotFitIsNamed) {
  EngineOptions options = DraftModelOptions(0);
  options.max_num_seqs = 1;
  options.kv_memory.clear();
  const std::string just = std::to_string(OpenTiny(options)->Info().kv_bytes) + "B";
  options = DraftModelOptions(2);
  options.max_num_seqs = 1;
  options.kv_memory = just;
  const Status status = OpenWith(options);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("or leave --draft-model out"));
}

// The same size, another token.
TEST(DraftModelOpen, TheFirstTokenThatDiffersIsNamed) {
  namespace fs = std::filesystem;
  const fs::path copy = fs::path(::testing::TempDir()) / "sluice_draft_vocabulary";
  fs::remove_all(copy);
  fs::copy(ModelFolder("qwen3"), copy, fs::copy_options::recursive);
  std::ifstream in(copy / "tokenizer.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  in.close();
  const size_t place = text.find("\"!\":6");
  ASSERT_NE(place, std::string::npos);
  text.replace(place, 5, "\"?!\":6");
  fs::permissions(copy / "tokenizer.json", fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(copy / "tokenizer.json") << text;
  EngineOptions options = DraftModelOptions(2);
  options.draft_model = copy.string();
  ExpectRefused(options, "draft-model",
                "is not that of the model: token 6 is \"?!\" there and \"!\" here");
  fs::remove_all(copy);
}

}  // namespace
}  // namespace sluice::engine
