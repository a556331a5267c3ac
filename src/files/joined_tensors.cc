#include "files/joined_tensors.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/seeded_hash.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

class JoinedTensors : public TensorSource {
 public:
  Status Add(std::vector<JoinedSource> sources) {
    for (JoinedSource& part : sources) {
      for (const FileTensor& own : part.source->tensors()) {
        origins_.push_back({part.source.get(), &own});
        tensors_.push_back(own);
        tensors_.back().name = StrCat(part.prefix, own.name);
      }
      sources_.push_back(std::move(part.source));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (by_name_.emplace(tensors_[i].name, i).second) continue;
      return BadModel(StrCat("the tensor ", Quote(tensors_[i].name), " stands in two files"));
    }
    return OkStatus();
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_; }

  const FileTensor* Find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }

  void Release(const FileTensor& tensor) const override {
    if (const Origin* origin = OriginOf(tensor)) origin->source->Release(*origin->tensor);
  }

  std::shared_ptr<std::byte> MapPrivately(const FileTensor& tensor) const override {
    const Origin* const origin = OriginOf(tensor);
    return origin == nullptr ? nullptr : origin->source->MapPrivately(*origin->tensor);
  }

 private:
  struct Origin {
    const TensorSource* source;
    const FileTensor* tensor;
  };

  const Origin* OriginOf(const FileTensor& tensor) const {
    const auto found = by_name_.find(tensor.name);
    return found == by_name_.end() ? nullptr : &origins_[found->second];
  }

  std::vector<std::shared_ptr<const TensorSource>> sources_;
  std::vector<FileTensor> tensors_;
  std::vector<Origin> origins_;  // by the index of the tensor
  std::unordered_map<std::string_view, size_t, SeededTextHash> by_name_;
};

}  // namespace

Result<std::shared_ptr<const TensorSource>> JoinTensors(std::vector<JoinedSource> sources) {
  auto joined = std::make_shared<JoinedTensors>();
  SLUICE_RETURN_IF_ERROR(joined->Add(std::move(sources)));
  return std::shared_ptr<const TensorSource>(std::move(joined));
}

}  // namespace sluice::files
