// A GGUF model in several files, as llama-gguf-split writes it: all metadata in the first,
// "x-00001-of-00003.gguf", and tensors in any of them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "files/gguf.h"

namespace sluice::files {

using OpenGgufPart =
    std::function<Result<std::shared_ptr<const GgufFile>>(const std::string& path)>;

// The model whose file `file` was opened at `path`: `file` itself where it is whole, else the first
// part's metadata, without what says that it is a part, and the tensors of all parts; `open` opens
// the others, beside it. Its errors, and kBadModel: it is not the first part, its name is not a
// part's, or the parts do not belong together.
Result<std::shared_ptr<const GgufFile>> JoinGgufParts(std::shared_ptr<const GgufFile> file,
                                                      const std::string& path,
                                                      const OpenGgufPart& open);

}  // namespace sluice::files
