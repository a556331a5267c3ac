// For tests: which tensors a call of an op names, so that a device of a test can look at where they
// lie.
#pragma once

#include <boost/pfr.hpp>
#include <type_traits>
#include <vector>

#include "ops/linear.h"
#include "ops/paged_kv.h"
#include "ops/tensor.h"

namespace sluice::ops {

// Appends all tensors among the members of `args`, those of a KV cache and of a weight included.
template <class Args>
void AppendTensors(const Args& args, std::vector<const Tensor*>* tensors) {
  boost::pfr::for_each_field(args, [tensors]<class Field>(const Field& field) {
    if constexpr (std::is_same_v<Field, Tensor>) {
      tensors->push_back(&field);
    } else if constexpr (std::is_same_v<Field, PagedKv>) {
      AppendTensors(field, tensors);
    } else if constexpr (std::is_same_v<Field, const PackedWeight*>) {
      if (field != nullptr) AppendTensors(*field, tensors);
    }
  });
}

// The tensors of a call, which must all lie in device memory.
template <class Args>
std::vector<const Tensor*> TensorsOf(const Args& args) {
  std::vector<const Tensor*> tensors;
  AppendTensors(args, &tensors);
  return tensors;
}

}  // namespace sluice::ops
