#include "files/gguf_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "files/gguf_types.h"

namespace sluice::files {
namespace {

constexpr uint32_t kVersion = 3;

uint64_t RoundUp(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

template <class T>
void Put(std::vector<std::byte>* out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out->insert(out->end(), bytes, bytes + sizeof value);
}

void PutString(std::vector<std::byte>* out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out->insert(out->end(), bytes, bytes + text.size());
}

// All that stands before the data, padded; `data_bytes` becomes the size of the data.
std::vector<std::byte> Header(const GgufLayout& layout, uint64_t* data_bytes) {
  std::vector<std::byte> out;
  for (char c : std::string_view("GGUF")) Put(&out, c);
  Put(&out, kVersion);
  Put<uint64_t>(&out, layout.tensors.size());
  Put<uint64_t>(&out, layout.metadata.size());
  for (const GgufEntry& entry : layout.metadata) {
    PutString(&out, entry.key);
    out.insert(out.end(), entry.bytes.begin(), entry.bytes.end());
  }
  uint64_t offset = 0;
  for (const GgufTensorLayout& tensor : layout.tensors) {
    const auto type = GgmlOfDType(tensor.dtype);
    CHECK(type.has_value(), tensor.name, ": GGUF has no ", Name(tensor.dtype));
    PutString(&out, tensor.name);
    Put(&out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) Put(&out, *dim);
    Put(&out, *type);
    Put(&out, offset);
    offset += RoundUp(tensor.bytes(), layout.alignment);
  }
  out.resize(RoundUp(out.size(), layout.alignment));
  *data_bytes = offset;
  return out;
}

}  // namespace

uint64_t GgufTensorLayout::bytes() const {
  size_t elements = 1;
  for (int64_t dim : shape) elements *= static_cast<size_t>(dim);
  return RowBytes(dtype, elements);
}

std::vector<std::byte> GgufU32(uint32_t value) {
  std::vector<std::byte> bytes;
  Put<uint32_t>(&bytes, kU32);
  Put(&bytes, value);
  return bytes;
}

Result<std::unique_ptr<GgufFileWriter>> GgufFileWriter::Create(const std::string& path,
                                                               GgufLayout layout,
                                                               AtomicFile::Options options) {
  uint64_t data_bytes = 0;
  const std::vector<std::byte> header = Header(layout, &data_bytes);
  SLUICE_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path, options));
  SLUICE_RETURN_IF_ERROR(file->Reserve(header.size() + data_bytes));
  SLUICE_RETURN_IF_ERROR(file->Write(header));
  return std::unique_ptr<GgufFileWriter>(
      new GgufFileWriter(std::move(file), std::move(layout), header.size() + data_bytes));
}

Status GgufFileWriter::Append(std::span<const std::byte> bytes) {
  CHECK(tensor_ < layout_.tensors.size(), bytes.size(), " bytes after the last tensor");
  const uint64_t size = layout_.tensors[tensor_].bytes();
  CHECK(bytes.size() <= size - done_, layout_.tensors[tensor_].name, ": ", done_, " + ",
        bytes.size(), " > ", size);
  SLUICE_RETURN_IF_ERROR(file_->Write(bytes));
  done_ += bytes.size();
  if (done_ < size) return OkStatus();
  ++tensor_;
  done_ = 0;
  return file_->Write(std::vector<std::byte>(RoundUp(size, layout_.alignment) - size));
}

Status GgufFileWriter::Finish() {
  CHECK(tensor_ == layout_.tensors.size(), tensor_, " of ", layout_.tensors.size(), " tensors");
  return file_->Commit();
}

}  // namespace sluice::files
