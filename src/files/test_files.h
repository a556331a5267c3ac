// Writers of tiny model files for tests, right by default and wrong on demand. Tests only.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace sluice::files::testing {

// GGUF's numbers of types.
inline constexpr uint32_t kInt32 = 5, kFloat32 = 6, kBool = 7;

class ByteWriter {
 public:
  template <class T>
  ByteWriter& Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
    return *this;
  }
  ByteWriter& Text(std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), bytes, bytes + text.size());
    return *this;
  }
  // As GGUF writes a string: length, then bytes.
  ByteWriter& Counted(std::string_view text) { return Put<uint64_t>(text.size()).Text(text); }
  ByteWriter& Bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  ByteWriter& PadTo(size_t multiple) {
    bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple);
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// The number that ggml gives a type.
inline uint32_t GgmlType(DType dtype) {
  static const std::map<DType, uint32_t> kTypes = {
      {DType::kF32, 0},      {DType::kF16, 1},    {DType::kQ4_0, 2},     {DType::kQ4_1, 3},
      {DType::kQ5_0, 6},     {DType::kQ5_1, 7},   {DType::kQ8_0, 8},     {DType::kQ2_K, 10},
      {DType::kQ3_K, 11},    {DType::kQ4_K, 12},  {DType::kQ5_K, 13},    {DType::kQ6_K, 14},
      {DType::kIQ4_NL, 20},  {DType::kI8, 24},    {DType::kI32, 26},     {DType::kI64, 27},
      {DType::kBF16, 30},    {DType::kMXFP4, 39}, {DType::kIQ2_XXS, 16}, {DType::kIQ2_XS, 17},
      {DType::kIQ3_XXS, 18}, {DType::kIQ1_S, 19}, {DType::kIQ3_S, 21},   {DType::kIQ2_S, 22},
      {DType::kIQ4_XS, 23},  {DType::kIQ1_M, 29}, {DType::kTQ1_0, 34},   {DType::kTQ2_0, 35},
      {DType::kNVFP4, 40},
  };
  return kTypes.at(dtype);
}

// A GGUF file. Everything that Bytes() writes is a public field, so that a test can spoil it.
struct GgufWriter {
  struct Key {
    std::string name;
    uint32_t type;
    std::vector<std::byte> value;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // innermost first
    uint32_t type;
    uint64_t offset;  // from the start of the data
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  int64_t extra_keys = 0;     // added to the count in the header
  int64_t extra_tensors = 0;  // the same
  size_t alignment = 32;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::vector<std::byte> data;

  template <class T>
  GgufWriter& Scalar(std::string name, uint32_t type, T value) {
    keys.push_back({std::move(name), type, ByteWriter().Put(value).bytes()});
    return *this;
  }
  GgufWriter& U32(std::string name, uint32_t value) { return Scalar(std::move(name), 4, value); }
  GgufWriter& F32(std::string name, float value) { return Scalar(std::move(name), 6, value); }
  GgufWriter& Bool(std::string name, bool value) {
    return Scalar<uint8_t>(std::move(name), 7, value);
  }
  GgufWriter& String(std::string name, std::string_view value) {
    keys.push_back({std::move(name), 8, ByteWriter().Counted(value).bytes()});
    return *this;
  }
  template <class T>
  GgufWriter& Array(std::string name, uint32_t type, const std::vector<T>& values) {
    ByteWriter bytes;
    bytes.Put<uint32_t>(type).Put<uint64_t>(values.size());
    for (const T& value : values) {
      if constexpr (std::is_arithmetic_v<T>) {
        bytes.Put(value);
      } else {
        bytes.Counted(value);
      }
    }
    keys.push_back({std::move(name), 9, bytes.bytes()});
    return *this;
  }
  GgufWriter& Strings(std::string name, const std::vector<std::string>& values) {
    return Array(std::move(name), 8, values);
  }

  // `shape` is outermost first; the bytes are those of `content`, or zeros.
  GgufWriter& Add(std::string name, DType dtype, const std::vector<int64_t>& shape,
                  std::span<const std::byte> content = {}) {
    size_t elements = 1;
    for (int64_t dim : shape) elements *= static_cast<size_t>(dim);
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    tensors.push_back({std::move(name), std::vector<uint64_t>(shape.rbegin(), shape.rend()),
                       GgmlType(dtype), data.size()});
    const size_t size = RowBytes(dtype, elements);
    data.resize(data.size() + size);
    if (!content.empty()) std::memcpy(data.data() + data.size() - size, content.data(), size);
    return *this;
  }
  GgufWriter& AddFloats(std::string name, const std::vector<float>& values) {
    return Add(std::move(name), DType::kF32, {static_cast<int64_t>(values.size())},
               std::as_bytes(std::span(values)));
  }

  std::vector<std::byte> Bytes() const {
    ByteWriter out;
    out.Text(magic).Put(version);
    out.Put<uint64_t>(tensors.size() + static_cast<uint64_t>(extra_tensors));
    out.Put<uint64_t>(keys.size() + static_cast<uint64_t>(extra_keys));
    for (const Key& key : keys) out.Counted(key.name).Put(key.type).Bytes(key.value);
    for (const Tensor& tensor : tensors) {
      out.Counted(tensor.name).Put(static_cast<uint32_t>(tensor.dims.size()));
      for (uint64_t dim : tensor.dims) out.Put(dim);
      out.Put(tensor.type).Put(tensor.offset);
    }
    if (!data.empty()) out.PadTo(alignment).Bytes(data);
    return out.bytes();
  }
};

// Metadata and embedding of a tiny model of `architecture`: 2 layers, hidden 64, 4 heads of 16,
// 2 KV heads, vocabulary 32, context 128. No other tensors.
inline GgufWriter TinyGguf(const std::string& architecture) {
  GgufWriter file;
  file.String("general.architecture", architecture)
      .U32(architecture + ".block_count", 2)
      .U32(architecture + ".context_length", 128)
      .U32(architecture + ".embedding_length", 64)
      .U32(architecture + ".feed_forward_length", 96)
      .U32(architecture + ".attention.head_count", 4)
      .U32(architecture + ".attention.head_count_kv", 2)
      .F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f)
      .U32("tokenizer.ggml.eos_token_id", 2)
      .Add("token_embd.weight", DType::kF16, {32, 64});
  return file;
}

// A safetensors file: `header` is the JSON text.
inline std::vector<std::byte> SafetensorsBytes(std::string_view header, size_t data_bytes) {
  ByteWriter out;
  out.Put<uint64_t>(header.size()).Text(header);
  out.bytes().resize(out.bytes().size() + data_bytes);
  return out.bytes();
}

// A folder that is removed with its content at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  // Writes `content` (text or bytes) and gives the file's path.
  std::string Write(const std::string& name, std::span<const std::byte> content) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    return (path_ / name).string();
  }
  std::string Write(const std::string& name, std::string_view content) const {
    return Write(name, std::as_bytes(std::span(content.data(), content.size())));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice::files::testing
