// A draft whose output matrix is cut to some tokens of its vocabulary, so that guessing reads less.
// What is cut goes on reading every token; the tensor "d2t" says which token each row is, as in
// heads of EAGLE-3's form. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"

namespace sluice::files {

// A draft that can be cut: a GGUF file, the folder of a model, or that of a head of EAGLE-3's form.
struct DraftSource {
  std::string path;
  bool is_gguf = false;
  int vocab_size = 0;
  std::vector<int32_t> ids;      // of the vocabulary, by row of `output`
  std::vector<int32_t> end_ids;  // that end an answer
  std::shared_ptr<const TensorSource> tensors;
  const FileTensor* output = nullptr;  // [ids, hidden size]; a tied embedding, too
};

// kNotFound and kBadModel as OpenModel and OpenEagle; kInvalidArgument where the output matrix has
// scales beside it.
Result<DraftSource> OpenDraftSource(const std::string& path);

// Writes the draft with `rows` of its output matrix alone, ascending: to a folder, or to a file if
// it was one. kInvalidArgument: `out` exists, and not `replace`; kIo.
Status WriteCutDraft(const DraftSource& source, std::span<const int32_t> rows,
                     const std::string& out, bool replace);

}  // namespace sluice::files
