#include "files/file_type.h"

#include <gtest/gtest.h>

namespace sluice::files {
namespace {

class Tensors : public TensorSource {
 public:
  explicit Tensors(std::vector<FileTensor> tensors) : tensors_(std::move(tensors)) {}
  const std::vector<FileTensor>& tensors() const override { return tensors_; }
  const FileTensor* Find(std::string_view) const override { return nullptr; }
  void Release(const FileTensor&) const override {}

 private:
  std::vector<FileTensor> tensors_;
};

FileTensor TensorOf(DType dtype, int64_t rows) {
  FileTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = {rows, 256};
  return tensor;
}

TEST(FileTypeTest, WithoutAWordOfTheFileTheFormatOfMostElementsCounts) {
  EXPECT_EQ(FileTypeOf(Tensors({TensorOf(DType::kF32, 1), TensorOf(DType::kQ4_1, 100),
                                TensorOf(DType::kQ8_0, 50)})),
            "Q4_1");
  EXPECT_EQ(FileTypeOf(Tensors({})), "");
}

TEST(FileTypeTest, NumbersAreLlamaCpps) {
  EXPECT_EQ(GgufFileTypeName(15), "Q4_K_M");
  EXPECT_EQ(GgufFileTypeName(32), "BF16");
  EXPECT_EQ(GgufFileTypeName(999), "");
}

}  // namespace
}  // namespace sluice::files
