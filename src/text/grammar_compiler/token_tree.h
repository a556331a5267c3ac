// The tokens of a vocabulary as a tree of their bytes. Immutable, any thread.
#pragma once

#include <xgrammar/xgrammar.h>

#include <array>
#include <cstdint>
#include <vector>

namespace sluice::text {

// Tokens are told by their index in the library's order, which is that of their bytes: those that
// begin with the same bytes stand side by side.
struct TokenTree {
  struct Node {
    int32_t after;  // the node behind all that begin with this one's bytes
    int32_t first;  // tokens that begin with its bytes: [first, last); those that are these bytes
    int32_t own;    // come first: [first, own)
    int32_t last;
    int32_t depth;   // of the node's last byte; 0: the first byte of a token
    int32_t height;  // bytes behind it, of the longest token that begins with its bytes
    uint8_t byte;
  };

  explicit TokenTree(const xgrammar::TokenizerInfo& vocabulary);

  std::vector<Node> nodes;         // a node's descendants follow it
  std::array<int32_t, 256> roots;  // nodes of first bytes; -1: no token begins so
  int32_t tokens = 0;
  int32_t depth = 0;  // bytes of the longest token
};

}  // namespace sluice::text
