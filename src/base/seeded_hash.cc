#include "base/seeded_hash.h"

#include <random>

namespace sluice {

HashSeed DrawHashSeed() {
  std::random_device device;
  const auto word = [&] { return static_cast<uint64_t>(device()) << 32 | device(); };
  return {.text = word(), .state = word(), .end = word()};
}

const HashSeed& ProcessHashSeed() {
  static const HashSeed seed = DrawHashSeed();
  return seed;
}

}  // namespace sluice
