#include "files/safetensors_writer.h"

#include <cstring>

#include "base/check.h"
#include "base/json.h"

namespace sluice::files {
namespace {

constexpr size_t kAlignment = 8;  // of the data behind the header

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                        AtomicFile::Options options) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t size = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const uint64_t begin = size;
    for (const auto& piece : tensor.pieces) size += piece.size();
    size_t elements = 1;
    for (const int64_t dim : tensor.shape) elements *= static_cast<size_t>(dim);
    CHECK(size - begin == RowBytes(tensor.dtype, elements), tensor.name, " has ", size - begin,
          " bytes");
    header[tensor.name] = {
        {"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, size}}};
  }
  std::string text = DumpJson(header);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();
  std::byte prefix[sizeof(length)];
  std::memcpy(prefix, &length, sizeof(length));
  SLUICE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path, options));
  SLUICE_RETURN_IF_ERROR(file->Reserve(sizeof(prefix) + length + size));
  SLUICE_RETURN_IF_ERROR(file->Write(prefix));
  SLUICE_RETURN_IF_ERROR(file->Write(BytesOf(text)));
  for (const SafetensorsTensor& tensor : tensors) {
    for (const auto& piece : tensor.pieces) SLUICE_RETURN_IF_ERROR(file->Write(piece));
  }
  return file->Commit();
}

}  // namespace sluice::files
