#include "weights/derived_matrix.h"

#include "base/str_cat.h"
#include "weights/scales.h"

namespace sluice::weights {

Result<const files::FileTensor*> FindNeeded(const files::TensorSource& source,
                                            const std::string& name, std::string_view beside,
                                            std::string_view format) {
  if (const files::FileTensor* found = source.Find(name)) return found;
  return BadModel(StrCat("the model's files have no tensor \"", name, "\", which \"", beside,
                         "\" in ", format, " needs; the download may be incomplete"));
}

Status CheckForm(const files::FileTensor& tensor, DType dtype, const std::vector<int64_t>& shape) {
  if (tensor.dtype == dtype && tensor.shape == shape) return OkStatus();
  return BadModel(StrCat("tensor \"", tensor.name, "\" is ", Name(tensor.dtype), " of shape ",
                         ShapeText(tensor.shape), " but must be ", Name(dtype), " of shape ",
                         ShapeText(shape), "; the files do not belong together"));
}

std::string StemOf(std::string_view name) {
  constexpr std::string_view kWeight = "weight";
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return std::string(name);
}

}  // namespace sluice::weights
