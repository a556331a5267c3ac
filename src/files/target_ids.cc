#include "files/target_ids.h"

#include <cstring>

#include "base/str_cat.h"

namespace sluice::files {
namespace {

int64_t IntegerAt(const FileTensor& tensor, size_t index) {
  if (tensor.dtype == DType::kI32) {
    int32_t value;
    std::memcpy(&value, tensor.data.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, tensor.data.data() + index * sizeof(value), sizeof(value));
  return value;
}

}  // namespace

Result<std::vector<int32_t>> ReadTargetIds(const TensorSource& tensors, int vocab_size) {
  std::vector<int32_t> ids;
  const FileTensor* d2t = tensors.Find(kTargetIds);
  if (d2t == nullptr) d2t = tensors.Find("model.d2t");
  if (d2t == nullptr) return ids;
  const bool integers = d2t->dtype == DType::kI64 || d2t->dtype == DType::kI32;
  if (!integers || d2t->shape.size() != 1 || d2t->shape[0] > vocab_size)
    return BadModel(StrCat("the tensor \"d2t\" is not a list of at most ", vocab_size,
                           " integers, the tokens of the vocabulary"));
  const int64_t guesses = d2t->shape[0];
  std::vector<int32_t> guess_of(static_cast<size_t>(vocab_size), -1);
  for (int32_t guess = 0; guess < guesses; ++guess) {
    const int64_t offset = IntegerAt(*d2t, static_cast<size_t>(guess));
    const bool near = offset >= -guess && offset < vocab_size - guess;
    if (!near)
      return BadModel(StrCat("the tensor \"d2t\" has ", offset, " for guess ", guess,
                             ", which leads out of the vocabulary of ", vocab_size, " tokens"));
    const auto id = static_cast<int32_t>(guess + offset);
    int32_t& other = guess_of[static_cast<size_t>(id)];
    if (other >= 0)
      return BadModel(StrCat("the tensor \"d2t\" gives the guesses ", other, " and ", guess,
                             " the same token ", id));
    other = guess;
    ids.push_back(id);
  }
  return ids;
}

}  // namespace sluice::files
