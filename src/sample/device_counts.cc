#include "sample/device_counts.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/alignment.h"
#include "device/part.h"
#include "device/staging.h"

namespace sluice::sample {
namespace {

constexpr auto kDeviceMemory = device::MemoryKind::kDevice;

template <class T>
size_t BytesOf(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

// How many ints SetCounts takes for a row, and for a word.
constexpr int64_t kRowInts = 3, kWordInts = 2;

ops::Tensor Ints(const device::View& view, size_t offset, int64_t count, int64_t ints) {
  return ops::Dense(device::Behind(view, offset), DType::kI32, {count, ints});
}

size_t SetBytes(int64_t rows, int64_t words) {
  return device::AlignUp(static_cast<size_t>(rows * kRowInts) * sizeof(int32_t)) +
         static_cast<size_t>(words * kWordInts) * sizeof(int32_t);
}

}  // namespace

void DeviceCounts::Sets::Clear() {
  rows_.clear();
  words_.clear();
}

int DeviceCounts::Rows(int64_t vocab, int slots, size_t bytes_max) {
  const auto fit =
      static_cast<int64_t>(bytes_max / (static_cast<size_t>(vocab) * sizeof(uint32_t)));
  return static_cast<int>(std::min<int64_t>(slots, std::max<int64_t>(fit, kRowsMin)));
}

size_t DeviceCounts::Bytes(int64_t vocab, int rows) {
  return device::AlignUp(static_cast<size_t>(rows * vocab) * sizeof(uint32_t)) +
         SetBytes(rows, kWordsMin);
}

Result<DeviceCounts> DeviceCounts::Make(device::Device& device, int64_t vocab, int rows,
                                        std::vector<ops::BindRecord>* records) {
  DeviceCounts counts;
  counts.device_ = &device;
  SLUICE_ASSIGN_OR_RETURN(counts.set_, ops::Bind<ops::SetCounts>(device.ops(), {vocab}, records));
  const size_t bytes = static_cast<size_t>(rows * vocab) * sizeof(uint32_t);
  SLUICE_ASSIGN_OR_RETURN(counts.memory_, device.Allocate(bytes, kDeviceMemory));
  counts.counts_ = ops::Dense(counts.memory_.view(), DType::kI32, {rows, vocab});
  if (device.facts().device_memory) {
    SLUICE_ASSIGN_OR_RETURN(counts.inputs_,
                            device.Allocate(SetBytes(rows, kWordsMin), kDeviceMemory));
  }
  counts.tally_.resize(vocab);
  return counts;
}

void DeviceCounts::Add(int slot, const SlotState& state, Sets* sets) {
  CHECK(slot < rows() && state.awaited() == 0, "slot ", slot, " awaits ", state.awaited());
  const auto words = [sets] { return static_cast<int32_t>(sets->words_.size() / kWordInts); };
  sets->rows_.insert(sets->rows_.end(), {slot, words()});
  state.AppendCounts(tally_, &sets->words_);
  sets->rows_.push_back(words());
}

// A step before may still read inputs_, so a larger one waits for the stream.
Status DeviceCounts::Set(device::Stream& stream, Sets* sets) {
  if (sets->empty()) return OkStatus();
  const auto rows = static_cast<int64_t>(sets->rows_.size()) / kRowInts;
  const auto words = static_cast<int64_t>(sets->words_.size()) / kWordInts;
  ops::SetCounts::Args args;
  args.counts = counts_;
  if (!device_->facts().device_memory) {
    const auto host = [&](std::vector<int32_t>& values) {
      return device::View{reinterpret_cast<std::byte*>(values.data()), BytesOf(values),
                          device::MemoryKind::kHost, counts_.device};
    };
    args.rows = Ints(host(sets->rows_), 0, rows, kRowInts);
    args.words = Ints(host(sets->words_), 0, words, kWordInts);
    return set_(stream, args);
  }
  const size_t bytes = SetBytes(rows, words), words_at = bytes - BytesOf(sets->words_);
  if (sets->staging_.bytes() < bytes) {
    SLUICE_ASSIGN_OR_RETURN(sets->staging_,
                            device::AllocateStaging(*device_, std::max(bytes, SetBytes(1, 4096))));
  }
  if (inputs_.bytes() < bytes) {
    SLUICE_RETURN_IF_ERROR(stream.Synchronize());
    inputs_ = device::Buffer();
    SLUICE_ASSIGN_OR_RETURN(inputs_, device_->Allocate(bytes + bytes / 2, kDeviceMemory));
  }
  std::memcpy(sets->staging_.data(), sets->rows_.data(), BytesOf(sets->rows_));
  if (words > 0)
    std::memcpy(sets->staging_.data() + words_at, sets->words_.data(), BytesOf(sets->words_));
  const device::CopyItem item{inputs_.view(), device::Part(sets->staging_.view(), 0, bytes)};
  SLUICE_RETURN_IF_ERROR(device_->Copy(stream, {&item, 1}));
  args.rows = Ints(inputs_.view(), 0, rows, kRowInts);
  args.words = Ints(inputs_.view(), words_at, words, kWordInts);
  return set_(stream, args);
}

}  // namespace sluice::sample
