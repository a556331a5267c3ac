// What people call the number format of a whole model: "Q4_K_M" for a mixture that a GGUF file says
// it is, whatever format most of its tensors have; else that format. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/tensor_source.h"

namespace sluice::files {

struct GgufFileType {
  std::string_view name;
  uint32_t number;  // what "general.file_type" says
};

// Those that this program writes and names, as llama.cpp numbers them.
inline constexpr GgufFileType kGgufFileTypes[] = {
    {"F32", 0},     {"F16", 1},     {"Q4_0", 2},    {"Q4_1", 3},    {"Q8_0", 7},    {"Q5_0", 8},
    {"Q5_1", 9},    {"Q2_K", 10},   {"Q3_K_S", 11}, {"Q3_K_M", 12}, {"Q3_K_L", 13}, {"Q4_K_S", 14},
    {"Q4_K_M", 15}, {"Q5_K_S", 16}, {"Q5_K_M", 17}, {"Q6_K", 18},   {"BF16", 32},
};

// Empty for a number that is not in the list.
constexpr std::string_view GgufFileTypeName(uint32_t number) {
  for (const GgufFileType& type : kGgufFileTypes) {
    if (type.number == number) return type.name;
  }
  return {};
}

std::string FileTypeOf(const TensorSource& tensors);

}  // namespace sluice::files
