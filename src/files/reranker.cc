#include "files/reranker.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "files/folder_texts.h"

namespace sluice::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "qwen3-reranker";

std::optional<int> IdOf(const TokenizerData& tokenizer, std::string_view piece) {
  const auto found = std::find(tokenizer.pieces.begin(), tokenizer.pieces.end(), piece);
  if (found == tokenizer.pieces.end()) return std::nullopt;
  return static_cast<int>(found - tokenizer.pieces.begin());
}

}  // namespace

void SetAnswer(const AnswerTokens& answer, ModelConfig* config) {
  config->pooling.emplace();
  config->pooling->kind = PoolingKind::kLast;
  config->pooling->answer = answer;
  config->labels = {"no", "yes"};
}

Status ReadReranker(const std::string& folder, const TokenizerData& tokenizer,
                    ModelConfig* config) {
  if (config->architecture != Architecture::kQwen3 || config->pooling) return OkStatus();
  const fs::path path = fs::path(folder) / "";
  if (Lower(path.parent_path().filename().string()).find(kName) == std::string::npos) {
    SLUICE_ASSIGN_OR_RETURN(const std::string readme,
                            ReadOptional(path / "README.md", kConfigBytesMax));
    if (Lower(readme).find(StrCat("# ", kName)) == std::string::npos) return OkStatus();
  }
  const std::optional<int> yes = IdOf(tokenizer, "yes"), no = IdOf(tokenizer, "no");
  if (!yes || !no || std::max(*yes, *no) >= config->vocab_size) {
    return BadModel(
        "the folder is that of a Qwen3-Reranker, but its tokenizer has no tokens \"yes\" and "
        "\"no\"");
  }
  SetAnswer({.no = *no, .yes = *yes}, config);
  return OkStatus();
}

}  // namespace sluice::files
