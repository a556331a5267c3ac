// cuBLASLt, NVIDIA's library of matrix products, as far as Sluice uses it: its functions, found in
// libcublasLt.so at run time, so that the program starts on a machine without it. It is looked for
// where the system's loader looks (LD_LIBRARY_PATH among that), when it is first asked for. Any
// thread may call. The types are ours: the library's header is not needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "sluice/status.h"

struct CUstream_st;

namespace sluice::cuda {

// Opaque objects of the library.
using LtHandle = struct LtContext*;
using LtLayout = struct LtLayoutData*;
using LtMatmulDesc = struct LtMatmulDescData*;
using LtPreference = struct LtPreferenceData*;

struct LtAlgorithm {
  uint64_t data[8];
};

struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

// The library's constants, by its own names.
namespace lt {
inline constexpr int kSuccess = 0;                     // CUBLAS_STATUS_SUCCESS
inline constexpr int kR32F = 0, kR16F = 2;             // CUDA_R_...
inline constexpr int kR16BF = 14, kR8FE4M3 = 28;       //
inline constexpr int kCompute32F = 68;                 // CUBLAS_COMPUTE_32F
inline constexpr int kOpT = 1;                         // CUBLAS_OP_T
inline constexpr int kEpilogueBias = 4;                // CUBLASLT_EPILOGUE_BIAS
inline constexpr int kDescTransA = 3;                  // CUBLASLT_MATMUL_DESC_...
inline constexpr int kDescEpilogue = 7;                //
inline constexpr int kDescBiasPointer = 8;             //
inline constexpr int kDescScaleA = 17;                 // ..._{A,B}_SCALE_POINTER
inline constexpr int kDescScaleB = 18;                 //
inline constexpr int kDescBiasType = 26;               //
inline constexpr int kDescScaleModeA = 31;             // ..._{A,B}_SCALE_MODE
inline constexpr int kDescScaleModeB = 32;             //
inline constexpr int kScaleOuterVector = 3;            // CUBLASLT_MATMUL_MATRIX_SCALE_...
inline constexpr int kScaleVector128 = 4;              //
inline constexpr int kScaleBlock128 = 5;               //
inline constexpr int kPrefWorkspaceBytes = 1;          // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
inline constexpr int kPrefReductionMask = 3;           // ..._REDUCTION_SCHEME_MASK
inline constexpr int kPrefAlignment[] = {5, 6, 7, 8};  // ..._MIN_ALIGNMENT_{A,B,C,D}_BYTES
inline constexpr int kAlgoId = 0;                      // CUBLASLT_ALGO_CONFIG_...
inline constexpr int kAlgoSplitK = 2;                  //
inline constexpr int kAlgoReduction = 3;               //
}  // namespace lt

// clang-format off
#define SLUICE_CUBLASLT_FUNCTIONS(X) \
  X(cublasLtGetVersion, size_t()) \
  X(cublasLtGetStatusName, const char*(int status)) \
  X(cublasLtCreate, int(LtHandle*)) \
  X(cublasLtDestroy, int(LtHandle)) \
  X(cublasLtMatrixLayoutCreate, int(LtLayout*, int type, uint64_t rows, uint64_t columns, int64_t ld)) \
  X(cublasLtMatrixLayoutDestroy, int(LtLayout)) \
  X(cublasLtMatmulDescCreate, int(LtMatmulDesc*, int compute_type, int scale_type)) \
  X(cublasLtMatmulDescDestroy, int(LtMatmulDesc)) \
  X(cublasLtMatmulDescSetAttribute, int(LtMatmulDesc, int attribute, const void*, size_t bytes)) \
  X(cublasLtMatmulPreferenceCreate, int(LtPreference*)) \
  X(cublasLtMatmulPreferenceDestroy, int(LtPreference)) \
  X(cublasLtMatmulPreferenceSetAttribute, int(LtPreference, int attribute, const void*, size_t bytes)) \
  X(cublasLtMatmulAlgoGetHeuristic, int(LtHandle, LtMatmulDesc, LtLayout a, LtLayout b, LtLayout c, LtLayout d, \
                                        LtPreference, int wanted, LtHeuristic* found, int* count)) \
  X(cublasLtMatmulAlgoConfigGetAttribute, int(const LtAlgorithm*, int attribute, void*, size_t bytes, size_t* written)) \
  X(cublasLtMatmul, int(LtHandle, LtMatmulDesc, const void* alpha, const void* a, LtLayout, const void* b, LtLayout, \
                        const void* beta, const void* c, LtLayout, void* d, LtLayout, const LtAlgorithm*, \
                        void* workspace, size_t workspace_bytes, CUstream_st*))
// clang-format on

struct LtFunctions {
#define SLUICE_CUBLASLT_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  SLUICE_CUBLASLT_FUNCTIONS(SLUICE_CUBLASLT_MEMBER)
#undef SLUICE_CUBLASLT_MEMBER
  std::string name;  // "libcublasLt.so.13, version 13.1.0"
};

// How a library is found: dlopen and dlsym, but in tests.
struct LibraryLoader {
  std::function<void*(const char* library)> open;                  // null: not there
  std::function<void*(void* library, const char* function)> find;  // null: lacks it
};

// kDevice with why not for each name that was tried: not found, too old, a function lacking.
Result<LtFunctions> OpenCublasLt(const LibraryLoader& loader);

// The system's, opened at the first call in this process.
Result<const LtFunctions*> LoadCublasLt();

// One line for people: which library, or why there is none.
std::string DescribeCublasLt();

}  // namespace sluice::cuda
