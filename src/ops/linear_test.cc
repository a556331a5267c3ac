// Every implementation of linear that this machine can run, against double precision and, to the
// bit, against the reference.
#include "ops/linear.h"
#include "ops/conformance_case.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device/backend.h"
#include "ops/formats/format.h"
#include "ops/formats/rows.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using testing::HasSubstr;

Tensor Matrix(float* data, int64_t rows, int64_t columns, int64_t stride) {
  Tensor tensor;
  tensor.data = reinterpret_cast<std::byte*>(data);
  tensor.rank = 2;
  tensor.dims = {rows, columns, 0, 0};
  tensor.strides = {stride, 1, 0, 0};
  return tensor;
}

Tensor Vector(float* data, int64_t size) {
  Tensor tensor;
  tensor.data = reinterpret_cast<std::byte*>(data);
  tensor.rank = 1;
  tensor.dims = {size, 0, 0, 0};
  tensor.strides = {1, 0, 0, 0};
  return tensor;
}

// The CPU device with its best instruction set, whose table has the implementations for lesser ones
// as well, and a stream of it.
class Cpu {
 public:
  // `threads`: 1, or 0 for one per core.
  explicit Cpu(int threads, const std::string& instruction_set = "") {
    for (const device::Backend* backend : device::LinkedBackends()) {
      if (backend->kind() != device::DeviceKind::kCpu) continue;
      device_ = std::move(
          backend->Open({}, 0, {.threads = threads, .instruction_set = instruction_set}).value());
    }
    stream_ = std::move(device_->CreateStream().value());
  }
  const OpTable& table() const { return device_->ops(); }
  device::Stream& stream() { return *stream_; }
  const device::DeviceFacts& facts() const { return device_->facts(); }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
};

// Rows of W in the format. K formats, and those without a quantizer, get random blocks with sane
// scales.
std::vector<std::byte> RandomWeight(DType dtype, int64_t n, int64_t k, std::mt19937& random) {
  std::vector<std::byte> bytes(RowBytes(dtype, static_cast<size_t>(n * k)));
  std::normal_distribution<float> normal;
  if (CanQuantize(dtype) && Info(dtype).block < 256) {
    std::vector<float> row(k);
    for (int64_t i = 0; i < n; ++i) {
      for (float& value : row) value = normal(random);
      QuantizeRow(dtype, row, bytes.data() + i * RowBytes(dtype, static_cast<size_t>(k)));
    }
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const BlockFormat& format = *FindBlockFormat(dtype);
  for (size_t at = 0; at < bytes.size(); at += BlockBytes(format)) {
    const float d = 0.02f * normal(random), m = 0.02f * normal(random);
    SetScale(format, d, m, &bytes[at]);
  }
  return bytes;
}

// One linear with its inputs; x has rows further apart than k.
struct Case {
  Linear::Desc desc;
  int64_t m, x_stride;
  std::vector<std::byte> weight;
  std::vector<float> x, bias, residual;
  std::vector<float> scales;  // of W, where the descriptor has some
  float x_scale = 1.0f;
  std::vector<int32_t> order;  // of W's columns, where the descriptor says so

  Case(DType dtype, int64_t rows, int64_t n, int64_t k, bool bias_and_residual, uint32_t seed = 1)
      : m(rows), x_stride(k + 5) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    desc = {
        .weight = dtype, .n = n, .k = k, .bias = bias_and_residual, .residual = bias_and_residual};
    weight = RandomWeight(dtype, n, k, random);
    x.resize(m * x_stride);
    for (float& value : x) value = normal(random) * (random() % 50 == 0 ? 8.0f : 1.0f);
    bias.resize(n);
    residual.resize(m * n);
    for (float& value : bias) value = normal(random);
    for (float& value : residual) value = normal(random);
  }

  // An F8 weight with scales.
  Case(WeightScales weight_scales, ActivationScales x_scales, int64_t rows, int64_t n, int64_t k)
      : Case(DType::kF8E4M3, rows, n, k, true) {
    desc.x_scales = x_scales;
    SetScales(weight_scales);
  }

  void SetScales(WeightScales weight_scales) {
    desc.weight_scales = weight_scales;
    std::mt19937 random(7);
    size_t count = 1;
    for (const int64_t dim : ScaleShape(desc)) count *= static_cast<size_t>(dim);
    scales.resize(count);
    for (float& scale : scales) scale = 0.01f * static_cast<float>(1 + random() % 100);
  }

  void SetOrder() {
    desc.ordered = true;
    order.resize(desc.k);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
  }

  double WeightScaleAt(int64_t row, int64_t column) const {
    if (scales.empty()) return 1.0;
    if (desc.weight_scales == WeightScales::kTensor) return scales[0];
    if (desc.weight_scales == WeightScales::kRow) return scales[row];
    return scales[row / 128 * ((desc.k + 127) / 128) + column / 128];
  }
};

std::vector<std::byte> Pack(const LinearPacking& packing, const Case& c) {
  std::vector<std::byte> packed(packing.packed_bytes(c.desc));
  const size_t row_bytes = RowBytes(c.desc.weight, static_cast<size_t>(c.desc.k));
  // In two parts, as fused matrices are.
  const size_t first = static_cast<size_t>(c.desc.n / 3) * row_bytes;
  const std::span<const std::byte> rows(c.weight);
  EXPECT_TRUE(packing.pack(c.desc, 0, rows.first(first), packed).ok());
  EXPECT_TRUE(packing.pack(c.desc, c.desc.n / 3, rows.subspan(first), packed).ok());
  return packed;
}

// Rows [first, first + rows) of the case by one implementation; out is [rows, n].
std::vector<float> Compute(Cpu& cpu, const Implementation<Linear>& implementation, Case& c,
                           const std::vector<std::byte>& packed, int64_t first, int64_t rows) {
  const LinearPacking& packing = PackingOf(cpu.table(), implementation.name);
  PackedWeight weight;
  weight.data.data = const_cast<std::byte*>(packed.data());
  weight.data.rank = 1;
  weight.data.dtype = DType::kU8;
  weight.data.dims[0] = static_cast<int64_t>(packed.size());
  weight.dtype = c.desc.weight;
  weight.layout = packing.layout;
  weight.n = c.desc.n;
  weight.k = c.desc.k;
  if (c.desc.weight_scales != WeightScales::kNone) {
    const std::vector<int64_t> shape = ScaleShape(c.desc);
    weight.scales = shape.size() == 1 ? Vector(c.scales.data(), shape[0])
                                      : Matrix(c.scales.data(), shape[0], shape[1], shape[1]);
  }
  if (c.desc.x_scales == ActivationScales::kTensor) weight.x_scale = Vector(&c.x_scale, 1);
  if (c.desc.ordered) {
    weight.order = Vector(reinterpret_cast<float*>(c.order.data()), c.desc.k);
    weight.order.dtype = DType::kI32;
  }
  // A guard column shows writes past a row's end.
  const int64_t stride = c.desc.n + 1;
  std::vector<float> padded(rows * stride, 77.0f), out;
  Linear::Args args;
  args.x = Matrix(c.x.data() + first * c.x_stride, rows, c.desc.k, c.x_stride);
  args.weight = &weight;
  if (c.desc.bias) args.bias = Vector(c.bias.data(), c.desc.n);
  if (c.desc.residual) {
    args.residual = Matrix(c.residual.data() + first * c.desc.n, rows, c.desc.n, c.desc.n);
  }
  args.out = Matrix(padded.data(), rows, c.desc.n, stride);
  const Status status = implementation.run(cpu.stream(), c.desc, args);
  EXPECT_TRUE(status.ok()) << status.message();
  for (int64_t i = 0; i < rows; ++i) {
    out.insert(out.end(), &padded[i * stride], &padded[i * stride + c.desc.n]);
    EXPECT_EQ(padded[i * stride + c.desc.n], 77.0f);
  }
  return out;
}

// W x + bias + residual in double precision, and the sum of |w x| that errors scale with.
void Exact(const Case& c, std::vector<double>* out, std::vector<double>* magnitude) {
  std::vector<float> w(c.desc.k);
  out->assign(c.m * c.desc.n, 0.0);
  magnitude->assign(c.m * c.desc.n, 0.0);
  for (int64_t j = 0; j < c.desc.n; ++j) {
    DequantizeRow(c.desc.weight,
                  &c.weight[j * RowBytes(c.desc.weight, static_cast<size_t>(c.desc.k))], w);
    for (int64_t i = 0; i < c.m; ++i) {
      double sum = 0, squares = 0;
      for (int64_t k = 0; k < c.desc.k; ++k) {
        const int64_t from = c.desc.ordered ? c.order[k] : k;
        const double product =
            double{w[k]} * c.WeightScaleAt(j, k) * double{c.x[i * c.x_stride + from]};
        sum += product;
        squares += product * product;
      }
      if (c.desc.bias) sum += double{c.bias[j]} + double{c.residual[i * c.desc.n + j]};
      (*out)[i * c.desc.n + j] = sum;
      (*magnitude)[i * c.desc.n + j] = std::sqrt(squares);
    }
  }
}

size_t Mismatches(const std::vector<float>& a, const std::vector<float>& b) {
  size_t count = a.size() == b.size() ? 0 : 1 + a.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  }
  return count;
}

std::string DTypeName(const testing::TestParamInfo<DType>& info) {
  return std::string(Name(info.param));
}

class LinearFormats : public testing::TestWithParam<DType> {
 protected:
  // Implementations that take the case, the reference last.
  std::vector<Implementation<Linear>> Implementations(const Cpu& cpu, const Linear::Desc& desc) {
    std::vector<Implementation<Linear>> found;
    for (const auto& implementation : cpu.table().List<Linear>()) {
      if (implementation.supports(desc, cpu.facts()).ok) found.push_back(implementation);
    }
    EXPECT_EQ(found.back().name, "ref_linear");
    return found;
  }
};

TEST_P(LinearFormats, ReferenceIsCloseToDoublePrecision) {
  Cpu cpu(1);
  Case c(GetParam(), 5, 37, 768, true);
  const auto reference = Implementations(cpu, c.desc).back();
  const std::vector<float> out =
      Compute(cpu, reference, c, Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
  std::vector<double> exact, magnitude;
  Exact(c, &exact, &magnitude);
  // Plain formats: rounding of the accumulation. Block formats: 8-bit codes of x, whose error is a
  // uniform step of max / 127 per block. Where a third of W is zero, sums may lack their largest
  // products but not the errors of the others: 0.069.
  const bool ternary = GetParam() == DType::kTQ1_0 || GetParam() == DType::kTQ2_0;
  const double tolerance = FindBlockFormat(GetParam()) == nullptr ? 2e-5 : ternary ? 0.08 : 0.06;
  double worst = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    worst = std::max(worst, std::fabs(double{out[i]} - exact[i]) / (magnitude[i] + 1e-3));
  }
  EXPECT_LT(worst, tolerance);
}

// x on the grid of its own codes: quantizing x loses nothing, so what is left is rounding.
TEST_P(LinearFormats, ReferenceIsExactForActivationsOnTheGrid) {
  Cpu cpu(1);
  Case c(GetParam(), 3, 19, 512, false);
  for (size_t i = 0; i < c.x.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % c.x_stride;
    c.x[i] = column % 32 == 0 ? 127.0f : static_cast<float>(static_cast<int>(i * 7919 % 255) - 127);
  }
  const auto reference = Implementations(cpu, c.desc).back();
  const std::vector<float> out =
      Compute(cpu, reference, c, Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
  std::vector<double> exact, magnitude;
  Exact(c, &exact, &magnitude);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(double{out[i]}, exact[i], 2e-6 * magnitude[i] * 16);
  }
}

TEST_P(LinearFormats, EveryImplementationGivesTheBitsOfTheReference) {
  Cpu cpu(0);
  const bool blocks_of_256 = Info(GetParam()).block == 256;
  const int64_t k_small = blocks_of_256 ? 256 : 576, k_large = 1536;
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 192, k_small},
                                {1, 1, k_small},
                                {2, 17, k_small},
                                {3, 15, k_large},
                                {7, 100, k_small},
                                {17, 33, k_small},
                                {64, 48, k_large}}) {
    Case c(GetParam(), m, n, k, m % 2 == 1);
    const auto implementations = Implementations(cpu, c.desc);
    const auto& reference = implementations.back();
    const std::vector<float> expected =
        Compute(cpu, reference, c, Pack(PackingOf(cpu.table(), reference.name), c), 0, m);
    for (const auto& implementation : implementations) {
      // Other arithmetic, held against a plain loop of its own in the backend's tests.
      if (implementation.arithmetic == Arithmetic::kBf16) continue;
      const LinearPacking& packing = PackingOf(cpu.table(), implementation.name);
      EXPECT_EQ(Mismatches(Compute(cpu, implementation, c, Pack(packing, c), 0, m), expected), 0u)
          << implementation.name << " " << c.desc.ToString() << " m=" << m;
    }
  }
}

// Sameness: the bits of a row do not depend on the rows around it, on its place, or on the threads
// (0: one per core; more than there are is a case of the backend's own test).
TEST_P(LinearFormats, ARowGivesTheSameBitsInEveryBatch) {
  Cpu one(1);
  Case c(GetParam(), 64, 50, 512, true);
  for (const auto& implementation : Implementations(one, c.desc)) {
    const std::vector<std::byte> packed = Pack(PackingOf(one.table(), implementation.name), c);
    std::vector<float> alone;
    for (int64_t row = 0; row < c.m; ++row) {
      const std::vector<float> out = Compute(one, implementation, c, packed, row, 1);
      alone.insert(alone.end(), out.begin(), out.end());
    }
    size_t compared = 0, different = 0;
    for (int threads : {1, 0}) {
      Cpu cpu(threads);
      for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64}) {
        const int64_t first = (rows * 5 + threads) % (c.m - rows + 1);
        const std::vector<float> out = Compute(cpu, implementation, c, packed, first, rows);
        const std::vector<float> expected(alone.begin() + first * c.desc.n,
                                          alone.begin() + (first + rows) * c.desc.n);
        different += Mismatches(out, expected);
        compared += out.size();
      }
    }
    EXPECT_EQ(different, 0u) << implementation.name << ": of " << compared;
  }
}

// NaN and infinity end their own row, not the batch; zeros and tiny values are fine.
TEST_P(LinearFormats, BadRowsStayAlone) {
  Cpu cpu(0);
  Case c(GetParam(), 6, 20, 512, false);
  c.x[1 * c.x_stride + 40] = std::numeric_limits<float>::quiet_NaN();
  c.x[2 * c.x_stride + 500] = std::numeric_limits<float>::infinity();
  std::fill_n(&c.x[3 * c.x_stride], c.desc.k, 0.0f);
  std::fill_n(&c.x[4 * c.x_stride], c.desc.k, 1e-42f);
  Case clean = c;
  std::fill_n(&clean.x[1 * c.x_stride], 2 * c.x_stride, 1.0f);
  for (const auto& implementation : Implementations(cpu, c.desc)) {
    const std::vector<std::byte> packed = Pack(PackingOf(cpu.table(), implementation.name), c);
    const std::vector<float> out = Compute(cpu, implementation, c, packed, 0, c.m);
    const std::vector<float> expected = Compute(cpu, implementation, clean, packed, 0, c.m);
    for (int64_t i = 0; i < c.m * c.desc.n; ++i) {
      const int64_t row = i / c.desc.n;
      if (row == 1 || row == 2) {
        EXPECT_FALSE(std::isfinite(out[i])) << implementation.name << " row " << row;
      } else {
        EXPECT_EQ(out[i], expected[i]) << implementation.name << " row " << row;
        EXPECT_TRUE((row != 3 && row != 4) || std::fabs(out[i]) < 1e-30f);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LinearFormats,
                         testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                                         DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                                         DType::kQ5_1, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                         DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kMXFP4,
                                         DType::kIQ4_XS, DType::kIQ3_XXS, DType::kIQ3_S,
                                         DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,
                                         DType::kIQ1_S, DType::kIQ1_M, DType::kTQ1_0, DType::kTQ2_0,
                                         DType::kNVFP4, DType::kI8),
                         DTypeName);

// Every byte that F8 can be, NaN among them: kernels convert it by arithmetic.
TEST(Linear, EveryF8ValueConverts) {
  Cpu cpu(1);
  Case c(DType::kF8E4M3, 1, 256, 1, false);
  for (int i = 0; i < 256; ++i) c.weight[i] = static_cast<std::byte>(i);
  c.x[0] = 1.0f;
  for (const auto& implementation : cpu.table().List<Linear>()) {
    if (!implementation.supports(c.desc, cpu.facts()).ok) continue;
    const std::vector<float> out =
        Compute(cpu, implementation, c, Pack(PackingOf(cpu.table(), implementation.name), c), 0, 1);
    for (int i = 0; i < 256; ++i) {
      const float expected = F8E4M3ToF32(static_cast<uint8_t>(i));
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(out[i]) : out[i] == expected)
          << implementation.name << " " << i << ": " << out[i] << " and " << expected;
    }
  }
}

// Block formats with scales of rows or of all beside their own, or with columns in another order.
class LinearBlocks : public LinearFormats {
 protected:
  void Check(Case& c) {
    Cpu cpu(0);
    const auto implementations = Implementations(cpu, c.desc);
    EXPECT_GE(implementations.size(), 2u);
    const std::vector<float> expected = Compute(
        cpu, implementations.back(), c, Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
    std::vector<double> exact, magnitude;
    Exact(c, &exact, &magnitude);
    for (size_t i = 0; i < expected.size(); ++i) {
      // The largest error of 4810 outputs is 0.074.
      EXPECT_NEAR(double{expected[i]}, exact[i], 0.08 * (magnitude[i] + 1e-3)) << c.desc.ToString();
    }
    for (const auto& implementation : implementations) {
      const LinearPacking& packing = PackingOf(cpu.table(), implementation.name);
      EXPECT_EQ(Mismatches(Compute(cpu, implementation, c, Pack(packing, c), 0, c.m), expected), 0u)
          << implementation.name << " " << c.desc.ToString() << " m=" << c.m;
    }
  }
};

TEST_P(LinearBlocks, ScalesAreMultipliedToTheSum) {
  for (const WeightScales scales : {WeightScales::kTensor, WeightScales::kRow}) {
    for (const int64_t m : {1, 5, 130}) {
      Case c(GetParam(), m, 37, 256, m == 5);
      c.SetScales(scales);
      Check(c);
    }
  }
}

TEST_P(LinearBlocks, ColumnsMayHaveAnOrderOfTheirOwn) {
  for (const int64_t m : {1, 5, 130}) {
    Case c(GetParam(), m, 37, 256, m == 5);
    c.SetOrder();
    Check(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LinearBlocks,
                         testing::Values(DType::kI8, DType::kNVFP4, DType::kQ4_1, DType::kIQ3_S),
                         DTypeName);

constexpr WeightScales kAllScales[] = {WeightScales::kTensor, WeightScales::kRow,
                                       WeightScales::kBlock};

TEST(LinearScales, ReferenceIsCloseToDoublePrecision) {
  Cpu cpu(1);
  for (const WeightScales scales : kAllScales) {
    // More than one block of rows and of columns, the last ones ragged.
    Case c(scales, ActivationScales::kNone, 5, 150, 300);
    const std::vector<float> out = Compute(cpu, cpu.table().List<Linear>().back(), c,
                                           Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
    std::vector<double> exact, magnitude;
    Exact(c, &exact, &magnitude);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(double{out[i]}, exact[i], 1e-5 * magnitude[i] + 1e-6) << c.desc.ToString();
    }
  }
}

TEST(LinearScales, EveryImplementationGivesTheBitsOfTheReferenceInEveryBatch) {
  Cpu cpu(0);
  for (const WeightScales scales : kAllScales) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {17, 128}, {150, 300}}) {
      Case c(scales, ActivationScales::kNone, 33, n, k);
      const auto& all = cpu.table().List<Linear>();
      const std::vector<float> expected =
          Compute(cpu, all.back(), c, Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
      int found = 0;
      for (const auto& implementation : all) {
        if (!implementation.supports(c.desc, cpu.facts()).ok) continue;
        ++found;
        const std::vector<std::byte> packed = Pack(PackingOf(cpu.table(), implementation.name), c);
        for (const int64_t rows : {1, 2, 3, 12, 33}) {
          const int64_t first = c.m - rows;
          const std::vector<float> of_rows(expected.begin() + first * n, expected.end());
          EXPECT_EQ(Mismatches(Compute(cpu, implementation, c, packed, first, rows), of_rows), 0u)
              << implementation.name << " " << c.desc.ToString() << " m=" << rows;
        }
      }
      EXPECT_GE(found, UsableInstructionSets().size() > 1 ? 2 : 1);
    }
  }
}

// x / scale to F8 and back.
double Rounded(float x, float scale) {
  return double{F8E4M3ToF32(F32ToF8E4M3(x / scale))} * double{scale};
}

TEST(LinearScales, ReferenceRoundsActivationsByTheScaleThatCoversThem) {
  Cpu cpu(1);
  const auto& reference = cpu.table().List<Linear>().back();
  for (const WeightScales scales : kAllScales) {
    for (const ActivationScales x_scales :
         {ActivationScales::kTensor, ActivationScales::kRow, ActivationScales::kBlock}) {
      Case c(scales, x_scales, 3, 130, 200);
      c.x_scale = 0.004f;  // some elements are beyond 448 of it
      std::fill_n(&c.x[c.x_stride], c.desc.k, 0.0f);
      const std::vector<float> out =
          Compute(cpu, reference, c, Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
      const int64_t covers = x_scales == ActivationScales::kBlock ? 128 : c.desc.k;
      for (int64_t row = 0; row < c.m; ++row) {
        float* x = &c.x[row * c.x_stride];
        for (int64_t begin = 0; begin < c.desc.k; begin += covers) {
          float largest = 0.0f;
          const int64_t end = std::min(begin + covers, c.desc.k);
          for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::fabs(x[k]));
          float scale = largest == 0.0f ? 1.0f : largest / 448.0f;
          if (x_scales == ActivationScales::kTensor) scale = c.x_scale;
          for (int64_t k = begin; k < end; ++k) x[k] = static_cast<float>(Rounded(x[k], scale));
        }
      }
      std::vector<double> exact, magnitude;
      Exact(c, &exact, &magnitude);
      for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_NEAR(double{out[i]}, exact[i], 1e-5 * magnitude[i] + 1e-6) << c.desc.ToString();
      }
    }
  }
}

TEST(LinearScales, RowsThatAreNoNumbersStayAlone) {
  Cpu cpu(1);
  const auto& reference = cpu.table().List<Linear>().back();
  for (const ActivationScales x_scales : {ActivationScales::kRow, ActivationScales::kBlock}) {
    Case c(WeightScales::kBlock, x_scales, 3, 20, 200);
    c.x[5] = std::numeric_limits<float>::quiet_NaN();
    c.x[2 * c.x_stride + 199] = std::numeric_limits<float>::infinity();
    const std::vector<float> out =
        Compute(cpu, reference, c, Pack(PackingOf(cpu.table(), "ref_linear"), c), 0, c.m);
    for (int64_t i = 0; i < c.m * c.desc.n; ++i) {
      EXPECT_EQ(std::isnan(out[i]), i / c.desc.n != 1) << i;
    }
  }
}

TEST(LinearScales, OtherWeightsAndWrongScalesAreRefused) {
  Cpu cpu(1);
  const auto why = [&](const Linear::Desc& desc) {
    const auto bound = Bind<Linear>(cpu.table(), desc);
    return bound.ok() ? std::string() : bound.status().message();
  };
  EXPECT_THAT(why({.weight = DType::kBF16, .weight_scales = WeightScales::kRow, .n = 8, .k = 8}),
              HasSubstr("ref_linear: scales of weights in BF16"));
  EXPECT_THAT(why({.weight = DType::kF8E4M3, .x_scales = ActivationScales::kRow, .n = 8, .k = 8}),
              HasSubstr("ref_linear: activations in F8 beside weights without scales"));

  Case c(WeightScales::kBlock, ActivationScales::kTensor, 2, 130, 130);
  EXPECT_THAT(c.desc.ToString(),
              HasSubstr("F8_E4M3 scaled by block 130x130 on F32 in F8 by tensor"));
  std::vector<float> out(2 * 130);
  PackedWeight weight = {.dtype = DType::kF8E4M3, .n = 130, .k = 130};
  weight.data = Matrix(reinterpret_cast<float*>(c.weight.data()), 130, 130, 130);
  const Linear::Args args = {.x = Matrix(c.x.data(), 2, 130, c.x_stride),
                             .weight = &weight,
                             .bias = Vector(c.bias.data(), 130),
                             .residual = Matrix(c.residual.data(), 2, 130, 130),
                             .out = Matrix(out.data(), 2, 130, 130)};
  const auto error = [&] { return RefLinear(cpu.stream(), c.desc, args).message(); };
  EXPECT_THAT(error(), HasSubstr("scales is missing, expected F32 [2, 2]"));
  weight.scales = Vector(c.scales.data(), 4);
  EXPECT_THAT(error(), HasSubstr("scales is F32 [4], expected F32 [2, 2]"));
  weight.scales = Matrix(c.scales.data(), 2, 2, 2);
  EXPECT_THAT(error(), HasSubstr("x_scale is missing, expected F32 [1]"));
  weight.x_scale = Vector(&c.x_scale, 1);
  EXPECT_EQ(error(), "");
  c.desc.x_scales = ActivationScales::kNone;
  EXPECT_THAT(error(), HasSubstr("x_scale is given, but the descriptor has none"));
}

TEST(Linear, TheInstructionSetAskedForIsTheOneUsed) {
  for (const std::string& set : UsableInstructionSets()) {
    Cpu cpu(1, set);
    const auto bound = Bind<Linear>(cpu.table(), {.weight = DType::kQ4_1, .n = 64, .k = 64});
    ASSERT_TRUE(bound.ok());
    EXPECT_EQ(bound->name(), set == "ref" ? "ref_linear" : StrCat(set, "_int8_linear"));
  }
}

TEST(Linear, UnsupportedDescriptorsSayWhy) {
  Cpu cpu(1);
  for (const Linear::Desc& desc :
       {Linear::Desc{.weight = DType::kI32, .n = 8, .k = 8},
        Linear::Desc{.weight = DType::kQ4_K, .n = 8, .k = 576},
        Linear::Desc{.weight = DType::kF32, .activation = DType::kI8, .n = 8, .k = 8}}) {
    const auto bound = Bind<Linear>(cpu.table(), desc);
    ASSERT_FALSE(bound.ok());
    EXPECT_THAT(bound.status().message(), HasSubstr("ref_linear: "));
  }
}

TEST(Linear, BadCallsAreErrors) {
  Cpu cpu(1);
  Case c(DType::kQ4_1, 2, 40, 64, false);
  for (const auto& implementation : cpu.table().List<Linear>()) {
    if (!implementation.supports(c.desc, cpu.facts()).ok) continue;
    const LinearPacking& packing = PackingOf(cpu.table(), implementation.name);
    std::vector<std::byte> packed = Pack(packing, c);
    EXPECT_FALSE(packing.pack(c.desc, 1, c.weight, packed).ok());
    EXPECT_FALSE(packing.pack(c.desc, -1, c.weight, packed).ok());
    EXPECT_FALSE(packing.pack(c.desc, 0, std::span(c.weight).first(7), packed).ok());
    EXPECT_FALSE(packing.pack(c.desc, 0, c.weight, std::span(packed).first(8)).ok());
    Linear::Args args;
    args.x = Matrix(c.x.data(), 2, 64, c.x_stride);
    EXPECT_FALSE(implementation.run(cpu.stream(), c.desc, args).ok());
  }
}

TEST(Linear, TensorsElsewhereAndOutputsOverInputsAreRefusedBeforeAnythingIsWritten) {
  Cpu cpu(1);
  Case c(DType::kF32, 2, 8, 8, true);
  // x, then out, then what a residual in place takes: one piece of memory, so that they can
  // overlap.
  std::vector<float> memory(64, 7.0f);
  const std::vector<float> untouched = memory;
  PackedWeight weight = {.dtype = DType::kF32, .layout = LayoutId::kRowMajor, .n = 8, .k = 8};
  weight.data = Matrix(reinterpret_cast<float*>(c.weight.data()), 8, 8, 8);
  const Linear::Args good = {.x = Matrix(&memory[0], 2, 8, 8),
                             .weight = &weight,
                             .bias = Vector(c.bias.data(), 8),
                             .residual = Matrix(&memory[32], 2, 8, 8),
                             .out = Matrix(&memory[16], 2, 8, 8)};
  const auto error = [&](Linear::Args args, Linear::Desc desc) {
    const Status status = RefLinear(cpu.stream(), desc, args);
    EXPECT_EQ(memory, untouched);
    return status.message();
  };
  const device::DeviceId elsewhere = {device::DeviceKind::kCuda, 1};
  for (Tensor Linear::Args::*tensor :
       {&Linear::Args::bias, &Linear::Args::residual, &Linear::Args::out}) {
    Linear::Args args = good;
    (args.*tensor).device = elsewhere;
    EXPECT_THAT(error(args, c.desc), HasSubstr("lies on cuda:1, the call runs on cpu"));
  }
  weight.data.device = elsewhere;
  EXPECT_THAT(error(good, c.desc), HasSubstr("weight lies on cuda:1, the call runs on cpu"));
  weight.data.device = {};

  Linear::Args args = good;
  args.out = args.x;
  EXPECT_THAT(error(args, c.desc), HasSubstr("x and out overlap"));
  args = good;
  args.residual = Matrix(&memory[24], 2, 8, 8);
  EXPECT_THAT(error(args, c.desc), HasSubstr("residual and out overlap"));
  args = good;
  const Linear::Desc plain = {.weight = DType::kF32, .n = 8, .k = 8};
  EXPECT_THAT(error(args, plain), HasSubstr("is given, but the descriptor has none"));

  args.residual = args.out;  // in place is right
  EXPECT_TRUE(RefLinear(cpu.stream(), c.desc, args).ok());
  EXPECT_NE(memory, untouched);
}

}  // namespace
}  // namespace sluice::ops
