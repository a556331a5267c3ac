#include "backend/cpu/ceilings/meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "backend/cpu/ceilings/kernels.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/thread_pool.h"
#include "base/str_cat.h"
#include "ops/linear.h"

namespace sluice::cpu {
namespace {

using device::CeilingMeter;
using device::Spread;

constexpr const PeakKernel* kPeaks[] = {&kAvx2F32Peak,    &kAvx2Int8Peak,   &kAvx512F32Peak,
                                        &kAvx512Int8Peak, &kAvx512Bf16Peak, &kAmxInt8Peak,
                                        &kAmxBf16Peak};
constexpr size_t kReadBytesMin = size_t{1} << 20;  // 64 KiB for each of 16 threads
constexpr double kCalibrationSeconds = 0.002;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A generator of 64 bits per call, good enough for bytes that no cache or adder can predict.
struct XorShift {
  uint64_t state;
  uint64_t operator()() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

PeakOperands MakeOperands() {
  PeakOperands operands;
  XorShift random{0x9e3779b97f4a7c15u};
  for (int side = 0; side < 2; ++side) {
    for (float& value : operands.f32[side]) {
      const uint64_t bits = random();
      const float magnitude = 0.5f + static_cast<float>(bits >> 40) * 0x1p-25f;
      value = (bits & 1) != 0 ? magnitude : -magnitude;
    }
    for (size_t i = 0; i < std::size(operands.bf16[side]); ++i) {
      operands.bf16[side][i] = F32ToBF16(operands.f32[side][i]);
    }
    for (int8_t& value : operands.int8[side]) value = static_cast<int8_t>(random() % 127 + 1);
  }
  return operands;
}

const ReadKernels& ReadKernelsOf(Isa best) {
  if (best >= Isa::kAvx512) return kAvx512ReadKernels;
  return best >= Isa::kAvx2 ? kAvx2ReadKernels : kRefReadKernels;
}

class CpuMeter : public CeilingMeter {
 public:
  CpuMeter(device::Device& device, ThreadPool& pool, const device::MeterOptions& options)
      : device_(device),
        pool_(pool),
        options_(options),
        operands_(MakeOperands()),
        read_(ReadKernelsOf(DetectCpu().best)) {}

  Result<Spread> ReadBandwidth(size_t bytes) override {
    bytes = std::max(bytes, kReadBytesMin);
    SLUICE_RETURN_IF_ERROR(Fill(bytes));
    if (bytes != pattern_bytes_) {
      pattern_ = FastestPattern(bytes);
      pattern_bytes_ = bytes;
    }
    const double once = static_cast<double>(bytes) / ReadRate(pattern_, bytes, 1);
    const auto passes = static_cast<int64_t>(std::ceil(options_.seconds_per_run / once));
    return Runs([&] { return ReadRate(pattern_, bytes, passes); });
  }

  std::vector<Instruction> Instructions() const override {
    std::vector<Instruction> list;
    for (const PeakKernel* kernel : kPeaks) {
      if (Has(*kernel)) list.push_back({kernel->name, kernel->spelling});
    }
    return list;
  }

  Result<Spread> Peak(std::string_view instruction) override {
    for (const PeakKernel* kernel : kPeaks) {
      if (instruction != kernel->name || !Has(*kernel)) continue;
      const int64_t rounds = RoundsFor(*kernel);
      const auto macs = static_cast<double>(kernel->macs * rounds * pool_.threads());
      return Runs([&] { return macs / PeakSeconds(*kernel, rounds); });
    }
    return InvalidArgument(StrCat("this processor has no instruction \"", instruction, "\""));
  }

  std::string LinearInstruction(DType weight, int64_t n, int64_t k) const override {
    const auto bound = ops::Bind<ops::Linear>(device_.ops(), {.weight = weight, .n = n, .k = k});
    if (!bound.ok()) return "";
    const std::string name = InstructionOf(bound->name());
    for (const PeakKernel* kernel : kPeaks) {
      if (name == kernel->name && Has(*kernel)) return name;
    }
    return "";
  }

 private:
  bool Has(const PeakKernel& kernel) const {
    const std::vector<std::string>& found = device_.facts().capabilities;
    return std::find(found.begin(), found.end(), kernel.capability) != found.end();
  }

  template <class Run>
  Spread Runs(const Run& run) {
    run();  // warms up
    std::vector<double> rates(std::max(1, options_.runs));
    for (double& rate : rates) rate = run();
    return device::SpreadOf(std::move(rates));
  }

  double PeakSeconds(const PeakKernel& kernel, int64_t rounds) {
    const double start = Now();
    pool_.Run([&](int, int) { kernel.run(rounds, operands_); });
    return Now() - start;
  }

  // The least of a few tries: on a busy machine a thread may start late, which says nothing of the
  // instruction.
  int64_t RoundsFor(const PeakKernel& kernel) {
    int64_t rounds = 1000;
    double seconds = 0;
    for (; seconds < kCalibrationSeconds; rounds *= 2) {
      seconds = PeakSeconds(kernel, 2 * rounds);
      for (int i = 0; i < 2; ++i) seconds = std::min(seconds, PeakSeconds(kernel, 2 * rounds));
    }
    return static_cast<int64_t>(
        std::ceil(static_cast<double>(rounds) * options_.seconds_per_run / seconds));
  }

  // Bytes per second.
  double ReadRate(int pattern, size_t bytes, int64_t passes) {
    std::atomic<int64_t> read{0};
    const double start = Now();
    pool_.Run([&](int thread, int threads) {
      const Share share = ShareOf(static_cast<int64_t>(bytes), thread, threads);
      const int64_t begin = share.begin / 64 * 64;
      size_t mine = 0;
      for (int64_t pass = 0; pass < passes; ++pass) {
        mine += read_.patterns[pattern](buffer_.data() + begin, share.end - begin);
      }
      read.fetch_add(static_cast<int64_t>(mine), std::memory_order_relaxed);
    });
    return static_cast<double>(read.load()) / (Now() - start);
  }

  int FastestPattern(size_t bytes) {
    ReadRate(0, bytes, 1);
    std::vector<double> best(kReadPatterns);
    for (int turn = 0; turn < 2; ++turn) {
      for (int pattern = 0; pattern < kReadPatterns; ++pattern) {
        best[pattern] = std::max(best[pattern], ReadRate(pattern, bytes, 1));
      }
    }
    return static_cast<int>(std::max_element(best.begin(), best.end()) - best.begin());
  }

  // Random contents: a page that was never written is one page of zeros, which any cache holds.
  Status Fill(size_t bytes) {
    if (buffer_.bytes() >= bytes) return OkStatus();
    buffer_ = device::Buffer();
    SLUICE_ASSIGN_OR_RETURN(const device::MemoryInfo memory, device_.Memory());
    if (bytes > memory.free_bytes) {
      return Status(StatusCode::kOutOfMemory,
                    StrCat("measuring reads over ", bytes >> 20, " MiB needs more than the ",
                           memory.free_bytes >> 20, " MiB that are free"));
    }
    SLUICE_ASSIGN_OR_RETURN(buffer_, device_.Allocate(bytes, device::MemoryKind::kHost));
    pool_.Run([&](int thread, int threads) {
      const Share share = ShareOf(static_cast<int64_t>(bytes / 8), thread, threads);
      XorShift random{0x9e3779b97f4a7c15u + static_cast<uint64_t>(thread)};
      auto* words = reinterpret_cast<uint64_t*>(buffer_.data());
      for (int64_t i = share.begin; i < share.end; ++i) words[i] = random();
    });
    return OkStatus();
  }

  device::Device& device_;
  ThreadPool& pool_;
  const device::MeterOptions options_;
  const PeakOperands operands_;
  const ReadKernels& read_;
  device::Buffer buffer_;
  size_t pattern_bytes_ = 0;  // that pattern_ was chosen for
  int pattern_ = 0;
};

}  // namespace

std::string InstructionOf(std::string_view implementation) {
  const size_t first = implementation.find('_');
  if (first == std::string_view::npos) return "";
  const size_t second = implementation.find('_', first + 1);
  if (second == std::string_view::npos) return "";
  return std::string(implementation.substr(0, second));
}

std::unique_ptr<device::CeilingMeter> MakeCpuMeter(device::Device& device, ThreadPool& pool,
                                                   const device::MeterOptions& options) {
  return std::make_unique<CpuMeter>(device, pool, options);
}

}  // namespace sluice::cpu
