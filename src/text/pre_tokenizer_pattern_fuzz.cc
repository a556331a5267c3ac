// Any text as a regular expression and, behind the first NUL, as what is searched with it: within
// its budget, with matches that stand one behind the other. The last bit of the first byte says how
// the text is read.
#include "text/pre_tokenizer_pattern.h"

#include "base/check.h"
#include "base/fuzz_target.h"
#include "base/utf8.h"

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::text;
  if (input.empty()) return;
  const TextUnit unit = (input[0] & 1) != 0 ? TextUnit::kByte : TextUnit::kUtf8;
  input.remove_prefix(1);
  const size_t end_of_source = std::min(input.find('\0'), input.size());
  const Result<Pattern> pattern = Pattern::Compile(input.substr(0, end_of_source));
  if (!pattern.ok()) {
    CHECK(!pattern.status().message().empty(), "an error without a message");
    return;
  }
  constexpr size_t kTextBytes = 16u << 10;  // what the budget allows takes 50 ms
  const std::string text =
      RepairUtf8(input.substr(std::min(end_of_source + 1, input.size()), kTextBytes));
  PatternBudget budget(text.size());
  PatternState state;
  state.Start(&budget);
  size_t done = 0, begin = 0, end = 0;
  while (pattern->Find(text, unit, done, &state, &begin, &end)) {
    CHECK(begin >= done && end > begin && end <= text.size(), begin, end);
    done = end;
  }
}
