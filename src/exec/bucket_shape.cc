#include "exec/bucket_shape.h"

#include <algorithm>
#include <cstdint>

#include "base/str_cat.h"

namespace sluice::exec {

std::vector<int> BucketSizes(int largest) {
  std::vector<int> sizes;
  for (int size = 1; size < largest; size += size < 8     ? size
                                             : size < 32  ? 8
                                             : size < 64  ? 16
                                             : size < 256 ? 32
                                                          : 64) {
    sizes.push_back(size);
  }
  sizes.push_back(largest);
  return sizes;
}

std::vector<int> QuerySizes(int query_max) {
  std::vector<int> sizes;
  for (const int size : {1, 3, 5}) {
    if (size < query_max) sizes.push_back(size);
  }
  sizes.push_back(query_max);
  return sizes;
}

std::vector<BucketShape> BucketShapes(int largest, int query_max, int tokens_max) {
  std::vector<BucketShape> shapes;
  for (const int sequences : BucketSizes(largest)) {
    for (const int query : QuerySizes(query_max)) {
      const BucketShape shape = {
          sequences, static_cast<int>(std::min<int64_t>(int64_t{sequences} * query, tokens_max))};
      if (shapes.empty() || shapes.back() != shape) shapes.push_back(shape);
    }
  }
  return shapes;
}

std::vector<int> ChunkSizes(int largest) {
  std::vector<int> sizes;
  if (largest == 0) return sizes;
  constexpr int kSmallest = 16;
  for (int size = kSmallest; size < largest; size *= 2) sizes.push_back(size);
  sizes.push_back(largest);
  return sizes;
}

// A prompt that comes alone should not pay for the logits of as many sequences as may run.
std::vector<BucketShape> ChunkShapes(int sequences_max, int tokens_max) {
  constexpr int kFewSequences = 8;
  std::vector<BucketShape> shapes;
  for (const int tokens : ChunkSizes(tokens_max)) {
    const int most = std::min(sequences_max, tokens);
    if (most > kFewSequences) shapes.push_back({kFewSequences, tokens, true});
    shapes.push_back({most, tokens, true});
  }
  return shapes;
}

std::string BucketsNote(int largest, int query_max, int chunk_tokens) {
  std::string note = "graphs for steps of";
  for (const int size : BucketSizes(largest)) note += StrCat(" ", size);
  note += " sequences";
  if (query_max > 1) {
    note += ", up to";
    for (const int size : QuerySizes(query_max)) note += StrCat(" ", size);
    note += " tokens for each";
  }
  if (chunk_tokens > 0) {
    note += ", and of chunks in";
    for (const int size : ChunkSizes(chunk_tokens)) note += StrCat(" ", size);
    note += " tokens";
  }
  return note + ", captured at the second step of each";
}

}  // namespace sluice::exec
