#include "backend/cuda/linear/cublaslt.h"

#include <bit>
#include <cstring>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/stream.h"
#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

constexpr int kCandidates = 32;
constexpr int64_t kComparedRows = 16;
constexpr uint32_t kAlignment = 16;

Status Check(const LtFunctions& library, int status, std::string_view what) {
  if (status == lt::kSuccess) return OkStatus();
  const char* name = library.cublasLtGetStatusName(status);
  return Status(StatusCode::kDevice,
                StrCat("cuBLASLt, ", what, ": ", name == nullptr ? "an unknown status" : name));
}

// The library's objects for one product of `m` rows. It counts columns first: out^T = W x^T, where
// the [n, k] rows of W are k x n columns, transposed.
class Product {
 public:
  explicit Product(const LtFunctions& library) : library_(library) {}
  ~Product() {
    for (LtLayout layout : layouts_) {
      if (layout != nullptr) library_.cublasLtMatrixLayoutDestroy(layout);
    }
    if (desc_ != nullptr) library_.cublasLtMatmulDescDestroy(desc_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  Status Make(const ProductKind& kind, const ProductCall& call) {
    const int type = kind.type == DType::kF16 ? lt::kR16F : lt::kR16BF;
    const int in = kind.coded() ? lt::kR8FE4M3 : type;
    SLUICE_RETURN_IF_ERROR(Check(
        library_, library_.cublasLtMatmulDescCreate(&desc_, lt::kCompute32F, lt::kR32F), "a desc"));
    SLUICE_RETURN_IF_ERROR(Set(lt::kDescTransA, lt::kOpT));
    if (kind.bias) {
      SLUICE_RETURN_IF_ERROR(Set(lt::kDescEpilogue, lt::kEpilogueBias));
      SLUICE_RETURN_IF_ERROR(Set(lt::kDescBiasPointer, call.bias));
      SLUICE_RETURN_IF_ERROR(Set(lt::kDescBiasType, type));
    }
    if (kind.coded()) SLUICE_RETURN_IF_ERROR(SetScales(kind.scales, call));
    const int out = kind.f32_out ? lt::kR32F : type;
    SLUICE_RETURN_IF_ERROR(Lay(&layouts_[0], in, kind.k, kind.n, kind.k));
    SLUICE_RETURN_IF_ERROR(Lay(&layouts_[1], in, kind.k, call.m, call.x_stride));
    SLUICE_RETURN_IF_ERROR(Lay(&layouts_[2], out, kind.n, call.m,
                               kind.residual ? call.residual_stride : call.out_stride));
    return Lay(&layouts_[3], out, kind.n, call.m, call.out_stride);
  }

  LtMatmulDesc desc() const { return desc_; }
  LtLayout weight() const { return layouts_[0]; }
  LtLayout x() const { return layouts_[1]; }
  LtLayout residual() const { return layouts_[2]; }
  LtLayout out() const { return layouts_[3]; }

 private:
  template <class T>
  Status Set(int attribute, const T& value) {
    return Check(library_,
                 library_.cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof value),
                 StrCat("attribute ", attribute));
  }
  Status SetScales(ops::WeightScales scales, const ProductCall& call) {
    SLUICE_RETURN_IF_ERROR(Set(lt::kDescScaleA, call.weight_scales));
    SLUICE_RETURN_IF_ERROR(Set(lt::kDescScaleB, call.x_scales));
    if (scales == ops::WeightScales::kTensor) return OkStatus();
    const bool rows = scales == ops::WeightScales::kRow;
    SLUICE_RETURN_IF_ERROR(
        Set(lt::kDescScaleModeA, rows ? lt::kScaleOuterVector : lt::kScaleBlock128));
    return Set(lt::kDescScaleModeB, rows ? lt::kScaleOuterVector : lt::kScaleVector128);
  }
  Status Lay(LtLayout* layout, int type, int64_t rows, int64_t columns, int64_t stride) {
    return Check(library_,
                 library_.cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows),
                                                     static_cast<uint64_t>(columns), stride),
                 "a layout");
  }

  const LtFunctions& library_;
  LtMatmulDesc desc_ = nullptr;
  std::array<LtLayout, 4> layouts_{};
};

Status Limit(const LtFunctions& library, LtPreference preference) {
  const auto set = [&](int attribute, const auto& value) {
    return Check(
        library,
        library.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        StrCat("preference ", attribute));
  };
  SLUICE_RETURN_IF_ERROR(set(lt::kPrefWorkspaceBytes, uint64_t{0}));
  SLUICE_RETURN_IF_ERROR(set(lt::kPrefReductionMask, uint32_t{0}));
  for (int matrix : lt::kPrefAlignment) SLUICE_RETURN_IF_ERROR(set(matrix, kAlignment));
  return OkStatus();
}

// What the library offers, the fastest by its own estimate first.
Result<std::vector<LtHeuristic>> Candidates(const LtFunctions& library, LtHandle handle,
                                            const Product& product) {
  LtPreference preference = nullptr;
  SLUICE_RETURN_IF_ERROR(
      Check(library, library.cublasLtMatmulPreferenceCreate(&preference), "a preference"));
  std::vector<LtHeuristic> found(kCandidates);
  int count = 0;
  Status status = Limit(library, preference);
  if (status.ok()) {
    // "None" comes as an error too.
    if (library.cublasLtMatmulAlgoGetHeuristic(
            handle, product.desc(), product.weight(), product.x(), product.residual(),
            product.out(), preference, kCandidates, found.data(), &count) != lt::kSuccess) {
      count = 0;
    }
  }
  library.cublasLtMatmulPreferenceDestroy(preference);
  if (!status.ok()) return status;
  found.resize(static_cast<size_t>(count));
  return found;
}

// Numbers of `type` that look random, of magnitudes from 2^-16 to 1.
std::vector<uint16_t> RandomRows(DType type, int64_t elements) {
  std::vector<uint16_t> rows(static_cast<size_t>(elements));
  uint64_t state = 1;
  for (uint16_t& element : rows) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float scale = 1.0f / static_cast<float>(1 << (state >> 32) % 16);
    const float value = (static_cast<float>(state >> 40) * 0x1p-23f - 1.0f) * scale;
    element = type == DType::kF16 ? F32ToF16(value)
                                  : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
  return rows;
}

// Codes in F8_E4M3 of all magnitudes, none of them NaN.
std::vector<uint16_t> RandomCodes(int64_t elements) {
  std::vector<uint16_t> rows(static_cast<size_t>((elements + 1) / 2));
  uint64_t state = 1;
  for (uint16_t& two : rows) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    two = static_cast<uint16_t>(state >> 48);
    if ((two & 0x7fu) == 0x7fu) two &= 0xfffeu;
    if ((two & 0x7f00u) == 0x7f00u) two &= 0xfeffu;
  }
  return rows;
}

// Of compared rows of x, in F32.
int64_t ScaleCount(const ProductKind& kind) {
  if (kind.scales == ops::WeightScales::kTensor) return 1;
  if (kind.scales == ops::WeightScales::kRow) return kComparedRows;
  return kind.coded() ? kComparedRows * ((kind.k + ops::kScaleBlock - 1) / ops::kScaleBlock) : 0;
}

const char* ScalesText(ops::WeightScales scales) {
  if (scales == ops::WeightScales::kNone) return "";
  if (scales == ops::WeightScales::kTensor) return " of codes with a scale";
  return scales == ops::WeightScales::kRow ? " of codes with scales of rows"
                                           : " of codes with scales of blocks";
}

Status CopyToDevice(CudaStream& stream, std::byte* to, const std::vector<uint16_t>& numbers,
                    std::string_view what) {
  if (numbers.empty()) return OkStatus();
  return stream.Call(TheDriver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                               reinterpret_cast<CUdeviceptr>(numbers.data()),
                                               numbers.size() * sizeof numbers[0], stream.handle()),
                     what);
}

// What errors and counts name.
const Kernel& MatmulKernel() {
  static const Kernel kernel = {.name = "cuBLASLt/matmul"};
  return kernel;
}

}  // namespace

std::string ProductKind::ToString() const {
  return StrCat(Name(type), " ", n, "x", k, bias ? " +bias" : "", residual ? " +residual" : "",
                f32_out ? " to F32" : "", ScalesText(scales));
}

AlgorithmConfig ConfigOf(const LtFunctions& library, const LtAlgorithm& algorithm) {
  AlgorithmConfig config;
  const auto get = [&](int attribute, int* value) {
    size_t written = 0;
    library.cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, value, sizeof *value,
                                                 &written);
  };
  get(lt::kAlgoId, &config.id);
  get(lt::kAlgoSplitK, &config.split_k);
  get(lt::kAlgoReduction, &config.reduction);
  return config;
}

int FirstInOneOrder(const LtFunctions& library, std::span<const LtHeuristic> found) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].status != lt::kSuccess || found[i].workspace_bytes != 0) continue;
    const AlgorithmConfig config = ConfigOf(library, found[i].algorithm);
    if (config.split_k <= 1 && config.reduction == 0) return static_cast<int>(i);
  }
  return -1;
}

size_t AlgorithmFor(int64_t m) {
  size_t index = 0;
  while (index + 1 < kLtRows.size() && m > kLtRows[index]) ++index;
  return index;
}

std::vector<bool> SameAsLast(std::span<const std::byte> outs, size_t count) {
  const size_t bytes = outs.size() / count;
  const std::byte* const last = outs.data() + (count - 1) * bytes;
  std::vector<bool> same(count);
  for (size_t i = 0; i < count; ++i) {
    same[i] = std::memcmp(outs.data() + i * bytes, last, bytes) == 0;
  }
  return same;
}

CublasLt::~CublasLt() {
  if (handle_ == nullptr || !context_->Enter().ok()) return;
  (*LoadCublasLt())->cublasLtDestroy(handle_);
}

Result<LtAlgorithm> CublasLt::Choose(const LtFunctions& library, const ProductKind& kind,
                                     const ProductCall& call, int64_t m) {
  Product product(library);
  // Without scales it has nothing for codes with several.
  SLUICE_RETURN_IF_ERROR(product.Make(kind, {.m = m,
                                             .x_stride = kind.k,
                                             .residual_stride = kind.n,
                                             .out_stride = kind.n,
                                             .weight_scales = call.weight_scales,
                                             .x_scales = call.x_scales}));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<LtHeuristic> found,
                          Candidates(library, handle_, product));
  const int index = FirstInOneOrder(library, found);
  if (index < 0) {
    return Status(StatusCode::kUnimplemented,
                  StrCat("cuBLASLt has no algorithm without split-K and workspace for ",
                         kind.ToString(), ", of ", found.size(), " that it offers"));
  }
  return found[static_cast<size_t>(index)].algorithm;
}

// Those of `pins` that give the bits of `ours` on random rows, each in its place and in the places
// of others that don't; none if none does.
Result<std::optional<CublasLt::Pins>> CublasLt::WithBitsOf(CudaStream& stream,
                                                           const ProductKind& kind,
                                                           const ProductCall& call,
                                                           const OurProduct& ours, Pins pins) {
  const std::vector<uint16_t> x = kind.coded() ? RandomCodes(kComparedRows * kind.k)
                                               : RandomRows(kind.type, kComparedRows * kind.k);
  // Pairs of numbers in BF16 are F32 numbers, too.
  const std::vector<uint16_t> scales = RandomRows(DType::kBF16, 2 * ScaleCount(kind));
  constexpr size_t kApart = 256;
  const size_t x_bytes = (x.size() * sizeof x[0] + kApart - 1) / kApart * kApart;
  const size_t out_bytes = static_cast<size_t>(kComparedRows * kind.n * (kind.f32_out ? 4 : 2));
  const size_t count = pins.size() + 1;
  Memory& memory = *stream.home().memory;
  SLUICE_ASSIGN_OR_RETURN(const device::Buffer rows,
                          memory.Allocate(x_bytes + scales.size() * sizeof scales[0] + kApart,
                                          device::MemoryKind::kDevice));
  SLUICE_ASSIGN_OR_RETURN(const device::Buffer outs,
                          memory.Allocate(out_bytes * (count + 1), device::MemoryKind::kDevice));
  SLUICE_RETURN_IF_ERROR(CopyToDevice(stream, rows.data(), x, "copying rows for cuBLASLt"));
  SLUICE_RETURN_IF_ERROR(
      CopyToDevice(stream, rows.data() + x_bytes, scales, "copying scales for cuBLASLt"));
  // Where out is F32 it takes the residual's place, as it may in calls.
  const std::vector<uint16_t> residual =
      RandomRows(DType::kBF16, kind.residual ? static_cast<int64_t>(out_bytes / 2) : 0);
  const auto put_residual = [&](std::byte* to) {
    return CopyToDevice(stream, to, residual, "copying a residual for cuBLASLt");
  };
  std::byte* const apart = outs.data() + out_bytes * count;
  SLUICE_RETURN_IF_ERROR(put_residual(apart));
  std::array<bool, kLtRows.size()> taken{};  // by the library, which may refuse so few rows
  for (size_t i = 0; i < count; ++i) {
    std::byte* const out = outs.data() + i * out_bytes;
    if (kind.f32_out) SLUICE_RETURN_IF_ERROR(put_residual(out));
    const ProductCall compared = {
        .m = kComparedRows,
        .x = rows.data(),
        .weight = call.weight,
        .bias = call.bias,
        .residual = kind.f32_out ? out : apart,
        .out = out,
        .x_stride = kind.k,
        .residual_stride = kind.n,
        .out_stride = kind.n,
        .weight_scales = call.weight_scales,
        .x_scales = reinterpret_cast<const float*>(rows.data() + x_bytes)};
    if (i < pins.size()) {
      taken[i] = Multiply(stream, kind, compared, pins[i]).ok();
    } else {
      SLUICE_RETURN_IF_ERROR(ours(compared));
    }
  }
  std::vector<std::byte> got(out_bytes * count);
  SLUICE_RETURN_IF_ERROR(
      stream.Call(TheDriver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(got.data()),
                                            reinterpret_cast<CUdeviceptr>(outs.data()), got.size(),
                                            stream.handle()),
                  "copying what cuBLASLt gave"));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  const std::vector<bool> same = SameAsLast(got, count);
  const auto joins = [&](size_t i) { return taken[i] && same[i]; };
  size_t end = pins.size();  // behind the last of those that do
  while (end > 0 && !joins(end - 1)) --end;
  if (end == 0) return std::optional<Pins>();
  for (size_t i = 0; i < pins.size(); ++i) {
    if (!joins(i)) pins[i] = pins[end - 1];
  }
  return std::optional<Pins>(pins);
}

// For few rows an algorithm of the same id as for many, which then likely adds up in one order.
std::optional<CublasLt::Pins> CublasLt::Offered(const LtFunctions& library, const ProductKind& kind,
                                                const ProductCall& call) {
  const Result<LtAlgorithm> last = Choose(library, kind, call, kLtRows.back());
  if (!last.ok()) return std::nullopt;
  Pins pins;
  pins.fill(*last);
  const int id = ConfigOf(library, *last).id;
  for (size_t i = 0; i + 1 < pins.size(); ++i) {
    const Result<LtAlgorithm> chosen = Choose(library, kind, call, kLtRows[i]);
    if (chosen.ok() && ConfigOf(library, *chosen).id == id) pins[i] = *chosen;
  }
  return pins;
}

Result<std::optional<CublasLt::Pins>> CublasLt::Pin(CudaStream& stream, const ProductKind& kind,
                                                    const ProductCall& call,
                                                    const OurProduct& ours) {
  const auto library = LoadCublasLt();
  // With a bias it adds the residual first, which few of 16 bits show, and F32 it does not give.
  const bool other = kind.bias && (kind.residual || kind.f32_out);
  if (!library.ok() || other) return std::optional<Pins>();
  if (handle_ == nullptr) {
    SLUICE_RETURN_IF_ERROR(Check(**library, (*library)->cublasLtCreate(&handle_), "starting"));
  }
  const std::optional<Pins> pins = Offered(**library, kind, call);
  if (!pins.has_value()) return pins;
  return WithBitsOf(stream, kind, call, ours, *pins);
}

Result<const std::optional<CublasLt::Pins>*> CublasLt::Pinned(device::Stream& stream,
                                                              const ProductKind& kind,
                                                              const ProductCall& call,
                                                              const OurProduct& ours) {
  CudaStream& cuda = AsCuda(stream);
  SLUICE_RETURN_IF_ERROR(cuda.Enter());
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = pinned_.find(kind);
  if (found == pinned_.end()) {
    if (cuda.capturing()) return nullptr;
    SLUICE_ASSIGN_OR_RETURN(const std::optional<Pins> pins, Pin(cuda, kind, call, ours));
    found = pinned_.emplace(kind, pins).first;
  }
  return &found->second;
}

const LtAlgorithm* Joining(const std::optional<CublasLt::Pins>& pinned, const ProductKind& kind,
                           const ProductCall& call) {
  const bool twice = kind.residual && !kind.f32_out && call.residual == call.out;
  return pinned.has_value() && !twice ? &(*pinned)[AlgorithmFor(call.m)] : nullptr;
}

Result<const LtAlgorithm*> LtJoin::For(device::Stream& stream, const ProductKind& kind,
                                       const ProductCall& call, const OurProduct& ours,
                                       int64_t few_rows) {
  if (pinned_ == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(pinned_, CublasLtOf(stream).Pinned(stream, kind, call, ours));
  }
  return call.m <= few_rows || pinned_ == nullptr ? nullptr : Joining(*pinned_, kind, call);
}

Status CublasLt::Multiply(device::Stream& stream, const ProductKind& kind, const ProductCall& call,
                          const LtAlgorithm& algorithm) {
  CudaStream& cuda = AsCuda(stream);
  SLUICE_RETURN_IF_ERROR(cuda.Enter());
  const LtFunctions& library = **LoadCublasLt();
  Product product(library);
  SLUICE_RETURN_IF_ERROR(product.Make(kind, call));
  const float one = 1.0f, beta = kind.residual ? 1.0f : 0.0f;
  const int status = library.cublasLtMatmul(
      handle_, product.desc(), &one, call.weight, product.weight(), call.x, product.x(), &beta,
      kind.residual ? call.residual : call.out, product.residual(), call.out, product.out(),
      &algorithm, nullptr, 0, cuda.handle());
  SLUICE_RETURN_IF_ERROR(Check(library, status, StrCat(kind.ToString(), " on ", call.m, " rows")));
  return cuda.Launched(CUDA_SUCCESS, MatmulKernel());
}

CublasLt& CublasLtOf(device::Stream& stream) { return *AsCuda(stream).home().cublaslt; }

}  // namespace sluice::cuda
