#include "files/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/gguf_types.h"

namespace sluice::files {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

constexpr uint64_t kKeysMax = 1u << 16;
constexpr uint64_t kKeyBytesMax = 65535;
constexpr uint64_t kTensorsMax = 1u << 17;
constexpr uint64_t kTensorNameBytesMax = 256;
constexpr uint64_t kStringBytesMax = 64u << 20;
constexpr uint64_t kArrayValuesMax = 1u << 24;  // of all arrays of a file together
constexpr int64_t kAlignmentMin =
    8;  // as the format demands; also makes data safe to read in place
constexpr int64_t kAlignmentMax = 1 << 20;
constexpr uint32_t kGgufDimsMax = 4;
// The shortest possible entries: a key (length 8, text 1, type 4, value 1) and a tensor (length 8,
// text 1, dimensions 4 and 8, type 4, offset 8).
constexpr uint64_t kKeyEntryBytesMin = 14;
constexpr uint64_t kTensorEntryBytesMin = 33;

class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<GgufContents> Parse() {
    SLUICE_RETURN_IF_ERROR(ReadHeader());
    for (uint64_t i = 0; i < key_count_; ++i) SLUICE_RETURN_IF_ERROR(ReadKey());
    SLUICE_RETURN_IF_ERROR(ReadAlignment());
    pending_.reserve(tensor_count_);
    for (uint64_t i = 0; i < tensor_count_; ++i) SLUICE_RETURN_IF_ERROR(ReadTensor());
    SLUICE_RETURN_IF_ERROR(PlaceTensors());
    contents_.alignment = alignment_;
    return std::move(contents_);
  }

 private:
  struct PendingTensor {
    uint64_t offset = 0;  // from the start of the data section
    uint64_t size = 0;
  };

  uint64_t Left() const { return bytes_.size() - position_; }

  Status Truncated(std::string_view what) const {
    return BadModel(StrCat("the file ends after ", bytes_.size(), " bytes, inside ", what,
                           "; it is truncated or damaged"));
  }

  template <class T>
  Status Read(std::string_view what, T* value) {
    if (Left() < sizeof(T)) return Truncated(what);
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return OkStatus();
  }

  // Text is std::string or std::string_view.
  template <class Text>
  Status ReadString(std::string_view what, uint64_t bytes_max, Text* text) {
    uint64_t size = 0;
    SLUICE_RETURN_IF_ERROR(Read(what, &size));
    if (size > bytes_max) {
      return BadModel(StrCat(what, " claims ", size, " bytes; the limit is ", bytes_max));
    }
    if (size > Left()) return Truncated(what);
    *text = Text(reinterpret_cast<const char*>(bytes_.data() + position_), size);
    position_ += size;
    return OkStatus();
  }

  Status ReadHeader();
  Status CheckCount(std::string_view what, uint64_t count, uint64_t limit, uint64_t entry_bytes);
  Status ReadKey();
  Status ReadValue(const std::string& key, uint32_t type, GgufValue* value);
  template <class T>
  Status ReadScalar(const std::string& key, GgufValue* value);
  Status ReadArray(const std::string& key, GgufValue* value);
  template <class T>
  Status ReadNumbers(const std::string& key, uint64_t count, GgufValue::Array* array);
  Status ReadStrings(const std::string& key, uint64_t count, GgufValue::Array* array);
  Status ReadAlignment();
  Status ReadTensor();
  Status ReadShape(FileTensor* tensor);
  Status PlaceTensors();
  Status CheckOverlap() const;

  const std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t array_values_ = 0;
  uint64_t alignment_ = kGgufAlignmentDefault;
  GgufContents contents_;
  std::vector<PendingTensor> pending_;  // beside contents_.tensors
  std::unordered_set<std::string, SeededTextHash> names_;
};

Status Parser::ReadHeader() {
  char magic[4] = {};
  SLUICE_RETURN_IF_ERROR(Read("the header", &magic));
  if (std::memcmp(magic, "GGUF", 4) != 0) {
    return BadModel("the file does not begin with \"GGUF\"; it is not a GGUF file");
  }
  uint32_t version = 0;
  SLUICE_RETURN_IF_ERROR(Read("the header", &version));
  if (version != 2 && version != 3) {
    const uint32_t swapped = __builtin_bswap32(version);
    if (swapped == 2 || swapped == 3) {
      return BadModel("the file is big-endian GGUF; only little-endian files are read");
    }
    return BadModel(StrCat("GGUF version ", version, " is not known; versions 2 and 3 are"));
  }
  SLUICE_RETURN_IF_ERROR(Read("the header", &tensor_count_));
  SLUICE_RETURN_IF_ERROR(Read("the header", &key_count_));
  SLUICE_RETURN_IF_ERROR(CheckCount("metadata keys", key_count_, kKeysMax, kKeyEntryBytesMin));
  return CheckCount("tensors", tensor_count_, kTensorsMax, kTensorEntryBytesMin);
}

Status Parser::CheckCount(std::string_view what, uint64_t count, uint64_t limit,
                          uint64_t entry_bytes) {
  if (count > limit) {
    return BadModel(StrCat("the header declares ", count, " ", what, "; the limit is ", limit));
  }
  if (count > Left() / entry_bytes) {
    return BadModel(StrCat("the header declares ", count, " ", what, ", but a file of ",
                           bytes_.size(), " bytes cannot hold them"));
  }
  return OkStatus();
}

Status Parser::ReadKey() {
  std::string key;
  SLUICE_RETURN_IF_ERROR(ReadString("the name of a metadata key", kKeyBytesMax, &key));
  if (key.empty()) return BadModel("a metadata key has an empty name");
  uint32_t type = 0;
  SLUICE_RETURN_IF_ERROR(Read("the type of a metadata key", &type));
  const uint64_t begin = position_ - sizeof type;
  GgufValue value;
  SLUICE_RETURN_IF_ERROR(ReadValue(key, type, &value));
  contents_.entries.push_back({key, bytes_.subspan(begin, position_ - begin)});
  const auto [entry, inserted] = contents_.metadata.try_emplace(std::move(key), std::move(value));
  if (!inserted) return BadModel(StrCat("the metadata key ", Quote(entry->first), " stands twice"));
  return OkStatus();
}

template <class T>
Status Parser::ReadScalar(const std::string& key, GgufValue* value) {
  T raw{};
  SLUICE_RETURN_IF_ERROR(Read(StrCat("the value of ", Quote(key)), &raw));
  if constexpr (std::is_floating_point_v<T>) {
    value->value = static_cast<double>(raw);
  } else if constexpr (std::is_signed_v<T>) {
    value->value = static_cast<int64_t>(raw);
  } else {
    value->value = static_cast<uint64_t>(raw);
  }
  return OkStatus();
}

Status Parser::ReadValue(const std::string& key, uint32_t type, GgufValue* value) {
  switch (type) {
    case kU8:
      return ReadScalar<uint8_t>(key, value);
    case kI8:
      return ReadScalar<int8_t>(key, value);
    case kU16:
      return ReadScalar<uint16_t>(key, value);
    case kI16:
      return ReadScalar<int16_t>(key, value);
    case kU32:
      return ReadScalar<uint32_t>(key, value);
    case kI32:
      return ReadScalar<int32_t>(key, value);
    case kU64:
      return ReadScalar<uint64_t>(key, value);
    case kI64:
      return ReadScalar<int64_t>(key, value);
    case kF32:
      return ReadScalar<float>(key, value);
    case kF64:
      return ReadScalar<double>(key, value);
    case kBool: {
      uint8_t raw = 0;
      SLUICE_RETURN_IF_ERROR(Read(StrCat("the value of ", Quote(key)), &raw));
      if (raw > 1) return BadModel(StrCat(Quote(key), " is a bool of value ", raw));
      value->value = raw == 1;
      return OkStatus();
    }
    case kString: {
      std::string text;
      SLUICE_RETURN_IF_ERROR(
          ReadString(StrCat("the value of ", Quote(key)), kStringBytesMax, &text));
      value->value = std::move(text);
      return OkStatus();
    }
    case kArray:
      return ReadArray(key, value);
    default:
      return BadModel(StrCat(Quote(key), " has the unknown value type ", type, "; types are 0 to ",
                             kValueTypeCount - 1));
  }
}

template <class T>
Status Parser::ReadNumbers(const std::string& key, uint64_t count, GgufValue::Array* array) {
  if (count > Left() / sizeof(T)) return Truncated(StrCat("the array ", Quote(key)));
  constexpr bool kReal = std::is_floating_point_v<T>;
  std::vector<std::conditional_t<kReal, double, int64_t>> values(count);
  for (auto& value : values) {
    T raw{};
    std::memcpy(&raw, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (raw > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return BadModel(StrCat("the array ", Quote(key), " holds ", raw,
                               ", which does not fit 64 bits with sign"));
      }
    }
    value = static_cast<std::decay_t<decltype(value)>>(raw);
  }
  *array = std::move(values);
  return OkStatus();
}

Status Parser::ReadStrings(const std::string& key, uint64_t count, GgufValue::Array* array) {
  const std::string what = StrCat("the array ", Quote(key));
  if (count > Left() / sizeof(uint64_t)) return Truncated(what);
  std::vector<std::string_view> values(count);
  for (auto& value : values) SLUICE_RETURN_IF_ERROR(ReadString(what, kStringBytesMax, &value));
  *array = std::move(values);
  return OkStatus();
}

Status Parser::ReadArray(const std::string& key, GgufValue* value) {
  const std::string what = StrCat("the array ", Quote(key));
  uint32_t type = 0;
  uint64_t count = 0;
  SLUICE_RETURN_IF_ERROR(Read(what, &type));
  SLUICE_RETURN_IF_ERROR(Read(what, &count));
  if (count > kArrayValuesMax - array_values_) {
    return BadModel(StrCat(what, " claims ", count, " values; the limit of all arrays together is ",
                           kArrayValuesMax));
  }
  array_values_ += count;
  GgufValue::Array& array = value->value.emplace<GgufValue::Array>();
  switch (type) {
    case kU8:
      return ReadNumbers<uint8_t>(key, count, &array);
    case kI8:
      return ReadNumbers<int8_t>(key, count, &array);
    case kU16:
      return ReadNumbers<uint16_t>(key, count, &array);
    case kI16:
      return ReadNumbers<int16_t>(key, count, &array);
    case kU32:
      return ReadNumbers<uint32_t>(key, count, &array);
    case kI32:
      return ReadNumbers<int32_t>(key, count, &array);
    case kU64:
      return ReadNumbers<uint64_t>(key, count, &array);
    case kI64:
      return ReadNumbers<int64_t>(key, count, &array);
    case kF32:
      return ReadNumbers<float>(key, count, &array);
    case kF64:
      return ReadNumbers<double>(key, count, &array);
    case kString:
      return ReadStrings(key, count, &array);
    case kBool: {
      GgufValue::Array raw;
      SLUICE_RETURN_IF_ERROR(ReadNumbers<uint8_t>(key, count, &raw));
      const auto& numbers = std::get<std::vector<int64_t>>(raw);
      if (std::any_of(numbers.begin(), numbers.end(), [](int64_t n) { return n > 1; })) {
        return BadModel(StrCat(what, " of bools holds values other than 0 and 1"));
      }
      array = std::vector<bool>(numbers.begin(), numbers.end());
      return OkStatus();
    }
    case kArray:
      return BadModel(StrCat(what, " holds arrays; nested arrays are not read"));
    default:
      return BadModel(StrCat(what, " has the unknown value type ", type));
  }
}

Status Parser::ReadAlignment() {
  const auto entry = contents_.metadata.find("general.alignment");
  if (entry == contents_.metadata.end()) return OkStatus();
  uint64_t alignment = 0;
  if (const auto* plain = std::get_if<uint64_t>(&entry->second.value)) {
    alignment = *plain;
  } else if (const auto* with_sign = std::get_if<int64_t>(&entry->second.value)) {
    alignment = *with_sign < 0 ? 0 : static_cast<uint64_t>(*with_sign);
  } else {
    return BadModel("\"general.alignment\" is not an integer");
  }
  if (alignment < kAlignmentMin || alignment > kAlignmentMax || !std::has_single_bit(alignment)) {
    return BadModel(StrCat("\"general.alignment\" is ", alignment,
                           "; it must be a power of two from ", kAlignmentMin, " to ",
                           kAlignmentMax));
  }
  alignment_ = alignment;
  return OkStatus();
}

Status Parser::ReadTensor() {
  FileTensor tensor;
  SLUICE_RETURN_IF_ERROR(ReadString("the name of a tensor", kTensorNameBytesMax, &tensor.name));
  if (tensor.name.empty()) return BadModel("a tensor has an empty name");
  if (!names_.insert(tensor.name).second) {
    return BadModel(StrCat("the tensor ", Quote(tensor.name), " stands twice"));
  }
  const std::string what = StrCat("the tensor ", Quote(tensor.name));
  SLUICE_RETURN_IF_ERROR(ReadShape(&tensor));
  uint32_t type = 0;
  SLUICE_RETURN_IF_ERROR(Read(what, &type));
  const std::optional<DType> dtype = DTypeOfGgml(type);
  if (!dtype) {
    return BadModel(StrCat(what, " has ggml type ", type,
                           ", which is not supported; convert the model to F16, BF16, Q8_0, "
                           "Q4_0 to Q5_1, Q2_K to Q6_K, an IQ or TQ format, MXFP4 or NVFP4"));
  }
  tensor.dtype = *dtype;
  PendingTensor place;
  SLUICE_RETURN_IF_ERROR(Read(what, &place.offset));

  const DTypeInfo& info = Info(*dtype);
  const auto row = static_cast<uint64_t>(tensor.shape.back());
  if (row % info.block != 0) {
    return BadModel(StrCat(what, " has rows of ", row, " elements, which is not a multiple of ",
                           info.name, "'s block of ", info.block));
  }
  uint64_t size = row / info.block;
  bool overflow = __builtin_mul_overflow(size, static_cast<uint64_t>(info.bytes), &size);
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    overflow |= __builtin_mul_overflow(size, static_cast<uint64_t>(tensor.shape[i]), &size);
  }
  if (overflow) return BadModel(StrCat(what, " asks for more bytes than 64 bits can count"));
  place.size = size;
  pending_.push_back(place);
  contents_.tensors.push_back(std::move(tensor));
  return OkStatus();
}

Status Parser::ReadShape(FileTensor* tensor) {
  const std::string what = StrCat("the tensor ", Quote(tensor->name));
  uint32_t dims = 0;
  SLUICE_RETURN_IF_ERROR(Read(what, &dims));
  if (dims == 0 || dims > kGgufDimsMax) {
    return BadModel(StrCat(what, " has ", dims, " dimensions; 1 to ", kGgufDimsMax, " are legal"));
  }
  int64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    int64_t dim = 0;
    SLUICE_RETURN_IF_ERROR(Read(what, &dim));
    if (dim < 1) {
      return BadModel(StrCat(what, " has a dimension of ", static_cast<uint64_t>(dim),
                             "; 1 to 2^63 - 1 are legal"));
    }
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return BadModel(StrCat(what, " has more elements than 63 bits can count"));
    }
    tensor->shape.push_back(dim);
  }
  // The file has the innermost dimension first.
  std::reverse(tensor->shape.begin(), tensor->shape.end());
  return OkStatus();
}

Status Parser::PlaceTensors() {
  const uint64_t start = (position_ + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t room = start <= bytes_.size() ? bytes_.size() - start : 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    FileTensor& tensor = contents_.tensors[i];
    const auto [offset, size] = pending_[i];
    const std::string what = StrCat("the tensor ", Quote(tensor.name));
    if (offset % alignment_ != 0) {
      return BadModel(StrCat(what, " begins at offset ", offset,
                             ", which is not a multiple of the alignment ", alignment_));
    }
    if (offset > room || size > room - offset) {
      return BadModel(StrCat(what, " needs ", size, " bytes at offset ", offset,
                             ", but the file has ", room,
                             " bytes of data; it is truncated or damaged"));
    }
    tensor.data = bytes_.subspan(start + offset, size);
  }
  return CheckOverlap();
}

Status Parser::CheckOverlap() const {
  std::vector<const FileTensor*> order;
  order.reserve(contents_.tensors.size());
  for (const FileTensor& tensor : contents_.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const FileTensor* a, const FileTensor* b) {
    return a->data.data() < b->data.data();
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto previous = order[i - 1]->data;
    if (order[i]->data.data() < previous.data() + previous.size()) {
      return BadModel(StrCat("the tensors ", Quote(order[i - 1]->name), " and ",
                             Quote(order[i]->name), " overlap"));
    }
  }
  return OkStatus();
}

}  // namespace

Result<GgufContents> ParseGguf(std::span<const std::byte> bytes) { return Parser(bytes).Parse(); }

}  // namespace sluice::files
