// The library's compiler, helped with masks that take it long. Not thread-safe.
#pragma once

#include <xgrammar/xgrammar.h>

#include <memory>
#include <string>

#include "text/grammar_compiler/frames.h"

namespace sluice::text {

class LibraryCompiler {
 public:
  explicit LibraryCompiler(const xgrammar::TokenizerInfo& vocabulary);
  ~LibraryCompiler();
  LibraryCompiler(const LibraryCompiler&) = delete;
  LibraryCompiler& operator=(const LibraryCompiler&) = delete;

  // Throws what the library does. REQUIRES: the frame is of a grammar
  xgrammar::CompiledGrammar Compile(const Frame& frame);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace sluice::text
