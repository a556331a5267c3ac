// Every architecture against the log-probs of transformers: tiny checkpoints, F32 activations and
// KV. The prompt is run at once, in chunks and token by token, alone and beside another sequence;
// all of these must give the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "model/load/load_model.h"
#include "model_runner.h"

namespace sluice::golden {
namespace {

constexpr double kTolerance = 1e-4;

std::string Folder() { return SourceDir() + "/tests/golden/"; }

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
  std::vector<float> log_probs;  // [prompt, vocab], by transformers in float32
  int64_t rope_length = 0;       // the length that transformers chose the rotation for
};

Fixture LoadFolder(const std::string& name, const std::string& kind = "models/") {
  const std::string folder = Folder() + kind + name;
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

model::ModelOptions OptionsOf(const Fixture& fixture) {
  model::ModelOptions options;
  options.max_tokens = options.max_logits_rows = 2 * static_cast<int64_t>(fixture.prompt.size());
  options.max_model_len = fixture.rope_length;
  options.kv_dtype = DType::kF32;
  options.kernel_block_tokens = 8;
  options.state_block_tokens = 16;  // so that a prompt is several of them
  return options;
}

files::ModelFiles OpenFiles(const Fixture& fixture) {
  auto files = files::OpenModel(fixture.model);
  EXPECT_TRUE(files.ok()) << files.status().message();
  return files.ok() ? std::move(files).value() : files::ModelFiles();
}

// One thread: the models are so small that handing work over would take most of the time.
std::unique_ptr<ModelRunner> Open(const Fixture& fixture, files::ModelFiles files, int threads = 1,
                                  const std::string& instruction_set = "") {
  device::OpenOptions device;
  device.threads = threads;
  device.instruction_set = instruction_set;
  auto runner = ModelRunner::Open(std::move(files), OptionsOf(fixture), 2, device);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

std::unique_ptr<ModelRunner> Open(const Fixture& fixture) {
  return Open(fixture, OpenFiles(fixture));
}

// Matrix tiles round what BF16 weights are multiplied with (ops/linear.h); then this opens the same
// model without them, otherwise it is null.
std::unique_ptr<ModelRunner> OpenWithoutRounding(const Fixture& fixture, files::ModelFiles files,
                                                 ModelRunner& runner) {
  const auto& tensors = files.tensors->tensors();
  const bool rounds = std::any_of(tensors.begin(), tensors.end(),
                                  [](const auto& tensor) { return tensor.dtype == DType::kBF16; });
  if (!rounds || runner.device().facts().architecture != "amx") return nullptr;
  return Open(fixture, std::move(files), 1, "avx512");
}

// Logits of every prompt token, at most `chunk` tokens at a time. With `neighbour` each step also
// runs a token or two of another sequence, first or last in the batch.
std::vector<float> RunChunks(ModelRunner* runner, const std::vector<int>& prompt, size_t chunk,
                             bool neighbour) {
  runner->Reset();
  const int vocab = runner->model().vocab_size();
  std::vector<float> logits;
  size_t others = 0;
  const auto step_end = [&](size_t at, size_t end) {
    return static_cast<size_t>(runner->StepEnd(static_cast<int>(at), static_cast<int>(end)));
  };
  size_t count = 0;
  for (size_t at = 0; at < prompt.size(); at += count) {
    count = step_end(at, std::min(at + chunk, prompt.size())) - at;
    std::vector<Chunk> step = {{0, {prompt.begin() + at, prompt.begin() + at + count}}};
    const bool first = at % 2 == 0;
    size_t skip = 0;
    if (neighbour && others + 2 <= prompt.size()) {
      const size_t n = step_end(others, others + 1 + at % 2) - others;
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

// All models, or where experts are to lie on the host those that have some.
bool TakesPart(const std::string& model) {
  if (!ExpertsOnHost()) return true;
  const auto files = files::OpenModel(Folder() + model);
  return files.ok() && files->config.experts.count > 0;
}

std::vector<std::string> Folders(const std::string& kind = "models") {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder() + kind)) {
    const std::string name = entry.path().filename();
    if (TakesPart(kind + "/" + name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Ggufs() {
  std::vector<std::string> names;
  const Json index = ReadJson(Folder() + "gguf/index.json");
  for (const auto& [name, entry] : index.items()) {
    if (TakesPart("gguf/" + name + ".gguf")) names.push_back(name);
  }
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

double DifferenceFrom(const Fixture& fixture, ModelRunner* runner) {
  std::vector<float> rows = RunChunks(runner, fixture.prompt, fixture.prompt.size(), false);
  LogSoftmax(&rows, runner->model().vocab_size());
  return LargestDifference(rows, fixture.log_probs);
}

double RootMeanSquare(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0.0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// By root of the mean square, where activations are rounded to bf16 (0.0075 to 0.0076 on these
// checkpoints).
constexpr double kRoundedTolerance = 0.01;

// OpenCL's kernels have no residual in F32 beside activations in F16; no model asks for it there.
bool ComputesInF16() { return !TestDevice().starts_with("xpu"); }

// With activations and KV in `type`; null, with a failure, where it cannot be opened.
std::unique_ptr<ModelRunner> OpenIn(DType type, const Fixture& fixture, files::ModelFiles files,
                                    const std::string& device = TestDevice(),
                                    const std::string& instruction_set = "") {
  model::ModelOptions options = OptionsOf(fixture);
  options.activation = options.kv_dtype = type;
  auto runner = ModelRunner::Open(std::move(files), options, 2,
                                  {.threads = 1, .instruction_set = instruction_set}, device);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, LogProbsAreThoseOfTransformers) {
  const Fixture fixture = LoadFolder(GetParam());
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  LogSoftmax(&rows, runner->model().vocab_size());
  if (auto plain = OpenWithoutRounding(fixture, OpenFiles(fixture), *runner)) {
    EXPECT_LE(RootMeanSquare(rows, fixture.log_probs), kRoundedTolerance);
    EXPECT_LE(DifferenceFrom(fixture, plain.get()), kTolerance);
    return;
  }
  const double difference = LargestDifference(rows, fixture.log_probs);
  RecordProperty("difference", StrCat(difference));
  EXPECT_LE(difference, kTolerance);
}

TEST_P(Golden, ChunksDecodeNeighboursAndPaddingGiveTheSameBits) {
  const Fixture fixture = LoadFolder(GetParam());
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  const std::vector<float> at_once =
      RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  for (size_t chunk : {1, 3, 8, 13}) {
    runner->padding = chunk == 3 ? 5 : 0;
    for (bool neighbour : {false, true}) {
      EXPECT_EQ(CountDifferent(RunChunks(runner.get(), fixture.prompt, chunk, neighbour), at_once),
                0u)
          << "chunks of " << chunk << (neighbour ? ", beside another sequence" : "");
    }
  }
}

// Against log-probs in double precision, by root of the mean square.
class GoldenExact : public Golden {
 protected:
  GoldenExact() : fixture_(LoadFolder(GetParam())) {
    const std::vector<float> rest = ReadFloats(fixture_.model + "/rest.bin");
    CHECK(rest.size() == fixture_.log_probs.size(), rest.size());
    for (size_t i = 0; i < rest.size(); ++i)
      exact_.push_back(double{fixture_.log_probs[i]} + double{rest[i]});
  }
  double ErrorOf(const std::vector<float>& log_probs) const {
    EXPECT_EQ(log_probs.size(), exact_.size());
    double sum = 0.0;
    for (size_t i = 0; i < std::min(log_probs.size(), exact_.size()); ++i)
      sum += (log_probs[i] - exact_[i]) * (log_probs[i] - exact_[i]);
    return std::sqrt(sum / static_cast<double>(exact_.size()));
  }
  double ErrorOf(ModelRunner* runner) const {
    if (runner == nullptr) return NAN;
    std::vector<float> rows = RunChunks(runner, fixture_.prompt, fixture_.prompt.size(), false);
    LogSoftmax(&rows, runner->model().vocab_size());
    return ErrorOf(rows);
  }
  // With activations and KV in `type`.
  double ErrorIn(DType type, const std::string& device, const std::string& instruction_set) const {
    auto runner = OpenIn(type, fixture_, OpenFiles(fixture_), device, instruction_set);
    return ErrorOf(runner.get());
  }
  void ExpectAtMostTwice(const char* type, double error, double reference) {
    std::printf("%s, %s on %s: error %.2e, of the reference %.2e, ratio %.2f\n", GetParam().c_str(),
                type, TestDevice().c_str(), error, reference, error / reference);
    EXPECT_LE(error, 2.0 * reference) << type;  // NaN fails
  }

  const Fixture fixture_;
  std::vector<double> exact_;
};

TEST_P(GoldenExact, ErrorsAreAtMostTwiceThoseOfAFloat32Reference) {
  auto runner = Open(fixture_);
  ASSERT_NE(runner, nullptr);
  if (auto plain = OpenWithoutRounding(fixture_, OpenFiles(fixture_), *runner))
    runner = std::move(plain);
  ExpectAtMostTwice("F32", ErrorOf(runner.get()), ErrorOf(fixture_.log_probs));
}

// The reference: the plain loops of the CPU, which round what they write to the type and nothing
// else.
TEST_P(GoldenExact, ErrorsIn16BitsAreAtMostTwiceThoseOfAReferenceThatRoundsAtTheSamePoints) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    if (type == DType::kF16 && !ComputesInF16()) continue;
    ExpectAtMostTwice(std::string(Name(type)).c_str(), ErrorIn(type, TestDevice(), ""),
                      ErrorIn(type, "cpu", "ref"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(Folders()), TestName);
INSTANTIATE_TEST_SUITE_P(Models, GoldenExact, ::testing::ValuesIn(Folders()), TestName);

class GoldenGguf : public ::testing::TestWithParam<std::string> {};

// With block formats some kernels quantize the activations too, to 8 bits per block of 32, which
// the expected log-probs do not know. On these checkpoints, whose attention is sharper than that of
// trained ones, this costs 0.026 to 0.028 (root of the mean square over positions and vocabulary).
constexpr double kQuantizedTolerance = 0.04;

bool IsBlockFormat(const std::string& name) {
  const std::string format = name.substr(name.rfind('-') + 1);
  return format != "F32" && format != "F16" && format != "BF16";
}

// What CUDA refuses when it loads.
bool RefusedOnDevice(const std::string& name) {
  return TestDevice().starts_with("cuda") && (name.ends_with("-IQ") || name == "gptq_act");
}

// What CUDA widens to BF16 when it loads.
bool WidenedOnDevice(const std::string& name) {
  return TestDevice().starts_with("cuda") &&
         (name.starts_with("ct_w8a8") || name.ends_with("nvfp4"));
}

// Whether a matrix of the model is multiplied by a kernel that rounds activations further.
bool QuantizesActivations(const Fixture& fixture, device::Device& device) {
  const files::ModelFiles files = OpenFiles(fixture);
  const auto plan = model::PlanWeights(files, device, OptionsOf(fixture).activation);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return std::any_of(plan->records.begin(), plan->records.end(), [&](const auto& binding) {
    const auto& all = device.ops().Arithmetics();
    return std::any_of(all.begin(), all.end(), [&](const auto& named) {
      return named.first == binding.chosen && named.second != ops::Arithmetic::kF32;
    });
  });
}

TEST_P(GoldenGguf, LogProbsAreThoseOfTheDequantizedWeights) {
  if (RefusedOnDevice(GetParam())) GTEST_SKIP() << TestDevice() << " has no products for it";
  const Fixture fixture = LoadGguf(GetParam());
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  EXPECT_EQ(CountDifferent(RunChunks(runner.get(), fixture.prompt, 5, true), rows), 0u);
  LogSoftmax(&rows, runner->model().vocab_size());
  if (auto plain = OpenWithoutRounding(fixture, OpenFiles(fixture), *runner)) {
    EXPECT_LE(RootMeanSquare(rows, fixture.log_probs), kRoundedTolerance);
    EXPECT_LE(DifferenceFrom(fixture, plain.get()), kTolerance);
    return;
  }
  const bool quantizes =
      IsBlockFormat(GetParam()) && QuantizesActivations(fixture, runner->device());
  const double difference = quantizes ? RootMeanSquare(rows, fixture.log_probs)
                                      : LargestDifference(rows, fixture.log_probs);
  RecordProperty("difference", StrCat(difference));
  EXPECT_LE(difference, quantizes ? kQuantizedTolerance : kTolerance);
}

// Where no activation is rounded: codes and scales are kept, minimums are rounded to F16, which
// is up to 0.0094 here (awq and gptq; 0.005 in the others).
constexpr double kInt4Tolerance = 1.5e-2;
// Where weights are widened to BF16, which rounds each: up to 0.047 here.
constexpr double kWidenedTolerance = 6e-2;
// Of gpt-oss, whose activations here are as large as the clamp lets them be: 0.082.
constexpr double kClampedTolerance = 0.1;

// Checkpoints with matrices in 4 bits as published ones have them, against the log-probs of their
// dequantized weights.
class GoldenInt4 : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenInt4, LogProbsAreThoseOfTheDequantizedWeights) {
  if (RefusedOnDevice(GetParam())) GTEST_SKIP() << TestDevice() << " has no products for it";
  const Fixture fixture = LoadFolder(GetParam(), "int4/");
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  EXPECT_EQ(CountDifferent(RunChunks(runner.get(), fixture.prompt, 5, true), rows), 0u);
  LogSoftmax(&rows, runner->model().vocab_size());
  if (!QuantizesActivations(fixture, runner->device())) {
    EXPECT_LE(LargestDifference(rows, fixture.log_probs),
              WidenedOnDevice(GetParam()) ? kWidenedTolerance : kInt4Tolerance);
    return;
  }
  const bool large = runner->model().config().architecture == files::Architecture::kGptOss;
  EXPECT_LE(RootMeanSquare(rows, fixture.log_probs),
            large ? kClampedTolerance : kQuantizedTolerance);
}

INSTANTIATE_TEST_SUITE_P(Folders, GoldenInt4, ::testing::ValuesIn(Folders("int4")), TestName);

// Where activations and KV are in 16 bits: 0.012 and 0.0014 on these checkpoints. F16 has three
// bits more than BF16.
constexpr double kBf16Tolerance = 0.02, kF16Tolerance = kBf16Tolerance / 8;

// As GPUs run them: F16 models in F16, the others with activations in BF16.
TEST_P(GoldenGguf, LogProbsIn16BitsAreNearThoseOfTheDequantizedWeights) {
  if (GetParam().ends_with("-F32")) GTEST_SKIP() << "no device computes F32 models in 16 bits";
  if (RefusedOnDevice(GetParam())) GTEST_SKIP() << TestDevice() << " has no products for it";
  const Fixture fixture = LoadGguf(GetParam());
  const bool f16 = GetParam().ends_with("-F16");
  if (f16 && !ComputesInF16()) GTEST_SKIP() << TestDevice() << " does not compute in F16";
  auto runner = OpenIn(f16 ? DType::kF16 : DType::kBF16, fixture, OpenFiles(fixture));
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  EXPECT_EQ(CountDifferent(RunChunks(runner.get(), fixture.prompt, 5, true), rows), 0u);
  LogSoftmax(&rows, runner->model().vocab_size());
  const double difference = RootMeanSquare(rows, fixture.log_probs);
  std::printf("%s on %s: %.2e\n", GetParam().c_str(), TestDevice().c_str(), difference);
  EXPECT_LE(difference, f16                         ? kF16Tolerance
                        : IsBlockFormat(GetParam()) ? kQuantizedTolerance
                                                    : kBf16Tolerance);
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

class GoldenObserver : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenObserver, SeesEveryLayerInOrderAndMayStopThePass) {
  Fixture fixture = LoadFolder(GetParam());
  fixture.prompt.resize(16);  // one state's
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
INSTANTIATE_TEST_SUITE_P(Models, GoldenObserver, ::testing::Values("gemma3", "qwen3_next"),
                         TestName);

// Two checkpoints of one config: after an update of every parameter the first is the second.
TEST(GoldenUpdate, AModelUpdatedInPlaceIsTheOtherModel) {
  const Fixture target = LoadFolder("llama_dynamic_short");
  Fixture start = target;
  start.model = LoadFolder("llama_dynamic").model;
  auto runner = Open(start);
  ASSERT_NE(runner, nullptr);
  EXPECT_GT(DifferenceFrom(target, runner.get()), 1.0);
  const files::ModelFiles fresh = OpenFiles(target);
  uint64_t version = 1;
  for (const weights::ParamSpec& spec : model::Params(fresh.config)) {
    const Status status = runner->model().parameters().Update(runner->device(), runner->stream(),
                                                              spec.name, *fresh.tensors);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(runner->model().parameters().version(), ++version);
  }
  EXPECT_LE(DifferenceFrom(target, runner.get()), kTolerance);
}

// Another checkpoint's tensors with some of them replaced.
class PatchedSource : public files::TensorSource {
 public:
  explicit PatchedSource(std::shared_ptr<const files::TensorSource> base)
      : base_(std::move(base)), tensors_(base_->tensors()) {}

  files::FileTensor* Edit(std::string_view name) {
    for (files::FileTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  // Stores an F32 tensor as BF16; exact, since the fixtures' weights are rounded to it.
  void ToBF16(std::string_view name) {
    files::FileTensor* tensor = Edit(name);
    ASSERT_NE(tensor, nullptr);
    auto& bytes = bytes_.emplace_back();
    for (size_t at = 0; at < tensor->data.size(); at += sizeof(float)) {
      bytes.insert(bytes.end(), {tensor->data[at + 2], tensor->data[at + 3]});
    }
    tensor->dtype = DType::kBF16;
    tensor->data = bytes;
  }
  void Scale(std::string_view name, float factor) {
    files::FileTensor* tensor = Edit(name);
    ASSERT_TRUE(tensor != nullptr && tensor->dtype == DType::kF32) << name;
    auto& bytes = bytes_.emplace_back(tensor->data.begin(), tensor->data.end());
    for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float value = 0.0f;
      std::memcpy(&value, &bytes[at], sizeof value);
      value *= factor;
      std::memcpy(&bytes[at], &value, sizeof value);
    }
    tensor->data = bytes;
  }
  void Remove(std::string_view name) {
    std::erase_if(tensors_, [&](const files::FileTensor& t) { return t.name == name; });
  }

  const std::vector<files::FileTensor>& tensors() const override { return tensors_; }
  const files::FileTensor* Find(std::string_view name) const override {
    for (const files::FileTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void Release(const files::FileTensor&) const override {}

 private:
  std::shared_ptr<const files::TensorSource> base_;
  std::vector<files::FileTensor> tensors_;
  std::deque<std::vector<std::byte>> bytes_;
};

// As in GGUF's mixtures, where attn_v has more bits than attn_q and attn_k.
TEST(GoldenLoad, MatricesThatAreFusedMayHaveDifferentFormats) {
  for (const char* projection : {"self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj"}) {
    const Fixture f32 = LoadFolder("qwen2");  // biases on Q, K and V
    files::ModelFiles files = OpenFiles(f32);
    auto patched = std::make_shared<PatchedSource>(files.tensors);
    patched->ToBF16(StrCat("model.layers.0.", projection, ".weight"));
    files.tensors = patched;
    auto runner = Open(f32, files);
    ASSERT_NE(runner, nullptr);
    if (auto plain = OpenWithoutRounding(f32, files, *runner)) runner = std::move(plain);
    EXPECT_LE(DifferenceFrom(f32, runner.get()), kTolerance) << projection;
  }
}

// Where everything that is added to the residual stream is 2^20 times as large, so are its sums,
// and the norms take it out again.
TEST(GoldenForward, ActivationsInF16LeaveTheResidualItsRange) {
  if (!ComputesInF16()) GTEST_SKIP() << TestDevice() << " does not compute in F16";
  const Fixture fixture = LoadFolder("llama");
  files::ModelFiles files = OpenFiles(fixture);
  auto patched = std::make_shared<PatchedSource>(files.tensors);
  patched->Scale("model.embed_tokens.weight", 0x1p20f);
  for (int layer = 0; layer < files.config.num_layers; ++layer) {
    for (const char* name : {"self_attn.o_proj", "mlp.down_proj"})
      patched->Scale(StrCat("model.layers.", layer, ".", name, ".weight"), 0x1p20f);
  }
  files.tensors = patched;
  auto runner = OpenIn(DType::kF16, fixture, files);
  ASSERT_NE(runner, nullptr);
  std::vector<float> rows = RunChunks(runner.get(), fixture.prompt, fixture.prompt.size(), false);
  LogSoftmax(&rows, runner->model().vocab_size());
  EXPECT_LE(RootMeanSquare(rows, fixture.log_probs), kF16Tolerance);
}

Status LoadStatus(const Fixture& fixture, files::ModelFiles files,
                  std::function<void(model::ModelOptions*)> change = {}) {
  model::ModelOptions options = OptionsOf(fixture);
  if (change) change(&options);
  return ModelRunner::Open(std::move(files), options, 1).status();
}

TEST(GoldenLoad, FilesThatDoNotFitTheConfigAreNamed) {
  const Fixture fixture = LoadFolder("llama");
  files::ModelFiles files = OpenFiles(fixture);
  auto patched = std::make_shared<PatchedSource>(files.tensors);
  patched->Remove("model.layers.1.mlp.up_proj.weight");
  files.tensors = patched;
  Status status = LoadStatus(fixture, files);
  EXPECT_EQ(status.code(), StatusCode::kBadModel);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("model.layers.1.mlp.up_proj.weight"));

  files = OpenFiles(fixture);
  files.config.intermediate_size = 128;
  status = LoadStatus(fixture, files);
  EXPECT_EQ(status.code(), StatusCode::kBadModel);
  EXPECT_THAT(status.message(), ::testing::AllOf(::testing::HasSubstr("[96, 64]"),
                                                 ::testing::HasSubstr("[128, 64]")));

  files = OpenFiles(fixture);
  EXPECT_EQ(LoadStatus(fixture, files, [](auto* o) { o->max_tokens = 0; }).code(),
            StatusCode::kInvalidArgument);
}

TEST(GoldenLoad, IndexersThatDoNotFitTheConfigAreNamed) {
  const Fixture fixture = LoadFolder("deepseek_v32");
  for (const char* part :
       {"wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias", "weights_proj.weight"}) {
    const std::string name = std::string("model.layers.1.self_attn.indexer.") + part;
    files::ModelFiles files = OpenFiles(fixture);
    auto patched = std::make_shared<PatchedSource>(files.tensors);
    patched->Remove(name);
    files.tensors = patched;
    const Status status = LoadStatus(fixture, files);
    EXPECT_EQ(status.code(), StatusCode::kBadModel);
    EXPECT_THAT(status.message(), ::testing::HasSubstr(name));
  }
  files::ModelFiles files = OpenFiles(fixture);
  files.config.latent.indexer.heads = 5;
  const Status status = LoadStatus(fixture, files);
  EXPECT_EQ(status.code(), StatusCode::kBadModel);
  EXPECT_THAT(
      status.message(),
      ::testing::AllOf(::testing::HasSubstr("self_attn.indexer.wq_b.weight"),
                       ::testing::HasSubstr("[192, 24]"), ::testing::HasSubstr("[160, 24]")));
}

TEST(GoldenLoad, PlannedBytesAreThoseThatAreTaken) {
  for (const char* name :
       {"llama", "gemma3", "qwen3", "qwen3_next", "lfm2_bias", "mamba2", "jamba", "minimax",
        "gemma4_e", "gemma3n", "deepseek_v32", "glm_moe_dsa_shared"}) {
    const Fixture fixture = LoadFolder(name);
    auto runner = Open(fixture);
    ASSERT_NE(runner, nullptr);
    const auto planned =
        model::PlanWeights(runner->files(), runner->device(), runner->model().options().activation);
    ASSERT_TRUE(planned.ok()) << planned.status().message();
    EXPECT_EQ(planned->bytes, runner->model().parameters().bytes());
  }
}

TEST(GoldenForward, AllThreadsGiveTheBitsOfOne) {
  for (const char* name :
       {"gemma2", "llama_bias", "qwen3_next", "lfm2", "mamba2", "bamba", "jamba", "minimax",
        "gemma4_e", "gemma3n", "deepseek_v32", "glm_moe_dsa_shared"}) {
    const Fixture fixture = LoadFolder(name);
    auto one = Open(fixture);
    auto all = Open(fixture, OpenFiles(fixture), /*threads=*/0);
    ASSERT_TRUE(one != nullptr && all != nullptr);
    for (size_t chunk : {7, 48}) {
      EXPECT_EQ(CountDifferent(RunChunks(one.get(), fixture.prompt, chunk, true),
                               RunChunks(all.get(), fixture.prompt, chunk, true)),
                0u);
    }
  }
}

TEST(GoldenForward, NoTokensAndNoRowsAreLegal) {
  const Fixture fixture = LoadFolder("llama");
  auto runner = Open(fixture);
  ASSERT_NE(runner, nullptr);
  const auto nothing = runner->Step({}, false);
  ASSERT_TRUE(nothing.ok()) << nothing.status().message();
  EXPECT_TRUE(nothing->empty());
}

}  // namespace
}  // namespace sluice::golden
