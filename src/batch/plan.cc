#include "batch/plan.h"

#include <boost/pfr.hpp>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/str_cat.h"

namespace sluice::batch {
namespace {

constexpr uint32_t kMagic = 0x504c5342;  // "BSLP"
constexpr uint32_t kVersion = 11;

// Both directions are described once (Visit); a Writer appends what it is shown.
class Writer {
 public:
  template <class T>
  void Value(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), begin, begin + sizeof value);
  }
  template <class T>
  void Enum(const T& value, T) {
    Value(value);
  }
  template <class T>
  void Array(const std::vector<T>& values) {
    static_assert(std::is_arithmetic_v<T>);
    Value<uint64_t>(values.size());
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    out_.insert(out_.end(), begin, begin + values.size() * sizeof(T));
  }
  template <class T, class VisitOne>
  void List(const std::vector<T>& values, size_t, VisitOne visit_one) {
    Value<uint64_t>(values.size());
    for (const T& value : values) visit_one(value);
  }
  std::vector<std::byte> Take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

// Reads what Writer wrote. After the first malformed value ok() is false and all reads give zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

  template <class T>
  void Value(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    if (!Has(sizeof value)) return;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
  }
  void Value(bool& value) { value = GetBelow(2) != 0; }
  // An enum of one byte whose last value is `last`.
  template <class T>
  void Enum(T& value, T last) {
    value = static_cast<T>(GetBelow(static_cast<uint8_t>(last) + 1));
  }
  template <class T>
  void Array(std::vector<T>& values) {
    const uint64_t count = GetCount(sizeof(T));
    if (!ok_) return;
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
  }
  // `smallest` is the least number of bytes that one value takes.
  template <class T, class VisitOne>
  void List(std::vector<T>& values, size_t smallest, VisitOne visit_one) {
    const uint64_t count = GetCount(smallest);
    for (uint64_t i = 0; i < count && ok_; ++i) visit_one(values.emplace_back());
  }

 private:
  bool Has(size_t size) {
    ok_ = ok_ && bytes_.size() >= size;
    return ok_;
  }
  uint8_t GetBelow(uint8_t count) {
    uint8_t value = 0;
    Value(value);
    ok_ = ok_ && value < count;
    return ok_ ? value : 0;
  }
  uint64_t GetCount(size_t smallest) {
    uint64_t count = 0;
    Value(count);
    ok_ = ok_ && count <= bytes_.size() / smallest;
    return ok_ ? count : 0;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

constexpr size_t kEntryBytes = 2 * sizeof(uint64_t) + 10 * sizeof(int32_t) + 1;
constexpr size_t kRowBytes = 2 * sizeof(int32_t) + 1;
constexpr size_t kCopyBytes = 3 * sizeof(int32_t);
constexpr size_t kBiasBytes = sizeof(int32_t) + sizeof(float);
constexpr size_t kGroupBytes = 3 * sizeof(uint64_t);  // its counts
constexpr size_t kStartBytes = 2 * sizeof(int32_t) + sizeof(double) + 3 * sizeof(uint64_t);

template <class T, class Type>
concept Is = std::is_same_v<std::remove_const_t<T>, Type>;

// Each Visit names every member in a structured binding, or goes over all of them: a type that got
// a new one does not compile here before it is visited.
template <class Archive, Is<PlanEntry> Entry>
void Visit(Archive& archive, Entry& entry) {
  auto& [sequence, slot, told_whole, first_position, unsure, query_tokens, token_begin,
         logits_begin, logits_count, next_token, guesses, second_text, tree, masked] = entry;
  archive.Value(sequence), archive.Value(slot), archive.Value(told_whole);
  archive.Value(first_position), archive.Value(unsure);
  archive.Value(query_tokens), archive.Value(token_begin), archive.Value(logits_begin);
  archive.Value(logits_count), archive.Value(next_token), archive.Value(guesses);
  archive.Value(second_text), archive.Value(tree), archive.Value(masked);
}

template <class Archive, Is<LogitsRow> Row>
void Visit(Archive& archive, Row& row) {
  auto& [token, target, purpose] = row;
  archive.Value(token), archive.Value(target), archive.Enum(purpose, RowPurpose::kScore);
}

template <class Archive, Is<GroupTable> Table>
void Visit(Archive& archive, Table& table) {
  auto& [begin, first, ids] = table;
  archive.Array(begin), archive.Array(first), archive.Array(ids);
}

template <class Archive, Is<BlockCopy> Copy>
void Visit(Archive& archive, Copy& copy) {
  auto& [group, source, destination] = copy;
  archive.Value(group), archive.Value(source), archive.Value(destination);
}

template <class Archive, Is<SamplingParams> Params>
void Visit(Archive& archive, Params& params) {
  boost::pfr::for_each_field(params, [&archive]<class T>(T& value) {
    if constexpr (Is<T, Distribution>) {
      archive.Enum(value, Distribution::kFiltered);
    } else if constexpr (Is<T, std::vector<int32_t>>) {
      archive.Array(value);
    } else if constexpr (Is<T, std::vector<std::pair<int32_t, float>>>) {
      archive.List(value, kBiasBytes, [&archive](auto& bias) {
        archive.Value(bias.first);
        archive.Value(bias.second);
      });
    } else {
      archive.Value(value);
    }
  });
}

template <class Archive, Is<SlotStart> Start>
void Visit(Archive& archive, Start& start) {
  auto& [slot, sampling, prompt_tokens, history] = start;
  archive.Value(slot);
  Visit(archive, sampling);
  archive.Value(prompt_tokens);
  archive.Array(history);
}

template <class Archive, Is<BatchPlan> Plan>
void Visit(Archive& archive, Plan& plan) {
  auto& [step, guesses, entries, tokens, logits_rows, parents, groups, copies, starts] = plan;
  const auto each = [&archive](auto& item) { Visit(archive, item); };
  archive.Value(step), archive.Value(guesses);
  archive.List(entries, kEntryBytes, each);
  archive.Array(tokens);
  archive.List(logits_rows, kRowBytes, each);
  archive.Array(parents);
  archive.List(groups, kGroupBytes, each);
  archive.List(copies, kCopyBytes, each);
  archive.List(starts, kStartBytes, each);
}

}  // namespace

std::vector<std::byte> Serialize(const BatchPlan& plan) {
  Writer writer;
  writer.Value(kMagic);
  writer.Value(kVersion);
  Visit(writer, plan);
  return writer.Take();
}

Result<BatchPlan> Deserialize(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  uint32_t magic = 0, version = 0;
  reader.Value(magic);
  reader.Value(version);
  if (!reader.ok() || magic != kMagic || version != kVersion) {
    return InvalidArgument(
        "The bytes are not a batch plan of this version; all ranks must run the same build.");
  }
  BatchPlan plan;
  Visit(reader, plan);
  if (!reader.ok() || !reader.at_end()) {
    return InvalidArgument(StrCat("The batch plan of ", bytes.size(),
                                  " bytes is malformed: a field or count does not fit the bytes."));
  }
  return plan;
}

}  // namespace sluice::batch
