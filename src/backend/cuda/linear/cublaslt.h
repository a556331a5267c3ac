// Products by cuBLASLt on one device, as far as they have the bits of kernels of ours. Algorithms
// are pinned when a kind of product first runs: none splits k, and each has given those bits on
// random rows before. So an output has one order of sums, whatever the number of rows and whoever
// multiplies them. Thread-safe. Made by CudaDevice, whose context outlives it.
#pragma once

#include <array>
#include <compare>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/linear/cublaslt_library.h"
#include "base/dtype.h"
#include "device/device.h"
#include "ops/linear.h"
#include "sluice/status.h"

namespace sluice::cuda {

class Context;
class CudaStream;

// What an algorithm is pinned for. W is [n, k] and x [m, k] of `type`, BF16 or F16; n and k are
// multiples of 8. Residual and out are of `type` too, but F32 with f32_out. With scales W and x are
// codes in F8_E4M3 instead, and so is what their scales cover: all, a row, or 128 of k, of W in 128
// rows.
struct ProductKind {
  DType type = DType::kBF16;
  int64_t n = 0, k = 0;
  bool bias = false, residual = false, f32_out = false;
  ops::WeightScales scales = ops::WeightScales::kNone;
  bool coded() const { return scales != ops::WeightScales::kNone; }
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
  // Where the kind has some: those of x by row, or by unit of k, then row.
  const float* weight_scales = nullptr;
  const float* x_scales = nullptr;
};

// Puts a product by our kernels on the stream that is being asked about.
using OurProduct = std::function<Status(const ProductCall&)>;

// How an algorithm adds up, as far as the library says.
struct AlgorithmConfig {
  int id = 0, split_k = 1, reduction = 0;
};
AlgorithmConfig ConfigOf(const LtFunctions& library, const LtAlgorithm& algorithm);

// The index of the first that neither splits k nor needs a workspace; -1: none.
int FirstInOneOrder(const LtFunctions& library, std::span<const LtHeuristic> found);

// Rows up to which each algorithm of a kind is used; the last one also for more. One that is chosen
// for 512 rows takes up to twice as long for fewer as one that is chosen for them: 323 and 215 us
// for the four products of a layer of 8B shape and 320 rows on an H200.
inline constexpr std::array<int64_t, 10> kLtRows = {16,  64,  128, 160, 192,
                                                    256, 320, 384, 512, 2048};
size_t AlgorithmFor(int64_t m);

// Which of `count` results of equal size, one behind the other, have the bits of the last.
std::vector<bool> SameAsLast(std::span<const std::byte> outs, size_t count);

class CublasLt {
 public:
  explicit CublasLt(Context* context) : context_(context) {}
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // By numbers of rows, as kLtRows has them.
  using Pins = std::array<LtAlgorithm, kLtRows.size()>;

  // The algorithms of a kind that have given the bits of `ours`, empty where there is no library or
  // it has none; they live as long as this. Null: this is the first call for the kind, and a graph
  // is captured. The first call otherwise compares, for which it takes memory and waits for the
  // device.
  Result<const std::optional<Pins>*> Pinned(device::Stream& stream, const ProductKind& kind,
                                            const ProductCall& call, const OurProduct& ours);
  // Puts the product on the stream, as one kernel. REQUIRES: `algorithm` is one that was pinned.
  Status Multiply(device::Stream& stream, const ProductKind& kind, const ProductCall& call,
                  const LtAlgorithm& algorithm);

 private:
  std::optional<Pins> Offered(const LtFunctions& library, const ProductKind& kind,
                              const ProductCall& call);
  Result<std::optional<Pins>> Pin(CudaStream& stream, const ProductKind& kind,
                                  const ProductCall& call, const OurProduct& ours);
  Result<LtAlgorithm> Choose(const LtFunctions& library, const ProductKind& kind,
                             const ProductCall& call, int64_t m);
  Result<std::optional<Pins>> WithBitsOf(CudaStream& stream, const ProductKind& kind,
                                         const ProductCall& call, const OurProduct& ours,
                                         Pins pins);

  Context* const context_;
  std::mutex mutex_;
  LtHandle handle_ = nullptr;  // guarded by mutex_ until the first pins; then constant
  std::map<ProductKind, std::optional<Pins>> pinned_;  // guarded by mutex_; nodes are constant
};

// The one of `pinned` for a call. Null: there is none, or out of 16 bits takes the residual's
// place, where the library rounds twice.
const LtAlgorithm* Joining(const std::optional<CublasLt::Pins>& pinned, const ProductKind& kind,
                           const ProductCall& call);

// What the binding of a weight keeps of it: whether its kind of product is multiplied by the
// library, too.
class LtJoin {
 public:
  // The algorithm for a call; null: it is ours. Also few rows ask, so that the first call of a kind
  // finds out whether it joins, whose time nobody measures.
  Result<const LtAlgorithm*> For(device::Stream& stream, const ProductKind& kind,
                                 const ProductCall& call, const OurProduct& ours, int64_t few_rows);

 private:
  const std::optional<CublasLt::Pins>* pinned_ = nullptr;  // null: not asked yet
};

// That of the stream's device.
CublasLt& CublasLtOf(device::Stream& stream);

}  // namespace sluice::cuda
