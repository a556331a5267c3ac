// BucketShape: the sizes that steps are padded to, so that few graphs serve them all. Pure; any
// thread.
#pragma once

#include <string>
#include <vector>

namespace sluice::exec {

// What a bucket has room for.
struct BucketShape {
  int sequences = 0;
  int tokens = 0;      // of all sequences together
  bool chunk = false;  // of prefill: the graph is the model's alone, and sampling runs without

  // With logits: each token, or of a chunk as many as there are sequences.
  int rows() const { return chunk ? sequences : tokens; }

  friend bool operator==(const BucketShape&, const BucketShape&) = default;
};

// Sequences of buckets, ascending, the last one `largest`.
std::vector<int> BucketSizes(int largest);

// Tokens of a sequence that buckets have room for when each has at most `query_max`, ascending, the
// last one `query_max`. Few, since each is a graph for every number of sequences.
std::vector<int> QuerySizes(int query_max);

// Each number of sequences with each of tokens, in ascending order of both. None has more tokens
// than `tokens_max`: the largest of a number of sequences may have just those. REQUIRES: largest <=
// tokens_max.
std::vector<BucketShape> BucketShapes(int largest, int query_max, int tokens_max);

// Tokens of steps with chunks of prefill, ascending, the last one `largest`; none where that is 0.
std::vector<int> ChunkSizes(int largest);

// Each of these sizes for a few sequences and for `sequences_max`, in ascending order of both.
std::vector<BucketShape> ChunkShapes(int sequences_max, int tokens_max);

// For people: which steps have graphs. `chunk_tokens`: of the largest chunk.
std::string BucketsNote(int largest, int query_max, int chunk_tokens);

}  // namespace sluice::exec
