// Models without files: the shapes of published models with random weights, for measuring a
// machine. All matrices are views of one short random block, so a model of any size takes a few
// megabytes of host memory until it is loaded. Text is the bytes of a prompt: the first 256 ids.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/model_files.h"

namespace sluice::files {

inline constexpr std::string_view kSyntheticScheme = "synthetic:";  // of paths
inline constexpr uint64_t kSyntheticSeed = 0x51c0ffee;              // of the random block

// What stands for a model's path: "synthetic:<model>:<dtype>".
std::string SyntheticPath(std::string_view model, std::string_view dtype);
bool IsSyntheticPath(std::string_view path);
// The models and number formats that there are, with commas between them.
std::string SyntheticModels();
std::string SyntheticDTypes();

// kInvalidArgument lists the models or number formats there are. With those of 8 or fewer bits the
// embedding and the output matrix are BF16. The matrices of the layers have no scales with fp8;
// with fp8-row and fp8-block they have some, and activations become F8, as in published FP8 models.
Result<ModelFiles> OpenSynthetic(const std::string& path);
// The tokenizer alone.
Result<TokenizerData> SyntheticTokenizer(const std::string& path);

}  // namespace sluice::files
