#include "files/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"

namespace sluice::files {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are read in place");

constexpr uint64_t kHeaderBytesMax = 32u << 20;
constexpr size_t kNameBytesMax = 512;
constexpr size_t kDimsMax = 4;
constexpr size_t kShardsMax = 1024;
constexpr size_t kFolderEntriesMax = 100000;
constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSuffix[] = ".safetensors";

std::optional<DType> DTypeOfName(std::string_view name) {
  constexpr DType kKnown[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                              DType::kI8,  DType::kU8,  DType::kI32,  DType::kI64};
  for (DType dtype : kKnown) {
    if (Name(dtype) == name) return dtype;
  }
  if (name == "BOOL") return DType::kU8;
  return std::nullopt;
}

std::optional<uint64_t> Unsigned(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

// Reads dtype and shape of one header entry, and gives the bytes that they ask for.
Result<uint64_t> ReadShape(const std::string& what, const Json& entry, FileTensor* tensor) {
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) {
    return BadModel(StrCat(what, " has no \"dtype\""));
  }
  const auto& name = dtype->get_ref<const std::string&>();
  const std::optional<DType> known = DTypeOfName(name);
  if (!known) {
    return BadModel(StrCat(what, " has the dtype ", Quote(name),
                           "; F32, F16, BF16, F8_E4M3, I8, U8, BOOL, I32 and I64 are supported"));
  }
  tensor->dtype = *known;
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array() || shape->size() > kDimsMax) {
    return BadModel(StrCat(what, " has no \"shape\" of at most ", kDimsMax, " dimensions"));
  }
  auto size = static_cast<uint64_t>(Info(*known).bytes);
  for (const Json& item : *shape) {
    const std::optional<uint64_t> dim = Unsigned(item);
    if (!dim || *dim == 0 || *dim > static_cast<uint64_t>(INT64_MAX)) {
      return BadModel(StrCat(what, " has the dimension ", DumpJson(item).substr(0, 40),
                             "; 1 to 2^63 - 1 are legal"));
    }
    if (__builtin_mul_overflow(size, *dim, &size)) {
      return BadModel(StrCat(what, " asks for more bytes than 64 bits can count"));
    }
    tensor->shape.push_back(static_cast<int64_t>(*dim));
  }
  return size;
}

Result<FileTensor> ReadEntry(const std::string& name, const Json& entry,
                             std::span<const std::byte> data) {
  const std::string what = StrCat("the tensor ", Quote(name));
  if (name.empty() || name.size() > kNameBytesMax) {
    return BadModel(
        StrCat("a tensor's name has ", name.size(), " bytes; 1 to ", kNameBytesMax, " are legal"));
  }
  if (!entry.is_object()) return BadModel(StrCat(what, " is not described by an object"));
  FileTensor tensor;
  tensor.name = name;
  SLUICE_ASSIGN_OR_RETURN(const uint64_t size, ReadShape(what, entry, &tensor));
  const auto offsets = entry.find("data_offsets");
  std::optional<uint64_t> begin, end;
  if (offsets != entry.end() && offsets->is_array() && offsets->size() == 2) {
    begin = Unsigned((*offsets)[0]);
    end = Unsigned((*offsets)[1]);
  }
  if (!begin || !end) return BadModel(StrCat(what, " has no \"data_offsets\" of two numbers"));
  if (*begin > *end || *end > data.size()) {
    return BadModel(StrCat(what, " lies at bytes ", *begin, " to ", *end, ", but the file has ",
                           data.size(), " bytes of data; it is truncated or damaged"));
  }
  if (*end - *begin != size) {
    return BadModel(
        StrCat(what, " has ", *end - *begin, " bytes, but its dtype and shape ask for ", size));
  }
  tensor.data = data.subspan(*begin, size);
  return tensor;
}

// Sorts by offset; between the tensors, and before and after them, no byte may be left or shared.
Status CheckContiguous(std::span<const std::byte> data, std::vector<FileTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(),
            [](const FileTensor& a, const FileTensor& b) { return a.data.data() < b.data.data(); });
  const std::byte* next = data.data();
  for (const FileTensor& tensor : *tensors) {
    if (tensor.data.data() != next) {
      return BadModel(StrCat("the tensor ", Quote(tensor.name), " begins at byte ",
                             tensor.data.data() - data.data(), " of the data, but the one before ",
                             "ends at ", next - data.data()));
    }
    next += tensor.data.size();
  }
  const auto used = static_cast<uint64_t>(next - data.data());
  if (used != data.size()) {
    return BadModel(StrCat("the tensors take ", used, " bytes, but the file has ", data.size(),
                           " bytes of data"));
  }
  return OkStatus();
}

struct Shard {
  std::shared_ptr<const MappedFile> mapping;
  std::vector<FileTensor> tensors;
};

Result<Shard> OpenShard(const std::string& path) {
  Shard shard;
  SLUICE_ASSIGN_OR_RETURN(shard.mapping, MappedFile::Open(path));
  auto tensors = ParseSafetensors(shard.mapping->bytes());
  if (!tensors.ok()) return tensors.status().WithContext(path);
  shard.tensors = std::move(tensors).value();
  return shard;
}

class ShardedTensors : public TensorSource {
 public:
  static Result<std::shared_ptr<const TensorSource>> Make(std::vector<Shard> shards) {
    auto source = std::make_shared<ShardedTensors>();
    for (Shard& shard : shards) {
      source->mappings_.push_back(std::move(shard.mapping));
      std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(source->tensors_));
    }
    for (const FileTensor& tensor : source->tensors_) {
      if (!source->by_name_.emplace(tensor.name, &tensor).second) {
        return BadModel(StrCat("the tensor ", Quote(tensor.name), " stands in two shards"));
      }
    }
    return std::shared_ptr<const TensorSource>(std::move(source));
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_; }

  const FileTensor* Find(std::string_view name) const override {
    const auto entry = by_name_.find(name);
    return entry == by_name_.end() ? nullptr : entry->second;
  }

  void Release(const FileTensor& tensor) const override {
    if (const MappedFile* mapping = MappingOf(tensor)) mapping->Release(tensor.data);
  }

  std::shared_ptr<std::byte> MapPrivately(const FileTensor& tensor) const override {
    const MappedFile* mapping = MappingOf(tensor);
    return mapping != nullptr ? mapping->MapPrivately(tensor.data) : nullptr;
  }

 private:
  const MappedFile* MappingOf(const FileTensor& tensor) const {
    for (const auto& mapping : mappings_) {
      const std::span<const std::byte> bytes = mapping->bytes();
      if (tensor.data.data() >= bytes.data() &&
          tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()) {
        return mapping.get();
      }
    }
    return nullptr;
  }

  std::vector<std::shared_ptr<const MappedFile>> mappings_;
  std::vector<FileTensor> tensors_;
  std::unordered_map<std::string_view, const FileTensor*, SeededTextHash> by_name_;
};

// A shard's name comes from the index: it must not lead out of the folder.
Status CheckShardName(const std::string& name) {
  const bool plain = name.size() > sizeof(kSuffix) - 1 && name.size() <= 255 &&
                     name.ends_with(kSuffix) && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain) return OkStatus();
  return BadModel(StrCat(kIndexName, " names the shard ", Quote(name),
                         "; a plain file name that ends in ", kSuffix, " is needed"));
}

Result<std::shared_ptr<const TensorSource>> OpenIndexed(const std::filesystem::path& folder) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadTextFile((folder / kIndexName).string(), kHeaderBytesMax));
  SLUICE_ASSIGN_OR_RETURN(const auto shard_of, ParseSafetensorsIndex(text));
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shard_of) names.insert(shard);
  if (names.size() > kShardsMax) {
    return BadModel(
        StrCat(kIndexName, " names ", names.size(), " shards; the limit is ", kShardsMax));
  }
  std::vector<Shard> shards;
  std::set<std::pair<std::string_view, std::string_view>> present;  // tensor, shard
  for (const std::string& name : names) {
    auto shard = OpenShard((folder / name).string());
    if (!shard.ok() && shard.status().code() == StatusCode::kNotFound) {
      return BadModel(StrCat(kIndexName, " names the shard ", Quote(name), ", which is missing"));
    }
    if (!shard.ok()) return shard.status();
    shards.push_back(std::move(shard).value());
    for (const FileTensor& tensor : shards.back().tensors) present.emplace(tensor.name, name);
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!present.contains({tensor, shard})) {
      return BadModel(StrCat(kIndexName, " places the tensor ", Quote(tensor), " in ", Quote(shard),
                             ", which does not hold it"));
    }
  }
  present.clear();
  return ShardedTensors::Make(std::move(shards));
}

Result<std::string> OnlySafetensors(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  std::vector<std::string> found;
  size_t seen = 0;
  for (; !error && entries != std::filesystem::directory_iterator() && ++seen < kFolderEntriesMax;
       entries.increment(error)) {
    if (entries->path().extension() == kSuffix) found.push_back(entries->path().string());
  }
  if (error) {
    return Status(StatusCode::kIo, StrCat(folder, ": cannot be listed: ", error.message()));
  }
  if (found.size() == 1) return found.front();
  return Status(StatusCode::kNotFound,
                StrCat(folder, " holds neither ", kSingleName, " nor ", kIndexName,
                       found.empty() ? "" : ", and several *.safetensors without an index"));
}

}  // namespace

Result<std::vector<FileTensor>> ParseSafetensors(std::span<const std::byte> bytes) {
  uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) {
    return BadModel(StrCat("the file has ", bytes.size(),
                           " bytes; a safetensors file has at least ", sizeof header_size));
  }
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kHeaderBytesMax) {
    return BadModel(StrCat("the header claims ", header_size, " bytes; the limit is ",
                           kHeaderBytesMax, ", so this is hardly a safetensors file"));
  }
  if (header_size > bytes.size() - sizeof header_size) {
    return BadModel(StrCat("the header claims ", header_size, " bytes, but the file has ",
                           bytes.size(), "; it is truncated or damaged"));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data() + sizeof header_size),
                              header_size);
  SLUICE_ASSIGN_OR_RETURN(const Json header, ParseModelJson(text, "the header"));
  const std::span<const std::byte> data = bytes.subspan(sizeof header_size + header_size);
  std::vector<FileTensor> tensors;
  tensors.reserve(header.size());
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    SLUICE_ASSIGN_OR_RETURN(FileTensor tensor, ReadEntry(name, entry, data));
    tensors.push_back(std::move(tensor));
  }
  SLUICE_RETURN_IF_ERROR(CheckContiguous(data, &tensors));
  return tensors;
}

Result<std::map<std::string, std::string>> ParseSafetensorsIndex(std::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(const Json index, ParseModelJson(text, kIndexName));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return BadModel(StrCat(kIndexName, " has no \"weight_map\" from tensors to shards"));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      return BadModel(StrCat(kIndexName, " gives no shard's name for ", Quote(tensor)));
    }
    SLUICE_RETURN_IF_ERROR(CheckShardName(shard.get_ref<const std::string&>()));
    shard_of.emplace(tensor, shard.get<std::string>());
  }
  return shard_of;
}

Result<std::shared_ptr<const TensorSource>> OpenSafetensors(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code error;
  std::string single = (path / kSingleName).string();
  if (!std::filesystem::exists(single, error)) {
    if (std::filesystem::exists(path / kIndexName, error)) return OpenIndexed(path);
    SLUICE_ASSIGN_OR_RETURN(single, OnlySafetensors(folder));
  }
  std::vector<Shard> shards;
  SLUICE_ASSIGN_OR_RETURN(Shard shard, OpenShard(single));
  shards.push_back(std::move(shard));
  return ShardedTensors::Make(std::move(shards));
}

}  // namespace sluice::files
