// The tokens that a draft guesses where they are a part of the vocabulary: the tensor "d2t" says of
// each guess how far its id lies behind its own number. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"

namespace sluice::files {

inline constexpr char kTargetIds[] = "d2t";

// By guess its id; empty where there is no such tensor. kBadModel when it is no list of integers,
// or when ids lie outside of the vocabulary or are given twice.
Result<std::vector<int32_t>> ReadTargetIds(const TensorSource& tensors, int vocab_size);

}  // namespace sluice::files
