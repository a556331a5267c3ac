// Every implementation's outputs are the reference's to the bit, whatever the row, its neighbours
// and the number of threads.
#include "backend/cpu/sampling/sample_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/sampling/select.h"
#include "ops/sampling_rules.h"

namespace sluice::cpu {
namespace {

using namespace ops;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kTopMax = 20;

template <class T>
T Pick(std::mt19937& random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

template <class T>
Tensor TensorOf(std::vector<T>& values, DType dtype, std::initializer_list<int64_t> dims) {
  return Dense({reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T), {}, {}},
               dtype, dims);
}

// A call with rows of every shape that matters.
struct Batch {
  int64_t vocab = 0;
  std::vector<std::vector<float>> logits;
  std::vector<SampleRow> rows;
  std::vector<LogitEdit> edits;
  std::vector<int32_t> masks;
  int distributions = 0;
};

std::vector<float> RandomLogits(std::mt19937& random, int64_t vocab) {
  std::normal_distribution<float> normal;
  std::vector<float> x(vocab);
  const int kind = static_cast<int>(random() % 12);
  for (float& value : x) {
    value = normal(random);
    if (kind == 1) value *= 5.0f;                       // wide
    if (kind == 2) value *= 0.01f;                      // flat
    if (kind == 3) value = std::round(2.0f * value);    // many ties
    if (kind == 4) value = 1.5f;                        // nothing else
    if (kind == 5 && random() % 3 == 0) value = -kInf;  // holes
    if (kind == 6) value *= std::ldexp(1.0f, static_cast<int>(random() % 250) - 125);
    if (kind == 7) value = std::min(0.0f, std::round(value));  // zeros above the rest
    if (kind == 8) value = random() % 20 == 0 ? 3.0f : -kInf;
  }
  if (kind >= 9) {  // peaked
    for (int i = 0; i < 9; ++i) x[random() % vocab] = 6.0f + 3.0f * normal(random);
  }
  const int odd = static_cast<int>(random() % 40);
  if (odd == 0) x[random() % vocab] = std::nanf("");
  if (odd == 1) x[random() % vocab] = kInf;
  if (odd == 2) std::fill(x.begin(), x.end(), odd % 2 == 0 ? 0.0f : -0.0f);
  if (odd == 3) std::fill(x.begin(), x.end(), -kInf);
  if (odd == 4) std::fill(x.begin(), x.end(), std::nanf(""));
  if (odd == 5) {
    std::fill(x.begin(), x.end(), std::nanf(""));
    x[random() % vocab] = -kInf;
  }
  return x;
}

Batch RandomBatch(std::mt19937& random, int64_t vocab, int rows) {
  Batch batch{.vocab = vocab};
  const int64_t words = (vocab + 31) / 32;
  for (int r = 0; r < rows; ++r) {
    batch.logits.push_back(RandomLogits(random, vocab));
    SampleRow row{
        .draw = random() % 8 != 0,
        .target = static_cast<int32_t>(random() % vocab),
        .temperature = Pick(random, {0.0f, 1e-40f, 0.05f, 0.3f, 0.8f, 1.0f, 1.0f, 1.7f, 100.0f}),
        .top_k = Pick(random, {0, 0, 0, 1, 2, 5, 40, 100, 700, 3000, -4}),
        .top_p = Pick(random, {1.0f, 1.0f, 0.9f, 0.9f, 0.5f, 0.9999999f, 0.01f, 0.0f}),
        .min_p = Pick(random, {0.0f, 0.0f, 0.05f, 0.5f, 1.0f, 1e-30f}),
        .seed = random(),
        .choice = static_cast<int32_t>(random() % 3),
        .position = r,
        .top_logprobs = Pick(random, {-1, -1, 0, 1, 5, 20}),
        .distribution_row = random() % 10 == 0 ? batch.distributions++ : -1};
    row.edit_begin = static_cast<int32_t>(batch.edits.size());
    row.edit_count = random() % 3 == 0 ? static_cast<int32_t>(random() % 6) : 0;
    int32_t id = -1;
    for (int e = 0; e < row.edit_count; ++e) {
      id += 1 + static_cast<int32_t>(random() % (1 + vocab / 5));
      batch.edits.push_back({.id = id,
                             .bias = Pick(random, {0.0f, 2.0f, -100.0f, kInf}),
                             .repetition = Pick(random, {1.0f, 1.3f}),
                             .subtract = Pick(random, {0.0f, 0.7f}),
                             .banned = random() % 4 == 0});
    }
    if (random() % 4 == 0) {
      row.mask_row = static_cast<int32_t>(batch.masks.size() / words);
      const int kind = static_cast<int>(random() % 3);
      for (int64_t w = 0; w < words; ++w) {
        const uint32_t sparse = random() & random() & random() & random();
        batch.masks.push_back(static_cast<int32_t>(kind == 0   ? random()
                                                   : kind == 1 ? sparse
                                                               : 1u << random() % 32));
      }
      if (random() % 12 == 0) std::fill(batch.masks.end() - words, batch.masks.end(), 0);
      row.top_allowed = random() % 2 == 0;
    }
    batch.rows.push_back(row);
  }
  return batch;
}

// Everything that a call writes, what it leaves alone included.
struct Written {
  std::vector<SampleOutput> outputs;
  std::vector<int32_t> ids;
  std::vector<float> logprobs, distributions;
};

Written RunBatch(Batch& batch, const std::string& name, int threads) {
  CpuDevice device(DetectCpu(), DetectCpu().best, threads);
  const auto stream = std::move(device.CreateStream().value());
  const int64_t rows = static_cast<int64_t>(batch.rows.size()), vocab = batch.vocab;
  std::vector<float> logits;
  for (const auto& row : batch.logits) logits.insert(logits.end(), row.begin(), row.end());
  Written written{.outputs = std::vector<SampleOutput>(rows),
                  .ids = std::vector<int32_t>(rows * (kTopMax + 1), -7),
                  .logprobs = std::vector<float>(rows * (kTopMax + 1), -7.0f),
                  .distributions = std::vector<float>(batch.distributions * vocab, -7.0f)};
  Sample::Args args;
  args.logits = TensorOf(logits, DType::kF32, {rows, vocab});
  args.rows = TensorOf(batch.rows, DType::kU8, {rows, int64_t{sizeof(SampleRow)}});
  args.edits = TensorOf(batch.edits, DType::kU8,
                        {static_cast<int64_t>(batch.edits.size()), int64_t{sizeof(LogitEdit)}});
  const int64_t words = (vocab + 31) / 32;
  args.masks =
      TensorOf(batch.masks, DType::kI32, {static_cast<int64_t>(batch.masks.size()) / words, words});
  args.outputs = TensorOf(written.outputs, DType::kU8, {rows, int64_t{sizeof(SampleOutput)}});
  args.top_ids = TensorOf(written.ids, DType::kI32, {rows, kTopMax + 1});
  args.top_logprobs = TensorOf(written.logprobs, DType::kF32, {rows, kTopMax + 1});
  args.distributions =
      TensorOf(written.distributions, DType::kF32, {int64_t{batch.distributions}, vocab});
  for (const auto& one : device.ops().List<Sample>()) {
    if (one.name != name) continue;
    EXPECT_TRUE(one.run(*stream, {vocab, kTopMax}, args).ok());
  }
  return written;
}

uint32_t Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

std::string Describe(const SampleRow& row) {
  return StrCat("draw ", row.draw, " temperature ", row.temperature, " top_k ", row.top_k,
                " top_p ", row.top_p, " min_p ", row.min_p, " edits ", row.edit_count, " mask ",
                row.mask_row, " top_logprobs ", row.top_logprobs);
}

void ExpectSame(const Batch& batch, const Written& got, const Written& want) {
  for (size_t r = 0; r < batch.rows.size(); ++r) {
    SCOPED_TRACE(StrCat("vocab ", batch.vocab, " row ", r, " ", Describe(batch.rows[r])));
    const SampleOutput &a = got.outputs[r], &b = want.outputs[r];
    ASSERT_EQ(a.token, b.token);
    ASSERT_EQ(a.degenerate, b.degenerate);
    ASSERT_EQ(a.rank, b.rank);
    ASSERT_EQ(Bits(a.logprob), Bits(b.logprob)) << a.logprob << " " << b.logprob;
    ASSERT_EQ(Bits(a.processed_logprob), Bits(b.processed_logprob))
        << a.processed_logprob << " " << b.processed_logprob;
    for (size_t i = r * (kTopMax + 1); i < (r + 1) * (kTopMax + 1); ++i) {
      ASSERT_EQ(got.ids[i], want.ids[i]);
      ASSERT_EQ(Bits(got.logprobs[i]), Bits(want.logprobs[i]));
    }
  }
  ASSERT_EQ(got.distributions.size(), want.distributions.size());
  for (size_t i = 0; i < got.distributions.size(); ++i) {
    ASSERT_EQ(Bits(got.distributions[i]), Bits(want.distributions[i])) << i;
  }
}

class SampleRowTest : public ::testing::TestWithParam<Isa> {
 protected:
  std::string name() const { return StrCat(Name(GetParam()), "_f32_sample"); }
  const SamplingKernels& kernels() const {
    return GetParam() == Isa::kAvx512 ? kAvx512SamplingKernels : kAvx2SamplingKernels;
  }
};

std::vector<Isa> Usable() {
  std::vector<Isa> usable;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= DetectCpu().best) usable.push_back(isa);
  }
  return usable;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SampleRowTest);
INSTANTIATE_TEST_SUITE_P(Cpu, SampleRowTest, ::testing::ValuesIn(Usable()),
                         [](const auto& isa) { return std::string(Name(isa.param)); });

TEST_P(SampleRowTest, ThousandsOfRowsGiveTheReferencesBits) {
  std::mt19937 random(5);
  for (const int64_t vocab :
       {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 300, 511, 512, 513, 1000, 2049, 4103}) {
    Batch batch = RandomBatch(random, vocab, 150);
    ASSERT_NO_FATAL_FAILURE(
        ExpectSame(batch, RunBatch(batch, name(), 3), RunBatch(batch, "ref_sample", 1)));
  }
}

// 300,000 ids are more than 512 blocks of 512 and have a grid of their own.
TEST_P(SampleRowTest, RowsOfLargeVocabulariesGiveTheReferencesBits) {
  std::mt19937 random(6);
  for (const int64_t vocab : {49152, 151936, 300000}) {
    Batch batch = RandomBatch(random, vocab, vocab < 100000 ? 40 : 12);
    ASSERT_NO_FATAL_FAILURE(
        ExpectSame(batch, RunBatch(batch, name(), 2), RunBatch(batch, "ref_sample", 1)));
  }
}

// The fixed exponential and the grid against F64: what they lose is below a float's digits.
TEST_P(SampleRowTest, TotalsAreThoseOfAnExactExponential) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const float spread : {0.01f, 2.0f, 8.0f, 40.0f}) {
    std::vector<float> x(49152);
    for (float& value : x) value = spread * normal(random);
    const float max = *std::max_element(x.begin(), x.end());
    double want = 0;
    for (const float value : x) want += std::exp(static_cast<double>(value) - max);
    const int64_t n = static_cast<int64_t>(x.size());
    const double got = kernels().total({.logits = x.data(),
                                        .n = n,
                                        .max = max,
                                        .floor = kWeightFloor,
                                        .grid = WeightGrid(n),
                                        .cut = -kInf,
                                        .ties_end = n});
    EXPECT_NEAR(got / want, 1.0, 2e-7) << spread;
  }
}

// Sums of weights are exact, so that no order of adding them can matter.
TEST_P(SampleRowTest, WeightsAddUpExactlyInAnyOrder) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> x(65535);
  for (float& value : x) value = 4.0f * normal(random);
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<double> weights(n);
  const WeightCall call = {.logits = x.data(),
                           .n = n,
                           .max = *std::max_element(x.begin(), x.end()),
                           .scale = 0.1f,
                           .floor = kWeightFloor,
                           .grid = WeightGrid(n),
                           .cut = -kInf,
                           .ties_end = n};
  kernels().weights(call, weights.data());
  const double total = kernels().total(call);
  for (int order = 0; order < 3; ++order) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    EXPECT_EQ(sum, total);
    std::shuffle(weights.begin(), weights.end(), random);
  }
}

TEST_P(SampleRowTest, SelectCutIsThePrefixThatASortFinds) {
  std::mt19937 random(9);
  for (int round = 0; round < 400; ++round) {
    const int64_t n = 1 + static_cast<int64_t>(random() % 2000);
    std::vector<float> list = RandomLogits(random, n);
    for (float& value : list) {
      if (std::isnan(value)) value = 0.0f;
    }
    std::vector<float> sorted = list;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const int64_t k = 1 + static_cast<int64_t>(random() % n);
    const Cut cut = SelectCut(kernels(), nullptr, list.data(), n, static_cast<double>(k));
    EXPECT_TRUE(cut.reached);
    EXPECT_EQ(cut.value, sorted[k - 1]);
    EXPECT_EQ(cut.ties, k - std::count_if(sorted.begin(), sorted.end(),
                                          [&](float value) { return value > sorted[k - 1]; }));
  }
}

}  // namespace
}  // namespace sluice::cpu
