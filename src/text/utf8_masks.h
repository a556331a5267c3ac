// Which tokens keep a text UTF-8. Immutable, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

// How a text ends: whole, or within a character, by which bytes may come next (RFC 3629, section
// 4).
enum class Utf8End : uint8_t {
  kWhole,
  kOneMore,    // 80-BF
  kTwoMore,    // 80-BF, and one more
  kThreeMore,  // 80-BF, and two more
  kBehindE0,   // A0-BF, and one more: anything below would be overlong
  kBehindED,   // 80-9F, and one more: anything above would be a surrogate
  kBehindF0,   // 90-BF, and two more: anything below would be overlong
  kBehindF4,   // 80-8F, and two more: anything above would be no character
  kNone,       // is no UTF-8
};

// How a text ends that ended like `end` before these bytes.
Utf8End Utf8EndBehind(Utf8End end, std::string_view bytes);

class Utf8Masks {
 public:
  Utf8Masks() = default;
  // `pieces`: the bytes of each token; a token without any leaves a text as it is.
  explicit Utf8Masks(std::span<const std::string> pieces);

  // Clears the bits of tokens that may not come behind a text that ends so. REQUIRES: not kNone
  void Restrict(Utf8End end, std::span<uint32_t> allowed) const;

 private:
  std::array<std::vector<uint32_t>, static_cast<size_t>(Utf8End::kNone)> masks_;
};

}  // namespace sluice::text
