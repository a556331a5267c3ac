// The tensors of a model and of folders beside it as one source. Any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files/tensor_source.h"

namespace sluice::files {

// `others`: a folder's name, which with a "/" stands before the names of its tensors, and its
// source. The first of two tensors of one name is found.
std::shared_ptr<const TensorSource> JoinTensors(
    std::shared_ptr<const TensorSource> model,
    std::vector<std::pair<std::string, std::shared_ptr<const TensorSource>>> others);

}  // namespace sluice::files
