#include "text/thinking_walk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
// Tokens of white space that may stand between thinking and answer.
constexpr int kSpacesMax = 2;
// More than drafts may ever be taken back.
constexpr size_t kBackMax = 1024;

bool IsSpace(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

void Allow(std::span<uint32_t> allowed, TokenId id) {
  if (static_cast<size_t>(id) / 32 < allowed.size()) allowed[id / 32] |= 1u << (id % 32);
}

void Forbid(std::span<uint32_t> allowed, TokenId id) {
  if (static_cast<size_t>(id) / 32 < allowed.size()) allowed[id / 32] &= ~(1u << (id % 32));
}

}  // namespace

ThinkingTags::ThinkingTags(std::shared_ptr<const Tokenizer> tokenizer, int vocab,
                           std::vector<TokenId> answer_ends, std::string_view begin,
                           std::string_view end)
    : tokenizer_(std::move(tokenizer)),
      vocab_(vocab),
      answer_ends_(std::move(answer_ends)),
      end_(end) {
  begin_id_ = tokenizer_->Find(begin);
  if (const TokenId id = tokenizer_->Find(end); id >= 0) {
    end_ids_ = {id};
  } else if (auto ids = tokenizer_->Encode(end, {.add_special = false}); ids.ok()) {
    std::string spelled;
    for (const TokenId part : *ids) spelled += tokenizer_->PieceBytes(part, true);
    if (spelled.find(end_) != std::string::npos) end_ids_ = *std::move(ids);
  }
  for (TokenId id = 0; id < std::min(vocab_, tokenizer_->vocab_size()); ++id) {
    const std::string bytes = tokenizer_->PieceBytes(id, /*render_special=*/true);
    if (bytes.empty()) continue;
    if (IsSpace(bytes)) space_ids_.push_back(id);
    if (const size_t at = bytes.find(end_);
        at != std::string::npos && !IsSpace(std::string_view(bytes).substr(at + end_.size()))) {
      overshoots_.push_back({id, 0});
    }
    for (size_t before = 1; before < end_.size(); ++before) {
      const std::string_view rest = std::string_view(end_).substr(before);
      if (bytes.starts_with(rest) && !IsSpace(std::string_view(bytes).substr(rest.size())))
        overshoots_.push_back({id, before});
    }
  }
}

bool ThinkingTags::Closes(TokenId id, std::string* tail) const {
  *tail += tokenizer_->PieceBytes(id, /*render_special=*/true);
  if (tail->find(end_) != std::string::npos) return true;
  if (tail->size() >= end_.size()) tail->erase(0, tail->size() - end_.size() + 1);
  return false;
}

void ThinkingTags::AllowAll(std::span<uint32_t> allowed) const {
  std::fill(allowed.begin(), allowed.end(), ~0u);
  if (const int over = vocab_ % 32; over != 0) allowed.back() = (1u << over) - 1;
  for (const TokenId id : answer_ends_) Forbid(allowed, id);
}

std::vector<TokenId> ThinkingTags::Overshoots(std::string_view tail) const {
  std::vector<TokenId> ids;
  for (const auto& [id, before] : overshoots_) {
    if (tail.ends_with(std::string_view(end_).substr(0, before))) ids.push_back(id);
  }
  return ids;
}

ThinkingWalk::ThinkingWalk(std::shared_ptr<const ThinkingTags> tags, Options options,
                           std::unique_ptr<AnswerWalk> start, std::unique_ptr<AnswerWalk> behind)
    : tags_(std::move(tags)),
      options_(options),
      free_(behind == nullptr),
      start_(std::move(start)),
      behind_(std::move(behind)) {
  if (options_.opened) state_.at = At::kThinking;
}

std::unique_ptr<AnswerWalk> ThinkingWalk::Copy() const {
  auto copy =
      std::make_unique<ThinkingWalk>(tags_, options_, start_ == nullptr ? nullptr : start_->Copy(),
                                     behind_ == nullptr ? nullptr : behind_->Copy());
  copy->state_ = state_;
  copy->before_ = before_;
  return copy;
}

bool ThinkingWalk::MustClose() const {
  if (state_.at != At::kThinking || tags_->end_ids().empty()) return false;
  return (options_.tokens_max && state_.thinking >= *options_.tokens_max) ||
         (options_.end_now != nullptr && *options_.end_now);
}

bool ThinkingWalk::GoAnswer(TokenId id, State* next) {
  AnswerWalk* const walk = answer(*next);
  if (walk != nullptr && !walk->Go(id)) return false;
  next->at = At::kAnswer;
  ++next->answered;
  return true;
}

bool ThinkingWalk::Go(TokenId id) {
  State next = state_;
  if (next.at == At::kStart && id == tags_->begin_id()) {
    next.at = At::kThinking;
  } else if (next.at == At::kThinking) {
    ++next.thinking;
    const auto& end = tags_->end_ids();
    if (next.closing < end.size() && id == end[next.closing]) {
      ++next.closing;
    } else {
      next.closing = !end.empty() && id == end[0] ? 1 : 0;
    }
    if (tags_->Closes(id, &next.tail)) {
      next.at = At::kBehind;
      next.thought = true;
    }
  } else if (!GoAnswer(id, &next)) {
    const auto& spaces = tags_->space_ids();
    const bool space = next.at == At::kBehind && next.spaces < kSpacesMax &&
                       std::binary_search(spaces.begin(), spaces.end(), id);
    if (!space) return false;
    ++next.spaces;
  }
  if (before_.size() >= 2 * kBackMax) before_.erase(before_.begin(), before_.end() - kBackMax);
  before_.push_back(std::exchange(state_, std::move(next)));
  return true;
}

void ThinkingWalk::Back(int tokens) {
  CHECK(static_cast<size_t>(tokens) <= before_.size(), tokens);
  for (; tokens > 0; --tokens) {
    if (AnswerWalk* const walk = answer(state_); walk != nullptr) {
      const int before = before_.back().answered;
      if (state_.answered > before) walk->Back(state_.answered - before);
    }
    state_ = std::move(before_.back());
    before_.pop_back();
  }
}

bool ThinkingWalk::complete() const {
  if (free_) return options_.may_end && !MustClose();
  return state_.at != At::kThinking && answer(state_)->complete();
}

void ThinkingWalk::AllowTokens(std::span<uint32_t> allowed) {
  if (MustClose()) {
    const auto& end = tags_->end_ids();
    return Allow(allowed, end[state_.closing < end.size() ? state_.closing : 0]);
  }
  if (state_.at == At::kThinking || free_) {
    tags_->AllowAll(allowed);
    if (free_) return;
    for (const TokenId id : tags_->Overshoots(state_.tail)) Forbid(allowed, id);
    return;
  }
  answer(state_)->AllowTokens(allowed);
  if (state_.at == At::kStart && tags_->begin_id() >= 0) Allow(allowed, tags_->begin_id());
  if (state_.at == At::kBehind && state_.spaces < kSpacesMax) {
    for (const TokenId id : tags_->space_ids()) Allow(allowed, id);
  }
}

}  // namespace sluice::text
