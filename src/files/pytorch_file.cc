#include "files/pytorch_file.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/mapped_file.h"
#include "files/pickled_tensors.h"
#include "files/zip_directory.h"

namespace sluice::files {
namespace {

constexpr std::string_view kPickle = "data.pkl";

using Entries = std::map<std::string, std::span<const std::byte>>;

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// All that torch.save writes stands in one folder, whose name is the file's own.
Result<std::string> FolderOf(const Entries& entries) {
  for (const auto& [name, content] : entries) {
    if (name.ends_with(StrCat("/", kPickle))) return name.substr(0, name.size() - kPickle.size());
  }
  return BadModel(StrCat("the file has no ", kPickle, ", so it is not one that torch.save wrote"));
}

// Whether the numbers lie row by row, without gaps.
bool IsDense(const PickledTensor& tensor) {
  int64_t step = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) return false;
    if (__builtin_mul_overflow(step, tensor.shape[i], &step)) return false;
  }
  return true;
}

Result<FileTensor> Placed(const PickledTensor& pickled, const std::string& folder,
                          const Entries& entries) {
  const auto wrong = [&](const auto&... why) {
    return BadModel(StrCat("the tensor ", Quote(pickled.name), " ", why...));
  };
  if (!IsDense(pickled)) return wrong("does not lie row by row, which is not supported");
  const auto storage = entries.find(StrCat(folder, "data/", pickled.storage));
  if (storage == entries.end())
    return wrong("is in the storage ", Quote(pickled.storage), ", which the file does not have");
  uint64_t count = 1, begin = 0, size = 0;
  for (const int64_t dim : pickled.shape) count *= static_cast<uint64_t>(dim);  // IsDense
  const auto bytes = static_cast<uint64_t>(Info(pickled.dtype).bytes);
  const uint64_t there = storage->second.size();
  if (__builtin_mul_overflow(static_cast<uint64_t>(pickled.offset), bytes, &begin) ||
      __builtin_mul_overflow(count, bytes, &size) || begin > there || size > there - begin)
    return wrong("asks for more than the ", there, " bytes of its storage");
  FileTensor tensor;
  tensor.name = pickled.name;
  tensor.dtype = pickled.dtype;
  tensor.shape = pickled.shape;
  tensor.data = storage->second.subspan(begin, size);
  return tensor;
}

class PytorchTensors : public TensorSource {
 public:
  PytorchTensors(std::shared_ptr<const MappedFile> file, std::vector<FileTensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {
    for (const FileTensor& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }
  const std::vector<FileTensor>& tensors() const override { return tensors_; }
  const FileTensor* Find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  void Release(const FileTensor& tensor) const override { file_->Release(tensor.data); }
  std::shared_ptr<std::byte> MapPrivately(const FileTensor& tensor) const override {
    return file_->MapPrivately(tensor.data);
  }

 private:
  const std::shared_ptr<const MappedFile> file_;
  const std::vector<FileTensor> tensors_;
  std::unordered_map<std::string_view, const FileTensor*, SeededTextHash> by_name_;
};

}  // namespace

Result<std::vector<FileTensor>> ParsePytorch(std::span<const std::byte> bytes) {
  if (TextOf(bytes).starts_with("\x80\x02\x8a\x0a"))
    return BadModel(
        "the file is of the form that PyTorch wrote before 1.6; write the weights as "
        "model.safetensors");
  SLUICE_ASSIGN_OR_RETURN(const Entries entries, StoredZipEntries(bytes));
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, FolderOf(entries));
  const auto order = entries.find(folder + "byteorder");
  if (order != entries.end() && TextOf(order->second) != "little")
    return BadModel("the numbers lie with the highest byte first, which is not supported");
  SLUICE_ASSIGN_OR_RETURN(const std::vector<PickledTensor> pickled,
                          ReadPickledTensors(entries.find(StrCat(folder, kPickle))->second));
  std::vector<FileTensor> tensors;
  for (const PickledTensor& tensor : pickled) {
    SLUICE_ASSIGN_OR_RETURN(tensors.emplace_back(), Placed(tensor, folder, entries));
  }
  std::vector<std::string_view> names;
  for (const FileTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return BadModel(StrCat("the tensor ", Quote(*twice), " comes twice"));
  return tensors;
}

Result<std::shared_ptr<const TensorSource>> OpenPytorch(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  auto tensors = ParsePytorch(file->bytes());
  if (!tensors.ok()) return tensors.status().WithContext(path);
  return std::shared_ptr<const TensorSource>(
      std::make_shared<PytorchTensors>(std::move(file), *std::move(tensors)));
}

}  // namespace sluice::files
