// BucketShape: the sizes that steps are padded to, so that few graphs serve them all. Pure; any
// thread.
#pragma once

#include <string>
#include <vector>

namespace sluice::exec {

// What a bucket has room for. Each of its tokens may have a logits row.
struct BucketShape {
  int sequences = 0;
  int tokens = 0;  // of all sequences together

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

// For people: which steps have graphs.
std::string BucketsNote(int largest, int query_max);

}  // namespace sluice::exec
