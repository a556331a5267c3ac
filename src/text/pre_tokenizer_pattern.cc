#include "text/pre_tokenizer_pattern.h"

#include <algorithm>
#include <limits>

#include "base/str_cat.h"

namespace sluice::text {
namespace {

// Published expressions need less than half of this for any text.
constexpr size_t kStepsPerByte = 64;
constexpr size_t kStepsLeast = 64u << 10;

template <TextUnit unit>
size_t StepBack(std::string_view text, size_t position) {
  --position;
  if constexpr (unit == TextUnit::kUtf8) {
    while ((static_cast<unsigned char>(text[position]) & 0xC0) == 0x80) --position;
  }
  return position;
}

}  // namespace

PatternBudget::PatternBudget(size_t text_bytes)
    : steps_max_(kStepsLeast + kStepsPerByte * text_bytes), steps_left_(steps_max_) {}

Status PatternBudget::Error(std::string_view what) const {
  return InvalidArgument(StrCat("the tokenizer's ", what, " takes more than ", steps_max_,
                                " steps of its expressions, the limit for the text's length"));
}

void PatternState::Start(PatternBudget* budget) {
  std::fill(dead_until_.begin(), dead_until_.end(), 0);
  budget_ = budget;
}

template <TextUnit unit>
inline uint64_t Pattern::ClassAt(std::string_view text, size_t position, size_t* length) const {
  auto byte = static_cast<unsigned char>(text[position]);
  if constexpr (unit == TextUnit::kByte) {
    *length = 1;
    return uint64_t{1} << class_of_byte_[byte];
  }
  if (byte < 0x80) {
    *length = 1;
    return uint64_t{1} << class_of_ascii_[byte];
  }
  size_t end = position;
  uint32_t code_point = DecodeUtf8(text, &end);
  *length = end - position;
  return uint64_t{1} << class_of_[size_t{page_of_[code_point >> 8]} << 8 | (code_point & 0xFF)];
}

template <TextUnit unit>
bool Pattern::HoldsAt(const Node& node, std::string_view text, size_t position) const {
  size_t length;
  switch (node.kind) {
    case NodeKind::kAhead:
      return position < text.size() && (ClassAt<unit>(text, position, &length) & node.mask) != 0;
    case NodeKind::kNotAhead:
      return position == text.size() || (ClassAt<unit>(text, position, &length) & node.mask) == 0;
    case NodeKind::kLineStart:
      return position == 0 || (text[position - 1] == '\n' && position < text.size());
    case NodeKind::kLineEnd:
      return position == text.size() || text[position] == '\n';
    default:
      return false;
  }
}

template <TextUnit unit>
inline Pattern::Run Pattern::RunAt(const Node& node, std::string_view text, size_t position) const {
  Run run;
  run.least_end = position;
  while (run.count < node.most && position < text.size()) {
    size_t length;
    if ((ClassAt<unit>(text, position, &length) & node.mask) == 0) break;
    position += length;
    if (++run.count == node.least) run.least_end = position;
  }
  run.end = position;
  return run;
}

// Depth-first, first alternative first. `first_run_end` becomes the end of the run that the
// expression begins with, if it begins with one.
template <TextUnit unit>
bool Pattern::MatchAt(uint32_t start_node, std::string_view text, size_t start, PatternState* state,
                      size_t* end, size_t* first_run_end) const {
  auto& frames = state->frames_;
  PatternBudget& budget = *state->budget_;
  frames.clear();
  uint32_t current = start_node;
  size_t position = start;
  for (;;) {
    const Node& node = nodes_[current];
    bool ok = true;
    size_t steps = 1;
    if (node.kind == NodeKind::kMatch) {
      *end = position;
      return true;
    }
    if (node.kind == NodeKind::kRun) {
      const Run run = RunAt<unit>(node, text, position);
      steps += run.count;
      ok = run.count >= node.least;
      if (ok) {
        if (current == start_node) *first_run_end = run.end;
        if (!node.possessive && run.end > run.least_end) {
          frames.push_back({node.next, 1, run.end, run.least_end});
        }
        position = run.end;
        current = node.next;
      }
    } else if (node.kind == NodeKind::kSplit) {
      for (size_t i = node.alternatives.size(); i-- > 1;) {
        frames.push_back({node.alternatives[i], 0, position, 0});
      }
      steps = node.alternatives.size();
      current = node.alternatives[0];
    } else {
      ok = HoldsAt<unit>(node, text, position);
      current = node.next;
    }
    if (!budget.Spend(steps)) return false;
    if (ok) continue;
    if (frames.empty()) return false;
    PatternState::Frame& frame = frames.back();
    current = frame.node;
    if (frame.kind == 0) {
      position = frame.position;
      frames.pop_back();
    } else {
      frame.position = StepBack<unit>(text, frame.position);
      position = frame.position;
      if (position <= frame.least) frames.pop_back();
    }
  }
}

template <TextUnit unit>
bool Pattern::FindIn(std::string_view text, size_t from, PatternState* state, size_t* begin,
                     size_t* end) const {
  state->dead_until_.resize(std::max(state->dead_until_.size(), alternatives_.size()));
  for (size_t start = from; start < text.size();) {
    size_t length;
    uint64_t bit = ClassAt<unit>(text, start, &length);
    uint32_t candidates = candidates_[static_cast<size_t>(__builtin_ctzll(bit))];
    while (candidates != 0) {
      auto number = static_cast<size_t>(__builtin_ctz(candidates));
      candidates &= candidates - 1;
      if (start < state->dead_until_[number]) continue;
      size_t first_run_end = 0;
      const Alternative& alternative = alternatives_[number];
      if (MatchAt<unit>(alternative.node, text, start, state, end, &first_run_end)) {
        if (*end > start) {
          *begin = start;
          return true;
        }
      } else {
        // An unbounded run that was tried down to its least length was tried for every later start
        // within it, too.
        const Node& node = nodes_[alternative.node];
        if (node.kind == NodeKind::kRun && node.least <= 1 &&
            node.most == std::numeric_limits<uint32_t>::max()) {
          state->dead_until_[number] = std::max(state->dead_until_[number], first_run_end);
        }
      }
      if (state->budget_->spent()) return false;
    }
    start += length;
    if (!state->budget_->Spend(1)) return false;
  }
  return false;
}

bool Pattern::Find(std::string_view text, TextUnit unit, size_t from, PatternState* state,
                   size_t* begin, size_t* end) const {
  return unit == TextUnit::kUtf8 ? FindIn<TextUnit::kUtf8>(text, from, state, begin, end)
                                 : FindIn<TextUnit::kByte>(text, from, state, begin, end);
}

}  // namespace sluice::text
