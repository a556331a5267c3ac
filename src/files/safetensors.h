// Safetensors files, memory-mapped: one file, or the shards of a folder with their index.
// Everything is checked when opened, as with GGUF. Tensors may begin at any byte: read them as
// bytes or copy them where alignment matters. Format: README of huggingface/safetensors.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"

namespace sluice::files {

// model.safetensors of the folder, or the shards that model.safetensors.index.json names, or the
// only *.safetensors there. kNotFound when there is none; kBadModel when one is malformed.
Result<std::shared_ptr<const TensorSource>> OpenSafetensors(const std::string& folder);

// The tensors of one file's bytes, by offset; `data` points into `bytes`. kBadModel.
Result<std::vector<FileTensor>> ParseSafetensors(std::span<const std::byte> bytes);

// The shard of each tensor, from the text of an index file: plain file names only. kBadModel.
Result<std::map<std::string, std::string>> ParseSafetensorsIndex(std::string_view text);

}  // namespace sluice::files
