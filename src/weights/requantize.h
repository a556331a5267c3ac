// A tensor of a file in another number format, made a few rows at a time. Any thread.
#pragma once

#include <functional>
#include <span>

#include "files/tensor_source.h"

namespace sluice::weights {

// Takes the next bytes of the new tensor, in order, on the caller's thread; an error of its ends
// the work.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

// Gives `sink` all of `tensor` in `dtype` and returns the root mean square of the change. A tensor
// that is in this format already is copied: 0. Rows are shared out to `threads` threads; the bytes
// and the error depend on the tensor alone. Memory: a few MiB; pages of `source` are released.
// kBadModel: the tensor has values that the format cannot hold. Errors of the sink.
// REQUIRES: the format is the tensor's own, or ops::CanDequantize and ops::CanQuantize it, with
// rows of whole blocks.
Result<double> Requantize(const files::TensorSource& source, const files::FileTensor& tensor,
                          DType dtype, int threads, const ByteSink& sink);

}  // namespace sluice::weights
