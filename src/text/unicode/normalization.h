// Unicode normal forms in linear time. Code points that the reference tokenizers do not know
// (kNotNormalized) stay as they are and where they are. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Sets `out` to the form of `valid_utf8` and returns true, or returns false and leaves `out` alone
// when the text already has the form.
bool ToNormalForm(NormalForm form, std::string_view valid_utf8, std::string* out);

// The simple lower case, as Rust's char::to_lowercase (only U+0130 becomes two code points).
void AppendLowercase(uint32_t code_point, std::string* out);

}  // namespace sluice::text
