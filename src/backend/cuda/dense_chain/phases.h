// What the launches of chains have in common: weights and rows of a phase.
#pragma once

#include <initializer_list>
#include <string_view>

#include "backend/cuda/dense_chain/params.h"
#include "ops/linear.h"

namespace sluice::cuda {

// Boxes of a stage, of a matrix of rows in numbers of so many bytes.
Result<TensorMap> MapStages(const ops::PackedWeight& weight, int number_bytes);

// A weight in F8, of so many matrices one behind another.
Status SetPhaseWeight(const ops::PackedWeight& weight, int64_t matrices, ChainPhase& phase);

// `norm` and `residual` may be empty.
void SetPhaseRows(const ops::Tensor& x, const ops::Tensor& norm, const ops::Tensor& residual,
                  const ops::Tensor& out, ChainPhase& phase);

// That what the kernels read by words of 16 bytes begins where they may; what is empty or null
// does.
Status CheckPhaseAlignment(std::string_view op, std::initializer_list<const ops::Tensor*> rows,
                           std::initializer_list<const ops::PackedWeight*> weights);

}  // namespace sluice::cuda
