// The engine behind the public header, over a tiny checkpoint: lives of requests from Submit to
// their last event.
#include "sluice/engine.h"

#include <atomic>
#include <future>
#include <new>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

TEST(EngineOpen, ExpertsInFakedBalanceAreToldAndAskForExperts) {
  EngineOptions options = TinyOptions("qwen3_moe");
  options.fake_balance_experts = true;
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_TRUE(engine->Info().fake_balance_experts);
  EXPECT_THAT(engine->Info().kernels, HasSubstr("fake_balance_experts"));
  const auto answer = Ask(*engine, TinyRequest({1, 5, 9}, 4));
  EXPECT_EQ(answer->usage.completion_tokens, 4) << answer->error.message();
  options = TinyOptions();
  options.fake_balance_experts = true;
  const Status status = Engine::Open(options, {}).status();
  EXPECT_EQ(status.field(), "fake-balance-experts");
  EXPECT_THAT(status.message(), HasSubstr("the model has no experts"));
}

TEST(EngineOpen, OptionsOutOfRangeAreRefusedByName) {
  const std::vector<std::pair<int EngineOptions::*, std::string>> fields = {
      {&EngineOptions::text_workers, "text-workers"},
      {&EngineOptions::max_num_seqs, "max-num-seqs"},
      {&EngineOptions::max_batch_tokens, "max-batch-tokens"},
      {&EngineOptions::block_size, "block-size"},
      {&EngineOptions::state_block, "state-block"},
      {&EngineOptions::max_queue, "max-queue"}};
  for (const auto& [field, flag] : fields) {
    for (const int value : {0, -1}) {
      EngineOptions options = TinyOptions();
      options.*field = value;
      const Status status = Engine::Open(options, {}).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << flag;
      EXPECT_EQ(status.field(), flag);
    }
  }
}

TEST(EngineOpen, OffIsAnotherWordForNoDrafts) {
  EngineOptions options = TinyOptions();
  options.speculate_synthetic = 0.5;
  for (const char* const word : {"none", "off"}) {
    options.speculate = word;
    const Status status = Engine::Open(options, {}).status();
    EXPECT_EQ(status.field(), "speculate-synthetic") << word;
    EXPECT_THAT(status.message(), HasSubstr("there are none")) << word;
  }
}

TEST(EngineOpen, ErrorsOnTheWayAreErrorsAndNotCrashes) {
  EngineOptions options = TinyOptions();
  options.model = "/does/not/exist";
  EXPECT_EQ(Engine::Open(options, {}).status().code(), StatusCode::kNotFound);
  options = TinyOptions();
  options.kv_memory = "1KiB";
  EXPECT_EQ(Engine::Open(options, {}).status().code(), StatusCode::kOutOfMemory);
  options = TinyOptions();
  options.scheduler_policy = "best";
  EXPECT_EQ(Engine::Open(options, {}).status().code(), StatusCode::kInvalidArgument);
  options = TinyOptions();
  options.max_batch_tokens = 4;  // below max_num_seqs
  EXPECT_EQ(Engine::Open(options, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(EngineOpen, AStateBlockThatIsNoPowerOfTwoOrFitsNoBlocksIsRefused) {
  for (const int tokens : {24, 4}) {  // the second is half a cache block
    EngineOptions options = TinyOptions("qwen3_next");
    options.state_block = tokens;
    const Status status = Engine::Open(options, {}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << tokens;
    EXPECT_EQ(status.field(), "state-block") << tokens;
  }
}

TEST(EngineOpen, TellsMemoryWithItsShareAndTheKernelOfEveryOp) {
  EngineOptions options = TinyOptions();
  options.kv_dtype = "auto";  // F32, as the weights
  const EngineInfo info = OpenTiny(options)->Info();
  EXPECT_THAT(info.memory,
              ::testing::MatchesRegex(
                  "weights .*, KV cache up to .* in F32, buffers of a step .*: [0-9]+ % "
                  "of the .* that were free"));
  for (const char* op :
       {"embedding", "norm", "linear", "rope_kv", "attention", "gated_activation", "sample"}) {
    EXPECT_THAT(info.kernels, HasSubstr(op));
  }
  std::stringstream names(info.kernels);
  std::set<std::string> told;
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    EXPECT_TRUE(told.insert(name).second) << name << " stands twice in " << info.kernels;
  }
  options.model = "synthetic:tiny:bf16";
  EXPECT_THAT(OpenTiny(options)->Info().memory, ::testing::Not(HasSubstr("in F32")));
}

TEST(Engine, AModelWithoutFilesAnswersIdsAndText) {
  EngineOptions options = TinyOptions();
  std::map<std::string, std::vector<int32_t>> answers;
  for (const std::string model :
       {"synthetic:tiny:bf16", "synthetic:tiny:f16", "synthetic:tiny:fp8", "synthetic:tiny"}) {
    options.model = model;
    const auto engine = OpenTiny(options);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->Info().model_name, model);
    EXPECT_FALSE(engine->Info().has_chat_template);
    const auto answer = Ask(*engine, TinyRequest(kPrompt, 10));
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    answers[model] = answer->choices[0].ids;
    EXPECT_EQ(answers[model].size(), 10u);
    EXPECT_GT(std::set<int32_t>(answers[model].begin(), answers[model].end()).size(), 2u);
    const auto ids = engine->Tokenize("h\xc3\xa9", true, true);
    ASSERT_TRUE(ids.ok());
    EXPECT_THAT(*ids, ::testing::ElementsAre(0x68, 0xc3, 0xa9));
    EXPECT_EQ(*engine->Detokenize({0x68, 0xc3, 0xa9, 300}, true), "h\xc3\xa9<300>");
    const std::atomic<bool> cancelled = true;
    EXPECT_EQ(engine->Tokenize("h", true, true, &cancelled).status().code(),
              StatusCode::kCancelled);
    EXPECT_EQ(engine->Detokenize(*ids, true, &cancelled).status().code(), StatusCode::kCancelled);
    EXPECT_EQ(engine->RenderChat({}, "", &cancelled).status().code(), StatusCode::kCancelled);
    Request text = TinyRequest({}, 4);
    text.prompt = std::string("h\xc3\xa9");
    EXPECT_EQ(Ask(*engine, text)->choices[0].ids,
              Ask(*engine, TinyRequest(*ids, 4))->choices[0].ids);
  }
  EXPECT_EQ(answers["synthetic:tiny"], answers["synthetic:tiny:bf16"]);
  options.model = "synthetic:tiny:q9";
  EXPECT_EQ(Engine::Open(options, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Engine, IdsWhoseTextIsTooLongAreRefused) {
  EngineOptions options = TinyOptions();
  options.model = "synthetic:tiny";
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  const std::vector<int32_t> ids((16u << 20) / std::string("<300>").size() + 1, 300);
  EXPECT_EQ(engine->Detokenize(ids, true).status().code(), StatusCode::kInvalidArgument);
}

TEST(Engine, AnswersArriveOnceAndInFull) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest(kPrompt, 10);
  request.logprobs = 2;
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  EXPECT_EQ(answer->lasts, 1);
  EXPECT_EQ(answer->choices.size(), 1u);
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kLength);
  EXPECT_EQ(answer->choices[0].finishes, 1);
  EXPECT_EQ(answer->choices[0].ids.size(), 10u);
  EXPECT_EQ(answer->choices[0].logprobs.size(), 10u);
  EXPECT_EQ(answer->usage.prompt_tokens, 12);
  EXPECT_EQ(answer->usage.completion_tokens, 10);
  EXPECT_EQ(answer->usage.cached_tokens, 0);
  EXPECT_GE(answer->usage.queue_ms, 0.0);
  EXPECT_GT(answer->usage.prefill_ms, 0.0);
  EXPECT_GT(answer->usage.decode_ms, 0.0);
  ExpectNothingLeft(*engine);
}

TEST(Engine, ThePromptsIdsAreToldOnceWhereTheyAreAskedFor) {
  const auto engine = OpenTiny(TinyOptions());
  for (const bool asked : {true, false}) {
    Request request = TinyRequest({3, 75, 65}, 4);
    request.n = 2;
    request.prompt_ids = asked;
    std::vector<std::vector<int32_t>> told;
    std::promise<void> ended;
    ASSERT_TRUE(engine
                    ->Submit(std::move(request),
                             [&](TextDelta&& delta) {
                               if (!delta.prompt_ids.empty()) told.push_back(delta.prompt_ids);
                               if (delta.last) ended.set_value();
                             })
                    .ok());
    ended.get_future().wait();
    using Ids = std::vector<int32_t>;
    EXPECT_EQ(told, asked ? std::vector<Ids>({{3, 75, 65}}) : std::vector<Ids>());
  }
}

TEST(Engine, WithoutAMaximumTheContextIsFilled) {
  for (const std::string model : {"llama", "gemma2", "phi3_window"}) {
    EngineOptions options = TinyOptions(model);
    options.max_model_len = 64;
    options.max_num_seqs = 1;
    options.kv_memory.clear();  // room for one sequence
    const auto engine = OpenTiny(options);
    Request request = TinyRequest({3, 75, 65, 67, 109}, 0);
    request.max_tokens.reset();
    const auto answer = Ask(*engine, request);
    EXPECT_TRUE(answer->error.ok()) << answer->error.message();
    EXPECT_EQ(answer->choices[0].finish, FinishReason::kLength);
    EXPECT_EQ(answer->choices[0].ids.size(), 59u) << model;
    ExpectNothingLeft(*engine);
  }
}

// A prompt of more than half of the context, in chunks, and an answer to its very end.
TEST(Engine, ALongPromptAndAnswerEndWithTheModelsContext) {
  for (const std::string kv : {"f16", "fp8", "int8"}) {
    std::vector<int32_t> ids;
    for (const int chunk : {256, 50}) {
      EngineOptions options = TinyOptions();
      options.max_model_len = 0;  // all that the model declares
      options.max_num_seqs = 2;
      options.max_batch_tokens = chunk;
      options.kv_dtype = kv;
      const auto engine = OpenTiny(options);
      const int declared = engine->Info().max_model_len;
      ASSERT_EQ(declared, 256);
      std::vector<int32_t> prompt;
      for (int i = 0; i < declared / 2 + 13; ++i) prompt.push_back(3 + i * 37 % 120);
      Request request = TinyRequest(prompt, 1 << 20);
      const auto answer = Ask(*engine, request);
      EXPECT_TRUE(answer->error.ok()) << answer->error.message();
      EXPECT_EQ(answer->choices[0].finish, FinishReason::kLength);
      EXPECT_EQ(answer->choices[0].ids.size() + prompt.size(), static_cast<size_t>(declared));
      if (chunk == 256) ids = answer->choices[0].ids;
      EXPECT_EQ(answer->choices[0].ids, ids) << kv;
      ExpectNothingLeft(*engine);
    }
  }
}

TEST(Engine, AStopStringEndsTheAnswerBeforeIt) {
  const auto engine = OpenTiny(TinyOptions());
  const std::string whole = Ask(*engine, TinyRequest(kPrompt, 60))->choices[0].text;
  const auto boundary = [&](size_t at) {
    while (at < whole.size() && (whole[at] & 0xc0) == 0x80) ++at;
    return at;
  };
  const size_t begin = boundary(whole.size() / 3);
  const std::string stop = whole.substr(begin, boundary(begin + 4) - begin);
  ASSERT_FALSE(stop.empty());
  Request request = TinyRequest(kPrompt, 60);
  request.stop = {"this does not come", stop};
  auto answer = Ask(*engine, request);
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kStop);
  EXPECT_EQ(answer->choices[0].text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(answer->choices[0].stop_match, stop);
  EXPECT_EQ(answer->choices[0].finishes, 1);
  EXPECT_LT(answer->usage.completion_tokens, 60);
  request.include_stop = true;
  answer = Ask(*engine, request);
  EXPECT_EQ(answer->choices[0].text, whole.substr(0, whole.find(stop) + stop.size()));
  ExpectNothingLeft(*engine);
}

TEST(Engine, AStopStringEndsNothingBeforeMinTokens) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest(kPrompt, 60);
  request.min_tokens = 20;
  const auto whole = Ask(*engine, request);
  for (const unsigned char c : whole->choices[0].text.substr(0, 8)) {
    if (c < 0x80) request.stop.emplace_back(1, static_cast<char>(c));
  }
  ASSERT_FALSE(request.stop.empty());
  const auto answer = Ask(*engine, request);
  EXPECT_GE(answer->usage.completion_tokens, 20);
  request.min_tokens = 0;
  EXPECT_LT(Ask(*engine, request)->usage.completion_tokens, 20);
  ExpectNothingLeft(*engine);
}

TEST(Engine, ARequestThatFailsEndsAloneAndSaysWhetherMemoryWasShort) {
  const auto engine = OpenTiny(TinyOptions());
  std::promise<TextDelta> ends[2];
  int calls[2] = {};
  for (const bool memory : {true, false}) {
    const auto id = engine->Submit(TinyRequest(kPrompt, 60), [&, memory](TextDelta&& delta) {
      if (++calls[memory] == 1 && memory) throw std::bad_alloc();
      if (calls[memory] == 1) throw std::out_of_range("a mistake");
      if (delta.last) ends[memory].set_value(std::move(delta));
    });
    ASSERT_TRUE(id.ok());
    const TextDelta last = ends[memory].get_future().get();
    EXPECT_EQ(last.finish, FinishReason::kError);
    EXPECT_EQ(last.error.code(), memory ? StatusCode::kOutOfMemory : StatusCode::kInternal);
  }
  EXPECT_EQ(Ask(*engine, TinyRequest(kPrompt, 5))->usage.completion_tokens, 5);
  EXPECT_TRUE(engine->Drain(60).ok());
  ExpectNothingLeft(*engine);
}

TEST(Engine, AStopTokenEndsTheAnswerBeforeIt) {
  const auto engine = OpenTiny(TinyOptions());
  const std::vector<int32_t> ids = Ask(*engine, TinyRequest(kPrompt, 20))->choices[0].ids;
  Request request = TinyRequest(kPrompt, 20);
  request.stop_token_ids = {ids[7]};
  const size_t first = std::find(ids.begin(), ids.end(), ids[7]) - ids.begin();
  auto answer = Ask(*engine, request);
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kStop);
  EXPECT_EQ(answer->choices[0].ids.size(), first + 1);
  // ... but not before min_tokens of them were drawn.
  request.min_tokens = static_cast<int>(first) + 2;
  answer = Ask(*engine, request);
  EXPECT_GE(answer->choices[0].ids.size(), first + 2);
}

TEST(Engine, ChoicesDifferAndAreReproducedByTheirSeed) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest(kPrompt, 12);
  request.sampling.temperature = 1.0;
  request.n = 4;
  request.logprobs = 0;
  const auto first = Ask(*engine, request);
  ASSERT_EQ(first->choices.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(first->choices[i].finishes, 1);
    EXPECT_EQ(first->choices[i].ids.size(), 12u);
    for (int j = 0; j < i; ++j) EXPECT_NE(first->choices[i].ids, first->choices[j].ids);
  }
  EXPECT_EQ(first->lasts, 1);
  EXPECT_EQ(first->usage.completion_tokens, 48);
  EXPECT_NE(first->seed, 0u);
  request.sampling.seed = first->seed;  // one that was drawn is as good as one that was given
  const auto again = Ask(*engine, request);
  EXPECT_EQ(again->choices, first->choices);
  request.n = 1;
  EXPECT_EQ(Ask(*engine, request)->choices[0], first->choices[0]);
  request.sampling.seed = first->seed + 1;
  EXPECT_NE(Ask(*engine, request)->choices[0].ids, first->choices[0].ids);
  ExpectNothingLeft(*engine);
}

TEST(Engine, MaxTokensZeroScoresThePromptAlone) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest(kPrompt, 0);
  request.prompt_logprobs = 1;
  request.prompt_loss = true;
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  EXPECT_TRUE(answer->choices[0].ids.empty());
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kLength);
  ASSERT_EQ(answer->prompt.size(), kPrompt.size());
  EXPECT_FALSE(answer->prompt[0].logprob.has_value());
  double loss = 0;
  for (size_t i = 0; i < kPrompt.size(); ++i) {
    EXPECT_EQ(answer->prompt[i].id, kPrompt[i]);
    if (i == 0) continue;
    ASSERT_TRUE(answer->prompt[i].logprob.has_value());
    EXPECT_LE(*answer->prompt[i].logprob, 0.0);
    EXPECT_GE(answer->prompt[i].top.size(), 1u);
    loss -= *answer->prompt[i].logprob;
  }
  ASSERT_TRUE(answer->prompt_loss.has_value());
  EXPECT_NEAR(*answer->prompt_loss, loss / (kPrompt.size() - 1.0), 1e-9);
  // A prompt that is in the cache by now is scored all the same.
  const auto again = Ask(*engine, request);
  ASSERT_EQ(again->prompt.size(), kPrompt.size());
  for (size_t i = 1; i < kPrompt.size(); ++i) {
    EXPECT_EQ(again->prompt[i].logprob, answer->prompt[i].logprob);
  }
  request.prompt = std::vector<int32_t>{5};  // nothing to score
  EXPECT_EQ(Ask(*engine, request)->prompt.size(), 1u);
  ExpectNothingLeft(*engine);
}

TEST(Engine, PromptsThatCannotBeServedEndWithOneEvent) {
  const auto engine = OpenTiny(TinyOptions());
  for (const size_t tokens : {0u, 128u, 1000u}) {
    const auto answer = Ask(*engine, TinyRequest(std::vector<int32_t>(tokens, 5), 4));
    EXPECT_EQ(answer->error.code(),
              tokens == 0 ? StatusCode::kInvalidArgument : StatusCode::kTooLarge)
        << tokens;
    EXPECT_EQ(answer->error.field(), "prompt");
    EXPECT_EQ(answer->events, 1);
    EXPECT_EQ(answer->choices[0].finish, FinishReason::kError);
  }
  EXPECT_TRUE(Ask(*engine, TinyRequest(std::vector<int32_t>(127, 5), 4))->error.ok());
  EXPECT_TRUE(Ask(*engine, TinyRequest(std::vector<int32_t>(128, 5), 0))->error.ok());
  Request text = TinyRequest({}, 4);
  text.prompt = std::string(1 << 20, 'a');
  EXPECT_THAT(Ask(*engine, text)->error.message(), HasSubstr("has 1048576 bytes"));
  std::string words;
  for (int i = 0; i < 600; ++i) words += " a";
  text.prompt = words;
  EXPECT_THAT(Ask(*engine, text)->error.message(), HasSubstr("tokens and the context of 128"));
  Request chat = TinyRequest({}, 4);
  chat.prompt = ChatPrompt{.messages_json = "{}"};
  EXPECT_EQ(Ask(*engine, chat)->error.field(), "messages");
  chat.prompt = ChatPrompt{.messages_json = R"([{"role": "user", "content": "hello"}])"};
  EXPECT_TRUE(Ask(*engine, chat)->error.ok());
  EXPECT_EQ(Ask(*engine, TinyRequest({320}, 4))->error.field(), "prompt");  // Submit's own
  ExpectNothingLeft(*engine);
}

TEST(Engine, ATextThatItsBytesShowTooLongNeverEntersTheQueue) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = TinyRequest({}, 4);
  request.prompt = std::string(1 << 20, 'a');
  auto [answer, sink] = Answer::Make();
  const Status status = engine->Submit(request, sink).status();
  EXPECT_THAT(status.message(), HasSubstr("has 1048576 bytes"));
  EXPECT_EQ(status.field(), "prompt");
  EXPECT_EQ(answer->events, 0);
}

TEST(Engine, APromptsTextIsLetGoOfWhenItsIdsExist) {
  const auto engine = OpenTiny(TinyOptions());
  ASSERT_TRUE(Pause(*engine).ok());
  auto held = std::make_shared<int>();
  Request request = TinyRequest({}, 4);
  request.prompt = "hello";
  request.choice = {"yes", "no"};
  request.held = held;
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
  while (engine->Info().waiting == 0) std::this_thread::yield();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(answer->ended());
  ASSERT_TRUE(Resume(*engine).ok());
  answer->Wait();
  EXPECT_TRUE(answer->error.ok()) << answer->error.message();
}

TEST(Engine, AFullQueueRefusesAndServesWhatItTook) {
  EngineOptions options = TinyOptions();
  options.max_queue = 5;
  const auto engine = OpenTiny(options);
  ASSERT_TRUE(Pause(*engine).ok());
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 5; ++i) {
    auto [answer, sink] = Answer::Make();
    ASSERT_TRUE(engine->Submit(TinyRequest(kPrompt, 3), sink).ok()) << i;
    answers.push_back(answer);
  }
  auto [late, sink] = Answer::Make();
  const Status status = engine->Submit(TinyRequest(kPrompt, 3), sink).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--max-queue"));
  ASSERT_TRUE(Resume(*engine).ok());
  for (const auto& answer : answers) {
    answer->Wait();
    EXPECT_TRUE(answer->error.ok());
  }
  EXPECT_TRUE(Ask(*engine, TinyRequest(kPrompt, 3))->error.ok());
  EXPECT_EQ(late->events, 0);
  ExpectNothingLeft(*engine);
}

TEST(Engine, PrefixesAreSharedWithinOneSaltOnly) {
  const auto engine = OpenTiny(TinyOptions());
  const auto cached = [&](const std::string& salt) {
    Request request = TinyRequest(kPrompt, 3);
    request.cache_salt = salt;
    return Ask(*engine, request)->usage.cached_tokens;
  };
  EXPECT_EQ(cached("alice"), 0);
  EXPECT_EQ(cached("alice"), 8);
  EXPECT_EQ(cached("bob"), 0);
  EXPECT_EQ(cached(""), 0);
}

// Scratch memory, graphs and step numbers are an engine's own.
TEST(Engine, TwoEnginesOfOneProcessAnswerAsIfAlone) {
  constexpr int kRequests = 12;
  const auto answers_of = [](Engine& engine) {
    std::vector<std::shared_ptr<Answer>> answers;
    for (int i = 0; i < kRequests; ++i) {
      Request request = TinyRequest(std::vector<int32_t>(1 + 3 * i, 5 + i), 20);
      request.sampling.temperature = i % 2;
      request.sampling.seed = i;
      auto [answer, sink] = Answer::Make();
      EXPECT_TRUE(engine.Submit(std::move(request), sink).ok());
      answers.push_back(std::move(answer));
    }
    std::vector<std::vector<int32_t>> ids;
    for (const auto& answer : answers) {
      answer->Wait();
      ids.push_back(answer->choices[0].ids);
    }
    return ids;
  };
  const auto first = OpenTiny(TinyOptions("llama")), second = OpenTiny(TinyOptions("gemma2"));
  const auto first_alone = answers_of(*first), second_alone = answers_of(*second);
  EXPECT_NE(first_alone, second_alone);
  auto beside = std::async(std::launch::async, [&] { return answers_of(*first); });
  EXPECT_EQ(answers_of(*second), second_alone);
  EXPECT_EQ(beside.get(), first_alone);
}

TEST(Engine, TheMoreUrgentRequestIsServedFirst) {
  EngineOptions options = TinyOptions();
  options.max_num_seqs = 1;
  const auto engine = OpenTiny(options);
  ASSERT_TRUE(Pause(*engine).ok());
  std::vector<int> order;  // of the only text worker, until the last promise is kept
  std::promise<void> done;
  for (const int priority : {5, 0, -5}) {
    Request request = TinyRequest(kPrompt, 3);
    request.priority = priority;
    const auto sink = [&order, &done, priority](TextDelta&& delta) {
      if (!delta.last) return;
      order.push_back(priority);
      if (order.size() == 3) done.set_value();
    };
    ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
  }
  while (engine->Info().waiting < 3) std::this_thread::yield();
  ASSERT_TRUE(Resume(*engine).ok());
  done.get_future().wait();
  EXPECT_THAT(order, ::testing::ElementsAre(-5, 0, 5));
}

TEST(Engine, PausedNothingStepsAndResumedItGoesOn) {
  const auto engine = OpenTiny(TinyOptions());
  EXPECT_TRUE(engine->Health().ok);
  EXPECT_TRUE(engine->Health().ready);
  ASSERT_TRUE(Pause(*engine).ok());
  EXPECT_TRUE(engine->Health().ok);
  EXPECT_FALSE(engine->Health().ready);
  EXPECT_EQ(engine->Health().reason, "paused");
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(TinyRequest(kPrompt, 3), sink).ok());
  while (engine->Info().waiting == 0) std::this_thread::yield();
  Settle(*engine);
  EXPECT_EQ(engine->Info().steps, 0);
  EXPECT_FALSE(answer->ended());
  EXPECT_TRUE(engine->Admin(R"({"command": "resume"})").ok());
  answer->Wait();
  EXPECT_EQ(answer->choices[0].ids.size(), 3u);
  EXPECT_TRUE(engine->Health().ready);
}

TEST(Engine, TheOrderToDrainRefusesNewRequestsAndLetsOthersEnd) {
  const auto engine = OpenTiny(TinyOptions());
  ASSERT_TRUE(Pause(*engine).ok());
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(TinyRequest(kPrompt, 3), sink).ok());
  const auto told = engine->Admin(R"({"command": "drain"})");
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(*told, R"({"ok":true,"running":1})");
  EXPECT_EQ(engine->Submit(TinyRequest(kPrompt, 3), sink).status().code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(engine->Health().ready);
  ASSERT_TRUE(Resume(*engine).ok());
  answer->Wait();
  EXPECT_EQ(answer->choices[0].ids.size(), 3u);
}

TEST(Engine, ADrainedEngineRefusesAndEndsWhatIsLeft) {
  const auto engine = OpenTiny(TinyOptions());
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(TinyRequest(kPrompt, 20), sink).ok());
  EXPECT_TRUE(engine->Drain(600).ok());
  EXPECT_TRUE(answer->ended());
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kLength);
  auto [refused, refused_sink] = Answer::Make();
  EXPECT_EQ(engine->Submit(TinyRequest(kPrompt, 3), refused_sink).status().code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(engine->Health().ready);
  EXPECT_EQ(engine->Health().reason, "draining");

  const auto other = OpenTiny(TinyOptions());
  ASSERT_TRUE(Pause(*other).ok());
  auto [stuck, stuck_sink] = Answer::Make();
  ASSERT_TRUE(other->Submit(TinyRequest(kPrompt, 20), stuck_sink).ok());
  EXPECT_EQ(other->Drain(0).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(stuck->ended());
  EXPECT_EQ(stuck->choices[0].finish, FinishReason::kCancelled);
}

// A second signal's drain has no time of its own; what it tells is how long the requests had.
TEST(Engine, ADrainThatIsCutShortTellsTheTimeSinceItsBeginning) {
  const auto engine = OpenTiny(TinyOptions());
  ASSERT_TRUE(Pause(*engine).ok());
  auto [stuck, stuck_sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(TinyRequest(kPrompt, 20), stuck_sink).ok());
  auto drain = std::async(std::launch::async, [&] { return engine->Drain(600); });
  const auto refused = [&] {
    auto [answer, sink] = Answer::Make();
    const Status status = engine->Submit(TinyRequest(kPrompt, 20), sink).status();
    return status.code() == StatusCode::kUnavailable;  // and not because the queue is full
  };
  while (!refused()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
  const std::string told = engine->Drain(0).message();
  const size_t after = told.find(" requests were cancelled after ");
  ASSERT_NE(after, std::string::npos) << told;
  EXPECT_GE(std::stod(told.substr(after + 31)), 0.2) << told;
  EXPECT_TRUE(drain.get().ok());
}

TEST(Engine, ARequestCancelledBeforeItWasTokenizedEndsWithOneEvent) {
  const auto engine = OpenTiny(TinyOptions());  // one text worker
  std::promise<void> entered, release;
  std::atomic<bool> blocked = false;
  auto [first, first_sink] = Answer::Make();
  const auto id =
      engine->Submit(TinyRequest(kPrompt, 3), [&, sink = first_sink](TextDelta&& delta) {
        if (!blocked.exchange(true)) {
          entered.set_value();
          release.get_future().wait();
        }
        sink(std::move(delta));
      });
  ASSERT_TRUE(id.ok());
  entered.get_future().wait();
  auto [second, second_sink] = Answer::Make();
  Request request = TinyRequest(kPrompt, 3);
  request.n = 2;
  const auto second_id = engine->Submit(request, second_sink);
  ASSERT_TRUE(second_id.ok());
  engine->Cancel(*second_id);
  engine->Cancel(*second_id);
  engine->Cancel(123456);
  release.set_value();
  second->Wait();
  first->Wait();
  for (int choice = 0; choice < 2; ++choice) {
    EXPECT_EQ(second->choices[choice].finish, FinishReason::kCancelled);
    EXPECT_EQ(second->choices[choice].finishes, 1);
    EXPECT_TRUE(second->choices[choice].ids.empty());
  }
  EXPECT_EQ(second->lasts, 1);
  EXPECT_EQ(second->events, 2);
  EXPECT_EQ(second->usage.prefill_ms, 0.0);   // all its time was in the queue
  EXPECT_EQ(second->usage.prompt_tokens, 0);  // it was not tokenized any more
  EXPECT_GT(second->usage.queue_ms, 0.0);
  ExpectNothingLeft(*engine);
}

TEST(Engine, RequestsCancelledAtAnyMomentLeaveNothingBehind) {
  EngineOptions options = TinyOptions();
  options.kv_memory = "80KiB";  // 40 blocks for eight sequences of up to sixteen
  options.text_workers = 2;
  const auto engine = OpenTiny(options);
  constexpr int kThreads = 4, kRequests = 30;
  std::vector<std::shared_ptr<Answer>> answers(kThreads * kRequests);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<RequestId> ids;
      for (int i = 0; i < kRequests; ++i) {
        Request request = TinyRequest(std::vector<int32_t>(1 + random() % 60, 3 + random() % 9),
                                      static_cast<int>(random() % 40));
        request.n = 1 + static_cast<int>(random() % 3);
        request.sampling.temperature = random() % 2;
        request.ignore_eos = random() % 2;
        if (random() % 3 == 0) request.stop = {"a", "\n", "e"};
        if (random() % 4 == 0) request.prompt_logprobs = 0;
        auto [answer, sink] = Answer::Make();
        answers[t * kRequests + i] = answer;
        const auto id = engine->Submit(std::move(request), sink);
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
        if (random() % 2) engine->Cancel(ids[random() % ids.size()]);
        if (random() % 8 == 0) answers[t * kRequests + i]->Wait();
        if (random() % 16 == 0) Settle(*engine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int cancelled = 0;
  for (const auto& answer : answers) {
    answer->Wait();
    EXPECT_TRUE(answer->error.ok()) << answer->error.message();
    for (const auto& [index, choice] : answer->choices) EXPECT_EQ(choice.finishes, 1);
    cancelled += answer->choices[0].finish == FinishReason::kCancelled;
  }
  ExpectNothingLeft(*engine);
  for (const auto& answer : answers) {
    EXPECT_EQ(answer->lasts, 1);
    EXPECT_EQ(answer->after_last, 0);
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_LT(cancelled, kThreads * kRequests);
  EXPECT_EQ(Metric(*engine, "vllm:request_success_total"), kThreads * kRequests);
}

TEST(Engine, ClosedWithLiveRequestsItTellsEveryOneOfThem) {
  for (const bool paused : {false, true}) {
    auto engine = OpenTiny(TinyOptions());
    if (paused) {
      ASSERT_TRUE(Pause(*engine).ok());
    }
    std::vector<std::shared_ptr<Answer>> answers;
    for (int i = 0; i < 40; ++i) {
      auto [answer, sink] = Answer::Make();
      Request request = TinyRequest(kPrompt, 100);
      request.n = 1 + i % 3;
      ASSERT_TRUE(engine->Submit(request, sink).ok());
      answers.push_back(answer);
    }
    engine.reset();
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i]->lasts, 1) << i;
      EXPECT_EQ(answers[i]->after_last, 0);
      EXPECT_EQ(answers[i]->choices.size(), 1 + i % 3);
      for (const auto& [index, choice] : answers[i]->choices) {
        EXPECT_EQ(choice.finishes, 1);
        EXPECT_TRUE(!paused || choice.finish == FinishReason::kCancelled);
      }
    }
  }
}

TEST(Engine, MetricsAreWellFormedAndCount) {
  const auto engine = OpenTiny(TinyOptions());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Ask(*engine, TinyRequest(kPrompt, 5))->error.ok());
  Request two = TinyRequest(kPrompt, 4);
  two.n = 2;
  Ask(*engine, two);
  Settle(*engine);
  std::istringstream lines(engine->Metrics());
  std::string line;
  int samples = 0;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') {
      EXPECT_TRUE(line.rfind("# HELP ", 0) == 0 || line.rfind("# TYPE ", 0) == 0) << line;
      // As Prometheus' own clients, and so vLLM, name counters.
      if (line.ends_with(" counter")) {
        EXPECT_TRUE(line.ends_with("_total counter")) << line;
      }
      continue;
    }
    EXPECT_TRUE(line.rfind("vllm:", 0) == 0 || line.rfind("sluice_", 0) == 0) << line;
    EXPECT_THAT(line, HasSubstr("model_name=\"llama\""));
    size_t used = 0;
    const std::string value = line.substr(line.rfind(' ') + 1);
    std::stod(value, &used);
    EXPECT_EQ(used, value.size()) << line;
    ++samples;
  }
  EXPECT_GT(samples, 50);
  EXPECT_EQ(Metric(*engine, "vllm:prompt_tokens_total"), 4 * 12);
  EXPECT_EQ(Metric(*engine, "vllm:generation_tokens_total"), 3 * 5 + 2 * 4);
  EXPECT_EQ(Metric(*engine, "vllm:request_success_total"), 4);
  EXPECT_EQ(Metric(*engine, "vllm:time_to_first_token_seconds_count"), 4);
  EXPECT_EQ(Metric(*engine, "vllm:inter_token_latency_seconds_count"), 3 * 4 + 2 * 3);
  EXPECT_EQ(Metric(*engine, "vllm:num_requests_running"), 0);
  EXPECT_EQ(Metric(*engine, "vllm:kv_cache_usage_perc"), 0);
  EXPECT_GT(Metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  EXPECT_GT(Metric(*engine, "vllm:prefix_cache_queries_total"),
            Metric(*engine, "vllm:prefix_cache_hits_total"));
  EXPECT_EQ(Metric(*engine, "sluice_kv_blocks_total"), engine->Info().kv_blocks);
  EXPECT_EQ(Metric(*engine, "sluice_kv_blocks_free"), engine->Info().kv_blocks);
  EXPECT_EQ(Metric(*engine, "sluice_execute_tokens_count"), engine->Info().steps);
  EXPECT_THAT(engine->Info().backends, ::testing::Contains("cpu"));
}

// As they are computed, not when their requests end.
TEST(Engine, PrefillIsCountedAsItGoes) {
  const auto engine = OpenTiny(TinyOptions());
  EXPECT_EQ(engine->Info().prefill_tokens, 0);
  Ask(*engine, TinyRequest(kPrompt, 5));
  EXPECT_EQ(engine->Info().prefill_tokens, 12);
  Request scored = TinyRequest(std::vector<int32_t>(40, 7), 3);
  scored.prompt_logprobs = 0;
  Ask(*engine, scored);
  EXPECT_EQ(engine->Info().prefill_tokens, 12 + 40);
}

TEST(Engine, MetricsNameWhatFellBack) {
  EngineOptions options = TinyOptions();
  options.isa = "ref";
  const auto engine = OpenTiny(options);
  EXPECT_GT(Metric(*engine, "sluice_fallback_total"), 0);
}

TEST(Engine, CommandsThatItDoesNotKnowAreRefused) {
  const auto engine = OpenTiny(TinyOptions());
  for (const char* command : {"", "{", "[]", "{}", "3", R"({"command": "explode"})"}) {
    EXPECT_EQ(engine->Admin(command).status().code(), StatusCode::kInvalidArgument) << command;
  }
}

}  // namespace
}  // namespace sluice::engine
