#include "backend/cpu/embedding/impls.h"

#include "backend/cpu/parallel.h"
#include "backend/cpu/stream.h"
#include "base/check.h"
#include "ops/embedding.h"

namespace sluice::cpu {
namespace {

using ops::Embedding;

// The plain loops, which take turns on the rows: of a text of 130 tokens one thread takes 0.1 ms,
// in which the others would fall asleep.
Status RunEmbedding(device::Stream& stream, const Embedding::Desc& desc,
                    const Embedding::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));  // of all, before anything is written
  ForRows(AsCpu(stream), args.ids.dims[0], desc.hidden, [&](int64_t begin, int64_t end) {
    Embedding::Args part = args;
    part.ids = args.ids.Rows(begin, end - begin);
    part.out = args.out.Rows(begin, end - begin);
    CHECK(ops::RefEmbedding(stream, desc, part).ok(), "a part of what was checked");
  });
  return OkStatus();
}

}  // namespace

void RegisterEmbedding(ops::OpTable& table) {
  table.Add<Embedding>({"any_embedding", &ops::RefEmbeddingSupports, &RunEmbedding});
  table.Add<Embedding>({"ref_embedding", &ops::RefEmbeddingSupports, &ops::RefEmbedding});
}

}  // namespace sluice::cpu
