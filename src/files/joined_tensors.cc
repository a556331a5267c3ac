#include "files/joined_tensors.h"

#include <algorithm>

#include "base/str_cat.h"

namespace sluice::files {
namespace {

class JoinedTensors : public TensorSource {
 public:
  JoinedTensors(std::shared_ptr<const TensorSource> model,
                std::vector<std::pair<std::string, std::shared_ptr<const TensorSource>>> others)
      : model_(std::move(model)), others_(std::move(others)), tensors_(model_->tensors()) {
    for (const auto& [folder, source] : others_) {
      for (FileTensor tensor : source->tensors()) {
        tensor.name = StrCat(folder, "/", tensor.name);
        tensors_.push_back(std::move(tensor));
      }
    }
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_; }

  const FileTensor* Find(std::string_view name) const override {
    if (const FileTensor* found = model_->Find(name)) return found;
    const auto beside = tensors_.begin() + static_cast<std::ptrdiff_t>(model_->tensors().size());
    const auto found = std::find_if(beside, tensors_.end(),
                                    [&](const FileTensor& tensor) { return tensor.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }

  // Those of the folders beside the model are small.
  void Release(const FileTensor& tensor) const override {
    if (model_->Find(tensor.name) != nullptr) model_->Release(tensor);
  }

  std::shared_ptr<std::byte> MapPrivately(const FileTensor& tensor) const override {
    return model_->Find(tensor.name) == nullptr ? nullptr : model_->MapPrivately(tensor);
  }

 private:
  const std::shared_ptr<const TensorSource> model_;
  const std::vector<std::pair<std::string, std::shared_ptr<const TensorSource>>> others_;
  std::vector<FileTensor> tensors_;  // the model's, then the others', in order
};

}  // namespace

std::shared_ptr<const TensorSource> JoinTensors(
    std::shared_ptr<const TensorSource> model,
    std::vector<std::pair<std::string, std::shared_ptr<const TensorSource>>> others) {
  return std::make_shared<JoinedTensors>(std::move(model), std::move(others));
}

}  // namespace sluice::files
