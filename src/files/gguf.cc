#include "files/gguf.h"

#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/gguf_parser.h"
#include "files/gguf_parts.h"
#include "files/mapped_file.h"

namespace sluice::files {
namespace {

class ParsedGguf : public GgufFile {
 public:
  // `mapping` keeps the bytes of `contents` alive; it is null when the caller does.
  ParsedGguf(std::shared_ptr<const MappedFile> mapping, GgufContents contents)
      : mapping_(std::move(mapping)), contents_(std::move(contents)) {
    for (const FileTensor& tensor : contents_.tensors) by_name_.emplace(tensor.name, &tensor);
  }

  const std::vector<FileTensor>& tensors() const override { return contents_.tensors; }

  const FileTensor* Find(std::string_view name) const override {
    const auto entry = by_name_.find(name);
    return entry == by_name_.end() ? nullptr : entry->second;
  }

  void Release(const FileTensor& tensor) const override {
    if (mapping_) mapping_->Release(tensor.data);
  }

  std::shared_ptr<std::byte> MapPrivately(const FileTensor& tensor) const override {
    return mapping_ ? mapping_->MapPrivately(tensor.data) : nullptr;
  }

  const std::map<std::string, GgufValue, std::less<>>& metadata() const override {
    return contents_.metadata;
  }

  const std::vector<GgufEntry>& entries() const override { return contents_.entries; }
  uint64_t alignment() const override { return contents_.alignment; }

  Result<std::optional<int64_t>> Integer(std::string_view key) const override {
    const GgufValue* value = Get(key);
    if (!value) return std::optional<int64_t>();
    if (const auto* number = std::get_if<int64_t>(&value->value)) return std::optional(*number);
    if (const auto* number = std::get_if<uint64_t>(&value->value)) {
      if (*number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return BadModel(StrCat(Quote(key), " is ", *number, ", which is too large"));
      }
      return std::optional(static_cast<int64_t>(*number));
    }
    return WrongType(key, "an integer");
  }

  Result<std::optional<double>> Number(std::string_view key) const override {
    const GgufValue* value = Get(key);
    if (!value) return std::optional<double>();
    if (const auto* number = std::get_if<double>(&value->value)) return std::optional(*number);
    if (const auto* number = std::get_if<int64_t>(&value->value)) {
      return std::optional(static_cast<double>(*number));
    }
    if (const auto* number = std::get_if<uint64_t>(&value->value)) {
      return std::optional(static_cast<double>(*number));
    }
    return WrongType(key, "a number");
  }

  Result<std::optional<bool>> Boolean(std::string_view key) const override {
    const GgufValue* value = Get(key);
    if (!value) return std::optional<bool>();
    if (const auto* flag = std::get_if<bool>(&value->value)) return std::optional(*flag);
    return WrongType(key, "a bool");
  }

  Result<std::optional<std::string>> String(std::string_view key) const override {
    const GgufValue* value = Get(key);
    if (!value) return std::optional<std::string>();
    if (const auto* text = std::get_if<std::string>(&value->value)) return std::optional(*text);
    return WrongType(key, "a string");
  }

 private:
  const GgufValue* Get(std::string_view key) const {
    const auto entry = contents_.metadata.find(key);
    return entry == contents_.metadata.end() ? nullptr : &entry->second;
  }

  static Status WrongType(std::string_view key, std::string_view wanted) {
    return BadModel(StrCat("the metadata key ", Quote(key), " is not ", wanted));
  }

  const std::shared_ptr<const MappedFile> mapping_;
  const GgufContents contents_;
  std::unordered_map<std::string_view, const FileTensor*, SeededTextHash> by_name_;
};

Result<std::shared_ptr<const GgufFile>> FromBytes(std::span<const std::byte> bytes,
                                                  std::shared_ptr<const MappedFile> mapping,
                                                  const std::string& name) {
  auto contents = ParseGguf(bytes);
  if (!contents.ok()) return contents.status().WithContext(name);
  return std::shared_ptr<const GgufFile>(
      std::make_shared<ParsedGguf>(std::move(mapping), std::move(contents).value()));
}

Result<std::shared_ptr<const GgufFile>> OpenOne(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(auto mapping, MappedFile::Open(path));
  const std::span<const std::byte> bytes = mapping->bytes();
  return FromBytes(bytes, std::move(mapping), path);
}

}  // namespace

Result<std::shared_ptr<const GgufFile>> GgufFile::Open(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(auto file, OpenOne(path));
  return JoinGgufParts(std::move(file), path, OpenOne);
}

Result<std::shared_ptr<const GgufFile>> GgufFile::FromMemory(std::span<const std::byte> bytes,
                                                             const std::string& name) {
  return FromBytes(bytes, nullptr, name);
}

}  // namespace sluice::files
