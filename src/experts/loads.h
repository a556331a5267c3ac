// Loads: how many tokens the experts of each layer were given lately. Devices count choices since
// the start; this takes their counts now and then and forgets them with a half-life. Not
// thread-safe; no device and no clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::experts {

// What was counted this long ago weighs half.
inline constexpr double kHalfLifeS = 60.0;

class Loads {
 public:
  // `layers`: the numbers of the model's layers that have experts, ascending.
  Loads(std::vector<int> layers, int experts);

  // `counts` [layers, experts]: choices since the start, modulo 2^32, so that fewer than 2^32 of an
  // expert may lie between two calls. `now_us` does not fall from call to call.
  void Take(std::span<const uint32_t> counts, int64_t now_us);

  // Forgets what was taken: what counts from here on is what lies above `counts`.
  void Restart(std::span<const uint32_t> counts);

  const std::vector<int>& layers() const { return layers_; }
  int experts() const { return experts_; }
  // Choices of lately, by expert of the layer of that index in layers(). The unit is a choice that
  // was just made.
  std::span<const double> Of(int index) const {
    return std::span(loads_).subspan(static_cast<size_t>(index) * static_cast<size_t>(experts_),
                                     static_cast<size_t>(experts_));
  }
  // Of all layers, one behind the other.
  std::span<const double> all() const { return loads_; }
  uint64_t choices() const { return choices_; }  // since the start, of all experts
  uint64_t takes() const { return takes_; }      // calls of Take: whether there is something new

 private:
  const std::vector<int> layers_;
  const int experts_;
  std::vector<uint32_t> counts_;  // as last taken
  std::vector<double> loads_;
  int64_t taken_us_ = 0;
  uint64_t choices_ = 0, takes_ = 0;
};

// The largest of `loads` over their mean: 1 is perfect balance; 1 also where nothing was loaded.
double Imbalance(std::span<const double> loads);

}  // namespace sluice::experts
