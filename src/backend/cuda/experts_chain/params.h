// What the kernel of an experts chain (ops/experts_chain.h) is given; shared by host and device
// code. Strides in elements.
#pragma once

#include <cstdint>

#include "backend/cuda/dense_chain/params.h"
#include "backend/cuda/experts/params.h"

namespace sluice::cuda {

// The kernel of dense chains is made for two tokens or more; here one of them is nobody's.
inline constexpr int kExpertsChainTokens = 2;
inline constexpr int kExpertsChainMax = 256;     // experts
inline constexpr int kExpertsChainTopKMax = 16;  // of a token
inline constexpr int kExpertsChainSlabsMax = 4;  // of the hidden size, that a thread block has

// Stages of one expert's second product, the last of which may be ragged.
constexpr int ExpertStages(int width) { return (width + kChainStageK - 1) / kChainStageK; }
// The router reads x in 16 bits: 64 numbers are the first of eight swizzled rows of 128 bytes.
inline constexpr int kRouterUnit = 64, kRouterUnitBytes = 1024;
constexpr int RouterRowBytes(int hidden) { return hidden / kRouterUnit * kRouterUnitBytes; }

// What the router has found, in shared memory of each thread block.
struct RoutedToken {
  float logits[kExpertsChainMax];
  uint32_t ranks[2 * kExpertsChainMax];  // of experts and of groups
  int32_t ids[kExpertsChainTopKMax];
  float weights[kExpertsChainTopKMax];
  // Scales of the second products, of the thread block's slabs: [unit of an expert, by choice].
  float scales[kExpertsChainSlabsMax][kChainUnitsMax];
  uint64_t routed;  // a barrier
};

struct ExpertsChainParams {
  // The phases of `chain` are W_o, the experts' first products, their second ones and QKV; of the
  // second and third, whose matrices are those of all experts, n and k are one expert's.
  ChainParams chain;
  TensorMap router;                  // boxes of a stage, by bytes
  float* logits = nullptr;           // [experts]
  RouteExpertsParams route;          // logits, ids and weights are the thread block's own
  uint32_t* counts = nullptr;        // or null
  const int32_t* counted = nullptr;  // or null
  int row_at = 0;                    // where the router's x lies, in bytes behind the first code
  int routed_at = 0;                 // where RoutedToken lies in shared memory
};

}  // namespace sluice::cuda
