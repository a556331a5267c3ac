#include "engine/constraint.h"

#include <algorithm>
#include <bit>

#include "base/str_cat.h"
#include "text/choice.h"
#include "text/forced_text.h"
#include "text/grammar.h"

namespace sluice::engine {
namespace {

// Of forced text: more than the longest token that tokenizers are known to have for words.
constexpr size_t kAheadBytes = 64;

bool Allows(std::span<const uint32_t> mask, int32_t id) {
  const size_t word = static_cast<size_t>(id) / 32;
  return word < mask.size() && (mask[word] >> (id % 32) & 1) != 0;
}

}  // namespace

Status NothingFits(const Request& request, std::string_view where) {
  return InvalidArgument(
      StrCat(text::NameOf(request.grammar.kind),
             " has no token of the model with which the answer "
             "could ",
             where, ", or takes too long to follow; send another or a simpler one"),
      "grammar");
}

std::shared_ptr<const text::TokenTrie> Constraints::Trie(bool first) const {
  std::lock_guard lock(mutex_);
  auto& trie = tries_[first ? 1 : 0];
  if (trie == nullptr) {
    trie = std::make_shared<const text::TokenTrie>(
        text::TokenTrie::Make(*tokenizer_, vocab_, end_ids_, first));
  }
  return trie;
}

std::span<const text::TokenId> Constraints::ByteTokens() const {
  std::lock_guard lock(mutex_);
  if (byte_tokens_.empty()) byte_tokens_ = text::ByteTokens(*tokenizer_, vocab_);
  return byte_tokens_;
}

int32_t Constraints::LikelyEnd() const {
  const int32_t end = tokenizer_ == nullptr ? -1 : tokenizer_->data().eos_id.value_or(-1);
  const bool known = std::find(end_ids_.begin(), end_ids_.end(), end) != end_ids_.end();
  if (known && end < vocab_) return end;
  return end_ids_.size() == 1 && end_ids_[0] < vocab_ ? end_ids_[0] : -1;
}

Result<std::vector<std::unique_ptr<text::AnswerWalk>>> Constraints::WalkChoices(
    std::vector<std::string> choices, bool starts_text, int n) const {
  if (end_ids_.empty() || tokenizer_ == nullptr) {
    return InvalidArgument(
        "choice needs a model with a vocabulary and a token that ends an answer; send the request "
        "without choice",
        "choice");
  }
  SLUICE_ASSIGN_OR_RETURN(
      const auto set, text::ChoiceSet::Make(std::move(choices), Trie(starts_text), Trie(false)));
  std::vector<std::unique_ptr<text::AnswerWalk>> walks;
  for (int i = 0; i < n; ++i) {
    walks.push_back(std::make_unique<text::ChoiceWalk>(set, tokenizer_, starts_text));
  }
  return walks;
}

std::shared_ptr<const text::ThinkingTags> Constraints::Thinking(std::string_view begin,
                                                                std::string_view end) const {
  std::lock_guard lock(mutex_);
  if (thinking_ == nullptr) {
    thinking_ =
        std::make_shared<const text::ThinkingTags>(tokenizer_, vocab_, end_ids_, begin, end);
  }
  return thinking_;
}

bool Constraint::Ends(int32_t id) const {
  const auto& ends = model_.end_ids_;
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

bool Constraint::Go(int32_t id) {
  if (Ends(id) || !walk_->Go(id)) return false;
  ++drawn_;
  return true;
}

bool Constraint::Rejoin(const Constraint& other) {
  if (walk_ == nullptr || lost_ || other.lost_) return false;
  auto [mine, its] =
      std::mismatch(gone_.begin(), gone_.end(), other.gone_.begin(), other.gone_.end());
  const auto same = its - other.gone_.begin(), rest = other.gone_.end() - its;
  if (rest * kCopiedPerWalked > same) return false;
  walk_->Back(static_cast<int>(gone_.end() - mine));
  gone_.erase(mine, gone_.end());
  for (; its != other.gone_.end(); ++its) {
    if (!walk_->Go(*its)) return false;
    gone_.push_back(*its);
  }
  return true;
}

void Constraint::Follow(const Constraint& other) {
  if (!Rejoin(other)) {
    walk_ = other.walk_->Copy();
    gone_ = other.gone_;
  }
  drawn_ = other.drawn_;
  ahead_ = other.ahead_;
  stuck_ = other.stuck_;
  lost_ = other.lost_;
}

void Constraint::Take(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (passes_ends_ && Ends(id)) {
      ++drawn_;
      continue;
    }
    if (!lost_ && Go(id)) {
      gone_.push_back(id);
    } else {
      lost_ = true;
      ++drawn_;
    }
    ahead_.Pass(Bytes(id));
  }
}

bool Constraint::FillMask(std::span<uint32_t> allowed) {
  if (!lost_) walk_->AllowTokens(allowed);
  const bool goes_on =
      std::any_of(allowed.begin(), allowed.end(), [](uint32_t word) { return word != 0; });
  const bool complete = !lost_ && walk_->complete();
  if (goes_on && (!complete || drawn_ < min_tokens_)) return true;
  for (const int32_t id : model_.end_ids_) {
    if (id < model_.vocab_) allowed[id / 32] |= 1u << (id % 32);
  }
  return goes_on || complete;
}

void Constraint::FillMasks(std::span<const int32_t> drafts, std::vector<uint32_t>* words) {
  const size_t row = (static_cast<size_t>(model_.vocab_) + 31) / 32;
  words->clear();
  stuck_ = !AddMask(&ahead_, words);
  const int32_t drawn = drawn_;
  Ahead ahead = ahead_;
  for (size_t i = 0; i < drafts.size() && !lost_ && Go(drafts[i]); ++i) {
    ahead.Pass(Bytes(drafts[i]));
    AddMask(&ahead, words);
  }
  words->resize((drafts.size() + 1) * row, 0);
  BackTo(drawn);
}

void Constraint::FillMasksAhead(int most, std::vector<int32_t>* forced,
                                std::vector<uint32_t>* words) {
  const size_t row = (static_cast<size_t>(model_.vocab_) + 31) / 32;
  forced->clear();
  words->clear();
  stuck_ = !AddMask(&ahead_, words);
  if (stuck_ || lost_ || drawn_ == 0) return;
  const int32_t drawn = drawn_;
  Ahead ahead = ahead_;
  while (static_cast<int>(forced->size()) < most) {
    const int32_t id = Forced(std::span(*words).last(row), ahead);
    if (id < 0) break;
    forced->push_back(id);
    if (!Go(id)) {  // an end, behind which nothing is asked
      words->resize(words->size() + row, 0);
      break;
    }
    ahead.Pass(Bytes(id));
    AddMask(&ahead, words);
  }
  BackTo(drawn);
}

void Constraint::BackTo(int32_t drawn) {
  walk_->Back(drawn_ - drawn);
  drawn_ = drawn;
}

std::string Constraint::Bytes(int32_t id) const {
  return model_.tokenizer_ == nullptr ? "" : model_.tokenizer_->PieceBytes(id, false);
}

void Constraint::Ahead::Pass(std::string_view bytes) {
  if (!bytes.empty() && text.starts_with(bytes)) {
    text.erase(0, bytes.size());
  } else {
    text.clear();
    ends = false;
  }
}

// What may follow is asked behind each byte, not each token: a vocabulary without a token for one
// of two ways to go on would seem to force the other. How far the walk has come in tokens plays no
// part, so that a position in the text has the same mask however it was reached.
void Constraint::LookAhead(std::span<const uint32_t> mask, Ahead* ahead) {
  // Mostly the first byte decides, for which there is a mask.
  if (ahead->text.empty()) {
    ahead->ends = walk_->complete() || text::AgreedByte(*model_.tokenizer_, mask) < 0;
  }
  if (ahead->ends || ahead->text.size() >= kAheadBytes) return;
  const std::span<const text::TokenId> bytes = model_.ByteTokens();
  int gone = 0;
  const auto go = [&](int byte) {
    const bool can = bytes[byte] >= 0 && walk_->Go(bytes[byte]);
    gone += can ? 1 : 0;
    return can;
  };
  ahead->ends = !std::all_of(ahead->text.begin(), ahead->text.end(),
                             [&](unsigned char byte) { return go(byte); });
  if (ahead->ends) ahead->text.clear();
  while (!ahead->ends && ahead->text.size() < kAheadBytes) {
    scratch_.assign((static_cast<size_t>(model_.vocab_) + 31) / 32, 0);
    walk_->AllowTokens(scratch_);
    const int byte = walk_->complete() ? -1 : text::AgreedByte(*model_.tokenizer_, scratch_);
    ahead->ends = byte < 0 || !go(byte);
    if (!ahead->ends) ahead->text += static_cast<char>(byte);
  }
  walk_->Back(gone);
}

bool Constraint::AddMask(Ahead* ahead, std::vector<uint32_t>* words) {
  const size_t row = (static_cast<size_t>(model_.vocab_) + 31) / 32;
  words->resize(words->size() + row, 0);
  const std::span<uint32_t> mask = std::span(*words).last(row);
  const bool fits = FillMask(mask);
  // The first token of a text may have other bytes there.
  if (!fits || lost_ || drawn_ == 0 || model_.tokenizer_ == nullptr) return fits;
  LookAhead(mask, ahead);
  if (ahead->text.size() < 2) return fits;
  // How a text is cut that goes on is not known yet.
  if (text::AllowsLonger(*model_.tokenizer_, mask, ahead->text.size())) return fits;
  const std::vector<int32_t> cut = text::EncodeInside(*model_.tokenizer_, ahead->text);
  if (cut.size() < 2 || !Allows(mask, cut[0])) return fits;
  std::fill(mask.begin(), mask.end(), 0);
  mask[static_cast<size_t>(cut[0]) / 32] = 1u << (cut[0] % 32);
  return fits;
}

int32_t Constraint::Forced(std::span<const uint32_t> allowed, const Ahead& ahead) const {
  int ends = 0, all = 0, last = -1;
  for (const int32_t id : model_.end_ids_) {
    ends += id < model_.vocab_ && Allows(allowed, id) ? 1 : 0;
  }
  for (size_t word = 0; word < allowed.size(); ++word) {
    all += std::popcount(allowed[word]);
    if (allowed[word] != 0)
      last = static_cast<int32_t>(word * 32) + std::countr_zero(allowed[word]);
  }
  if (all == 1) return last;
  if (ends > 0) return all == ends ? model_.likely_end_ : -1;
  if (ahead.text.empty()) return -1;
  const std::vector<int32_t> cut = text::EncodeInside(*model_.tokenizer_, ahead.text);
  return !cut.empty() && Allows(allowed, cut[0]) ? cut[0] : -1;
}

}  // namespace sluice::engine
