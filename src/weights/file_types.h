// The kinds of quantized GGUF files, and which number format each tensor gets in one. Plain
// functions over values; any thread may call.
//
// The mixtures are those of llama.cpp's llama-quantize without an importance matrix, so that a name
// means the same file size here and there: value and down projections of some layers, the output,
// and an embedding that serves as output get more bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "files/gguf.h"

namespace sluice::weights {

struct FileType {
  std::string_view name;  // "Q4_K_M"
  uint32_t number;        // what "general.file_type" says
  DType dtype;            // of most tensors
};

std::span<const FileType> FileTypes();

// By name in any case; "Q3_K", "Q4_K" and "Q5_K" are the medium mixtures. kInvalidArgument names
// the types that there are.
Result<FileType> FindFileType(std::string_view name);

// The format of each of file.tensors(). A tensor that stays as it is has its own: of one dimension,
// a norm, an expert gate, integers. Where rows are no whole blocks of 256 or 32, the format is the
// next larger one that fits.
std::vector<DType> TensorTypes(const FileType& type, const files::GgufFile& file);

}  // namespace sluice::weights
