// Tensors of several sources as one. Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/tensor_source.h"

namespace sluice::files {

struct JoinedSource {
  std::string prefix;  // stands before the names of its tensors
  std::shared_ptr<const TensorSource> source;
};

// kBadModel where two tensors would have one name.
Result<std::shared_ptr<const TensorSource>> JoinTensors(std::vector<JoinedSource> sources);

}  // namespace sluice::files
