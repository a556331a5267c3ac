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

std::string BucketsNote(int largest, int query_max) {
  std::string note = "graphs for steps of";
  for (const int size : BucketSizes(largest)) note += StrCat(" ", size);
  note += " sequences";
  if (query_max > 1) {
    note += ", up to";
    for (const int size : QuerySizes(query_max)) note += StrCat(" ", size);
    note += " tokens for each";
  }
  return note + ", captured at the second step of each";
}

}  // namespace sluice::exec
