#include "text/grammar_compiler/token_tree.h"

#include <algorithm>
#include <string>

namespace sluice::text {

TokenTree::TokenTree(const xgrammar::TokenizerInfo& vocabulary) {
  roots.fill(-1);
  const auto& sorted = vocabulary.GetSortedDecodedVocab();
  tokens = static_cast<int32_t>(sorted.size());
  std::vector<int32_t> open;  // nodes from the first byte of the token before to its last
  const auto close = [&](size_t depth_left, int32_t token) {
    for (; open.size() > depth_left; open.pop_back()) {
      nodes[open.back()].after = static_cast<int32_t>(nodes.size());
      nodes[open.back()].last = token;
      if (open.size() < 2) continue;
      int32_t& above = nodes[open[open.size() - 2]].height;
      above = std::max(above, nodes[open.back()].height + 1);
    }
  };
  for (int32_t token = 0; token < tokens; ++token) {
    const std::string& bytes = sorted[token].second;
    size_t same = 0;
    while (same < std::min(open.size(), bytes.size()) &&
           nodes[open[same]].byte == static_cast<uint8_t>(bytes[same])) {
      ++same;
    }
    close(same, token);
    for (size_t i = same; i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      if (i == 0) roots[byte] = static_cast<int32_t>(nodes.size());
      open.push_back(static_cast<int32_t>(nodes.size()));
      nodes.push_back({0, token, token, 0, static_cast<int32_t>(i), 0, byte});
    }
    if (!open.empty()) nodes[open.back()].own = token + 1;
    depth = std::max(depth, static_cast<int32_t>(bytes.size()));
  }
  close(0, tokens);
}

}  // namespace sluice::text
