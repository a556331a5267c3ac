// Any text as a JSON schema, a structural tag or a regex, as the first byte says: refused with a
// sentence, or rewritten within its time.
#include "text/json_schema.h"

#include "base/check.h"
#include "base/fuzz_target.h"
#include "text/structural_tag.h"
#include "text/whole_regex.h"

namespace sluice {

template <class Value>
void Check(const Result<Value>& result) {
  if (!result.ok()) CHECK(!result.status().message().empty(), "an error without a message");
}

}  // namespace sluice

void sluice::FuzzInput(std::string_view input) {
  if (input.empty()) return;
  const unsigned char first = static_cast<unsigned char>(input[0]);
  input.remove_prefix(1);
  if (first % 4 == 0) Check(text::RewriteStructuralTag(input, false));
  if (first % 4 == 1) Check(text::WholeRegex(input));
  if (first % 4 >= 2) Check(text::RewriteSchema(input, first % 4 == 2));
}
