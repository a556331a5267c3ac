// The loss of a prompt through the whole engine: that of the reference's log-probs, whatever chunks
// the prompt is computed in.
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PromptLoss, IsThatOfTheReferenceInChunksOfAnySize) {
  for (const std::string model : {"llama", "gemma2", "qwen3_next"}) {
    const std::string folder = TinyOptions(model).model;
    const Json expected = *ParseJson(ReadFile(folder + "/expected.json"), "expected.json");
    const auto prompt = expected["prompt"].get<std::vector<int32_t>>();
    const std::string bytes = ReadFile(folder + "/logprobs.bin");
    std::vector<float> logprobs(bytes.size() / sizeof(float));
    std::memcpy(logprobs.data(), bytes.data(), bytes.size());
    const size_t vocab = logprobs.size() / prompt.size();
    double loss = 0;
    for (size_t i = 0; i + 1 < prompt.size(); ++i) loss -= logprobs[i * vocab + prompt[i + 1]];
    loss /= static_cast<double>(prompt.size() - 1);
    std::optional<double> first;
    for (const int chunk : {64, 16, 5}) {
      EngineOptions options = TinyOptions(model);
      options.kv_dtype = "f32";
      options.max_num_seqs = 4;
      options.max_batch_tokens = chunk;
      const auto engine = OpenTiny(options);
      ASSERT_NE(engine, nullptr);
      Request request = TinyRequest(prompt, 0);
      request.prompt_loss = true;
      const auto answer = Ask(*engine, request);
      ASSERT_TRUE(answer->prompt_loss.has_value()) << answer->error.message();
      EXPECT_NEAR(*answer->prompt_loss, loss, 1e-5) << model << " in chunks of " << chunk;
      if (!first) first = answer->prompt_loss;
      EXPECT_EQ(*answer->prompt_loss, *first) << model << " in chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace sluice::engine
