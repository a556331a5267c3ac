// Every architecture against the log-probs of transformers: tiny checkpoints, F32 activations and
// KV. The prompt is run at once, in chunks and token by token, alone and beside another sequence;
// all of these must give the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "model_runner.h"

namespace sluice::golden {
namespace {

constexpr double kTolerance = 1e-4;

std::string Folder() { return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/"; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Json ReadJson(const std::string& path) {
  auto json = ParseJson(ReadFile(path), path);
  EXPECT_TRUE(json.ok()) << json.status().message();
  return json.ok() ? *json : Json();
}

std::vector<float> ReadFloats(const std::string& path) {
  const std::string bytes = ReadFile(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// One checkpoint with what transformers says about it.
struct Fixture {
  std::string model;  // what OpenModel takes
  std::vector<int> prompt;
  std::vector<float> log_probs;  // [prompt, vocab]
  int64_t rope_length = 0;       // the length that transformers chose the rotation for
};

Fixture LoadFolder(const std::string& name) {
  const std::string folder = Folder() + "models/" + name;
  const Json expected = ReadJson(folder + "/expected.json");
  return {folder, expected["prompt"].get<std::vector<int>>(), ReadFloats(folder + "/logprobs.bin"),
          expected["rope_length"].get<int64_t>()};
}

Fixture LoadGguf(const std::string& name) {
  const Json index = ReadJson(Folder() + "gguf/index.json");
  Fixture fixture = LoadFolder(index[name]["prompt_of"].get<std::string>());
  fixture.model = Folder() + "gguf/" + name + ".gguf";
  fixture.log_probs = ReadFloats(Folder() + "gguf/" + name + ".logprobs.bin");
  return fixture;
}

std::unique_ptr<ModelRunner> Open(const Fixture& fixture, DType kv = DType::kF32) {
  model::ModelOptions options;
  options.max_tokens = options.max_logits_rows = 2 * static_cast<int64_t>(fixture.prompt.size());
  options.max_model_len = fixture.rope_length;
  options.kv_dtype = kv;
  options.kernel_block_tokens = 8;
  auto runner = ModelRunner::Open(fixture.model, options, 2);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

// Logits of every prompt token, `chunk` tokens at a time. With `neighbour` each step also runs a
// token or two of another sequence, first or last in the batch.
std::vector<float> RunChunks(ModelRunner* runner, const std::vector<int>& prompt, size_t chunk,
                             bool neighbour) {
  runner->Reset();
  const int vocab = runner->model().vocab_size();
  std::vector<float> logits;
  size_t others = 0;
  for (size_t at = 0; at < prompt.size(); at += chunk) {
    const size_t count = std::min(chunk, prompt.size() - at);
    std::vector<Chunk> step = {{0, {prompt.begin() + at, prompt.begin() + at + count}}};
    const bool first = at % 2 == 0;
    size_t skip = 0;
    if (neighbour && others + 2 <= prompt.size()) {
      const size_t n = 1 + at % 2;
      Chunk other{1, {}};
      for (size_t i = 0; i < n; ++i) other.tokens.push_back(prompt[prompt.size() - 1 - others++]);
      if (first) skip = n;
      step.insert(first ? step.begin() : step.end(), other);
    }
    auto rows = runner->Step(step, /*every_row=*/true);
    EXPECT_TRUE(rows.ok()) << rows.status().message();
    if (!rows.ok()) return {};
    logits.insert(logits.end(), rows->begin() + skip * vocab,
                  rows->begin() + (skip + count) * vocab);
  }
  return logits;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    largest = difference <= largest ? largest : difference;  // NaN stays
  }
  return largest;
}

// Positions whose bits differ.
size_t CountDifferent(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  }
  return count;
}

std::vector<std::string> Folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder() + "models")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Ggufs() {
  std::vector<std::string> names;
  const Json index = ReadJson(Folder() + "gguf/index.json");
  for (const auto& [name, entry] : index.items()) names.push_back(name);
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, LogProbsAreThoseOfTransformers) {
  const Fixture fixture = LoadFolder(GetParam());
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  LogSoftmax(&rows, runner->model().vocab_size());
  const double difference = LargestDifference(rows, fixture.log_probs);
  RecordProperty("largest_difference", StrCat(difference));
  EXPECT_LE(difference, kTolerance);
}

TEST_P(Golden, ChunksDecodeAndNeighboursGiveTheSameBits) {
  const Fixture fixture = LoadFolder(GetParam());
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> at_once =
      RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  for (size_t chunk : {1, 3, 8, 13}) {
    for (bool neighbour : {false, true}) {
      EXPECT_EQ(CountDifferent(RunChunks(runner.get(), fixture.prompt, chunk, neighbour), at_once),
                0u)
          << "chunks of " << chunk << (neighbour ? ", beside another sequence" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(Folders()), TestName);

class GoldenGguf : public ::testing::TestWithParam<std::string> {};

// How far log-probs may be from those of the dequantized weights. F32 files have the weights of
// the folder. In the others activations are quantized to 8 bits per block of 32 as well, on which
// 16-bit formats are exact only in the weights.
double ToleranceOf(const std::string& name) {
  const std::string format = name.substr(name.rfind('-') + 1);
  if (format == "F32" || format == "F16" || format == "BF16") return kTolerance;
  return 0.35;
}

TEST_P(GoldenGguf, LogProbsAreThoseOfTheDequantizedWeights) {
  const Fixture fixture = LoadGguf(GetParam());
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  EXPECT_EQ(CountDifferent(RunChunks(runner.get(), fixture.prompt, 5, true), rows), 0u);
  LogSoftmax(&rows, runner->model().vocab_size());
  const double difference = LargestDifference(rows, fixture.log_probs);
  RecordProperty("largest_difference", StrCat(difference));
  EXPECT_LE(difference, ToleranceOf(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenGguf, ::testing::ValuesIn(Ggufs()), TestName);

// Told of every layer in order; stops at `stop`.
class Recorder : public model::LayerObserver {
 public:
  Status LayerWritten(int layer, int group) override {
    seen.emplace_back(layer, group);
    if (layer == stop) return Status(StatusCode::kCancelled, "enough");
    return OkStatus();
  }
  std::vector<std::pair<int, int>> seen;
  int stop = -1;
};

TEST(GoldenObserver, SeesEveryLayerInOrderAndMayStopThePass) {
  const Fixture fixture = LoadFolder("gemma3");
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  ASSERT_EQ(runner->model().groups().size(), 2u);
  Recorder recorder;
  runner->observer = &recorder;
  ASSERT_TRUE(runner->Step({{0, fixture.prompt}}, false).ok());
  ASSERT_EQ(recorder.seen.size(), static_cast<size_t>(runner->model().config().num_layers));
  for (size_t i = 0; i < recorder.seen.size(); ++i) {
    EXPECT_EQ(recorder.seen[i].first, static_cast<int>(i));
    EXPECT_EQ(recorder.seen[i].second, runner->model().group_of(static_cast<int>(i)));
  }
  recorder.seen.clear();
  recorder.stop = 1;
  runner->Reset();
  const auto stopped = runner->Step({{0, fixture.prompt}}, false);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(recorder.seen.size(), 2u);
}

}  // namespace
}  // namespace sluice::golden
