// Products by cuBLASLt on one device. Algorithms are pinned when a kind of product first runs: none
// splits k, and where those for few and for many rows are two, both have given the same bits on
// random rows before. So an output has one order of sums, whatever the number of rows.
// Thread-safe. Made by CudaDevice, whose context outlives it.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "backend/cuda/linear/cublaslt_library.h"
#include "base/dtype.h"
#include "device/device.h"
#include "sluice/status.h"

namespace sluice::cuda {

class Context;
class CudaStream;

// What an algorithm is pinned for. W is [n, k] and x [m, k] of `type`, BF16 or F16; n and k are
// multiples of 8. Residual and out are of `type` too, but F32 with f32_out.
struct ProductKind {
  DType type = DType::kBF16;
  int64_t n = 0, k = 0;
  bool bias = false, residual = false, f32_out = false;
  auto operator<=>(const ProductKind&) const = default;
  std::string ToString() const;
};

// One product. Data begin at multiples of 16 bytes and so does each row; strides in elements.
struct ProductCall {
  int64_t m = 0;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;  // may be out, with its stride
  void* out = nullptr;
  int64_t x_stride = 0, residual_stride = 0, out_stride = 0;
};

// How an algorithm adds up, as far as the library says.
struct AlgorithmConfig {
  int id = 0, split_k = 1, reduction = 0;
};
AlgorithmConfig ConfigOf(const LtFunctions& library, const LtAlgorithm& algorithm);

// The index of the first that neither splits k nor needs a workspace; -1: none.
int FirstInOneOrder(const LtFunctions& library, std::span<const LtHeuristic> found);

// Rows up to which each algorithm of a kind is used; the last one also for more.
inline constexpr std::array<int64_t, 5> kLtRows = {16, 64, 128, 512, 2048};
size_t AlgorithmFor(int64_t m);

// Which of `count` results of equal size, one behind the other, have the bits of the last.
std::vector<bool> SameAsLast(std::span<const std::byte> outs, size_t count);

class CublasLt {
 public:
  explicit CublasLt(Context* context) : context_(context) {}
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Puts the product on the stream, as one kernel. The first of its kind pins the algorithms, for
  // which it takes memory, waits for the device and can't be captured: kFailedPrecondition there.
  // kUnimplemented where the library has none.
  Status Multiply(device::Stream& stream, const ProductKind& kind, const ProductCall& call);

 private:
  using Pins = std::array<LtAlgorithm, kLtRows.size()>;
  Result<Pins> Pinned(CudaStream& stream, const ProductKind& kind, const ProductCall& call);
  Result<Pins> Pin(CudaStream& stream, const ProductKind& kind, const ProductCall& call);
  Result<LtAlgorithm> Choose(const LtFunctions& library, const ProductKind& kind, int64_t m);
  Status KeepSameBits(CudaStream& stream, const ProductKind& kind, const ProductCall& call,
                      Pins* pins);
  Status Submit(CudaStream& stream, const ProductKind& kind, const ProductCall& call,
                const LtAlgorithm& algorithm);

  Context* const context_;
  std::mutex mutex_;
  LtHandle handle_ = nullptr;           // guarded by mutex_ until the first pins; then constant
  std::map<ProductKind, Pins> pinned_;  // guarded by mutex_
};

// That of the stream's device.
CublasLt& CublasLtOf(device::Stream& stream);

}  // namespace sluice::cuda
