// Answers that are held to given texts, through the whole engine over a tiny checkpoint, whose free
// answers are noise.
#include "engine/constraint.h"

#include <algorithm>
#include <set>

#include "engine/engine_fixture.h"
#include "text/grammar_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kColours = {"red", "red wine", "green", "blue", "\xE2\x82\xAC 5"};

Request Choosing(std::vector<std::string> choice, double temperature = 0) {
  Request request = TinyRequest(kPrompt, 60);
  request.choice = std::move(choice);
  request.sampling.temperature = temperature;
  return request;
}

bool IsOneOf(const std::string& text, const std::vector<std::string>& choices) {
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

// Takes two tokens, then no more, as one that has become too slow to follow.
class TiringWalk : public text::AnswerWalk {
 public:
  std::unique_ptr<text::AnswerWalk> Copy() const override {
    return std::make_unique<TiringWalk>(*this);
  }
  bool Go(text::TokenId) override { return taken_ < 2 && ++taken_ > 0; }
  void Back(int tokens) override { taken_ -= tokens; }
  bool complete() const override { return false; }
  void AllowTokens(std::span<uint32_t> allowed) override { allowed[0] = 0xf0; }

 private:
  int taken_ = 0;
};

TEST(Constraint, BehindATokenThatDoesNotFitTheAnswerMayEndAlone) {
  const Constraints model(nullptr, 64, {2});
  Constraint constraint(model, std::make_unique<TiringWalk>(), 0);
  std::vector<uint32_t> words;
  constraint.Take(std::vector<int32_t>{4, 5});
  constraint.FillMasks(std::vector<int32_t>{6}, &words);
  EXPECT_EQ(words, (std::vector<uint32_t>{0xf0, 0, 0, 0}));
  EXPECT_FALSE(constraint.stuck());
  constraint.Take(std::vector<int32_t>{6, 7});
  EXPECT_EQ(constraint.drawn(), 4);  // or its masks would be those of other rows for ever
  constraint.FillMasks(std::vector<int32_t>{6}, &words);
  EXPECT_EQ(words, (std::vector<uint32_t>{1u << 2, 0, 0, 0}));
  EXPECT_TRUE(constraint.stuck());
}

// With ignore_eos such a token may have been drawn before there were masks.
TEST(Constraint, AnswersThatGoOnBehindATokenThatEndsOthersLoseNothing) {
  const Constraints model(nullptr, 64, {2});
  std::vector<uint32_t> words;
  for (const bool passes : {true, false}) {
    Constraint constraint(model, std::make_unique<TiringWalk>(), 0, /*drawn=*/3, passes);
    constraint.Take(std::vector<int32_t>{4, 2});
    EXPECT_EQ(constraint.drawn(), 5);
    constraint.FillMasks({}, &words);
    EXPECT_EQ(words[0], passes ? 0xf0u : 1u << 2);
    EXPECT_EQ(constraint.stuck(), !passes);
  }
}

// Goes along one text, byte by byte, and ends.
class TextWalk : public text::AnswerWalk {
 public:
  explicit TextWalk(std::string text, int free = -1) : text_(std::move(text)), free_(free) {}
  std::unique_ptr<text::AnswerWalk> Copy() const override {
    return std::make_unique<TextWalk>(*this);
  }
  bool Go(text::TokenId id) override {
    if (complete() || (at_ != free_ && id != static_cast<uint8_t>(text_[at_]))) return false;
    return ++at_ > 0;
  }
  void Back(int tokens) override { at_ -= tokens; }
  bool complete() const override { return at_ == static_cast<int>(text_.size()); }
  void AllowTokens(std::span<uint32_t> allowed) override {
    if (complete()) return;
    const uint8_t byte = at_ == free_ ? 'x' : static_cast<uint8_t>(text_[at_]);
    allowed[byte / 32] |= 1u << (byte % 32);
    if (at_ == free_) allowed['y' / 32] |= 1u << ('y' % 32);
  }

 private:
  const std::string text_;
  const int free_;  // where any byte may come
  int at_ = 0;
};

std::vector<int32_t> Allowed(std::span<const uint32_t> mask) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(mask.size() * 32); ++id) {
    if (mask[id / 32] >> (id % 32) & 1) ids.push_back(id);
  }
  return ids;
}

TEST(Constraint, OneThatFollowsAnotherGoesOnByItself) {
  const Constraints model(text::ByteTokenizer(), 257, {text::kEndOfAnswer});
  Constraint first(model, std::make_unique<TextWalk>("a_bc", 1), 0);
  Constraint second(model, nullptr, 0);
  std::vector<uint32_t> words, expected;
  first.Take(std::vector<int32_t>{'a'});
  second.Follow(first);
  first.Take(std::vector<int32_t>{'x', 'b'});
  EXPECT_EQ(second.drawn(), 1);
  second.FillMasks({}, &words);
  EXPECT_EQ(Allowed(words), (std::vector<int32_t>{'x', 'y'}));
  second.Take(std::vector<int32_t>{'y', 'b'});
  EXPECT_EQ(second.drawn(), 3);
  first.FillMasks({}, &expected);
  second.FillMasks({}, &words);
  EXPECT_EQ(Allowed(words), (std::vector<int32_t>{'c'}));
  EXPECT_EQ(words, expected);
}

// Counts how often it is copied; no token 63 fits.
class CountedWalk : public text::AnswerWalk {
 public:
  explicit CountedWalk(int* copies) : copies_(copies) {}
  std::unique_ptr<text::AnswerWalk> Copy() const override {
    ++*copies_;
    return std::make_unique<CountedWalk>(*this);
  }
  bool Go(text::TokenId id) override {
    if (id == 63) return false;
    gone_.push_back(id);
    return true;
  }
  void Back(int tokens) override { gone_.resize(gone_.size() - static_cast<size_t>(tokens)); }
  bool complete() const override { return false; }
  // The last three tokens.
  void AllowTokens(std::span<uint32_t> allowed) override {
    for (size_t i = std::max<size_t>(gone_.size(), 3) - 3; i < gone_.size(); ++i) {
      allowed[gone_[i] / 32] |= 1u << (gone_[i] % 32);
    }
  }

 private:
  int* const copies_;
  std::vector<text::TokenId> gone_;
};

TEST(Constraint, BeamsThatPartedLatelyFollowOneAnotherWithoutACopy) {
  const Constraints model(nullptr, 64, {2});
  int copies = 0;
  Constraint first(model, std::make_unique<CountedWalk>(&copies), 0);
  Constraint second(model, nullptr, 0);
  second.Follow(first);
  EXPECT_EQ(copies, 1);  // it had no walk yet
  first.Take(std::vector<int32_t>(1000, 33));
  second.Follow(first);
  EXPECT_EQ(copies, 2);  // nothing in common
  std::vector<uint32_t> words, expected;
  for (int32_t id = 3; id < 13; ++id) {
    first.Take(std::vector<int32_t>{id, id + 10});
    second.Take(std::vector<int32_t>{id + 20, id + 21, id + 22});
    second.Follow(first);
    EXPECT_EQ(second.drawn(), first.drawn());
    first.FillMasks({}, &expected);
    second.FillMasks({}, &words);
    EXPECT_EQ(words, expected);
  }
  EXPECT_EQ(copies, 2);
  first.Take(std::vector<int32_t>(50, 5));
  second.Follow(first);
  EXPECT_EQ(copies, 3);  // a copy is less work
  EXPECT_EQ(second.drawn(), first.drawn());
  // One that is lost has nothing to go back to, and whoever follows it is lost, too.
  second.Take(std::vector<int32_t>{63});
  second.Follow(first);
  EXPECT_EQ(copies, 4);
  first.FillMasks({}, &expected);
  second.FillMasks({}, &words);
  EXPECT_EQ(words, expected);
  EXPECT_FALSE(second.stuck());
}

// Tells when a walk is copied.
class WatchedWalk : public text::AnswerWalk {
 public:
  WatchedWalk(std::unique_ptr<text::AnswerWalk> walk, bool* copied)
      : walk_(std::move(walk)), copied_(copied) {}
  std::unique_ptr<text::AnswerWalk> Copy() const override {
    *copied_ = true;
    return std::make_unique<WatchedWalk>(walk_->Copy(), copied_);
  }
  bool Go(text::TokenId id) override { return walk_->Go(id); }
  void Back(int tokens) override { walk_->Back(tokens); }
  bool complete() const override { return walk_->complete(); }
  void AllowTokens(std::span<uint32_t> allowed) override { walk_->AllowTokens(allowed); }

 private:
  const std::unique_ptr<text::AnswerWalk> walk_;
  bool* const copied_;
};

// The library's matcher takes tokens back and reads others, as it reads a text that is new to it.
TEST(Constraint, AGrammarIsFollowedWithoutACopyToTheSameMasks) {
  const auto tokenizer = text::ByteTokenizer();
  text::GrammarCompiler compiler(tokenizer, 257, {text::kEndOfAnswer});
  constexpr const char* kSchema = R"({"type": "array", "items": {"type": "object", "properties":
      {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}})";
  const auto grammar = text::Compile({Grammar::Kind::kJsonSchema, kSchema}, &compiler);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  const Constraints model(tokenizer, 257, {text::kEndOfAnswer});
  const auto take = [](std::string_view text, Constraint* constraint) {
    for (const unsigned char byte : text) constraint->Take(std::vector<int32_t>{byte});
  };
  std::string shared = "[";
  for (int i = 0; i < 120; ++i) shared += R"({"a":"xyz"},)";
  bool copied = false;
  const auto begin = [&] {
    return std::make_unique<WatchedWalk>((*grammar)->Walk(false), &copied);
  };
  Constraint one(model, begin(), 0), other(model, begin(), 0);
  take(shared, &one);
  take(shared, &other);
  std::string text = shared;
  std::vector<uint32_t> words, expected;
  const std::pair<const char*, const char*> ways[] = {
      {R"({"a")", R"({)"}, {R"(:"q)", R"(:"qrs"})"}, {R"("})", R"(\")"}, {"]", R"(,{"a)"}};
  for (const auto& [goes, parts] : ways) {
    take(goes, &one);
    take(parts, &other);
    text += goes;
    other.Follow(one);
    Constraint fresh(model, (*grammar)->Walk(false), 0);
    take(text, &fresh);
    other.FillMasks({}, &words);
    fresh.FillMasks({}, &expected);
    EXPECT_EQ(words, expected) << text.substr(shared.size());
    EXPECT_FALSE(fresh.stuck());
    EXPECT_EQ(other.drawn(), fresh.drawn());
  }
  EXPECT_TRUE(text::HasBit(words, text::kEndOfAnswer));
  EXPECT_FALSE(copied);
}

TEST(Constraint, WhatIsForcedIsFoundWithItsMasks) {
  const Constraints model(text::ByteTokenizer(), 257, {text::kEndOfAnswer});
  Constraint constraint(model, std::make_unique<TextWalk>("_abc_de", 4), 0);
  std::vector<uint32_t> words, expected;
  std::vector<int32_t> forced;
  const auto expect = [&](int most, std::vector<int32_t> ids) {
    constraint.FillMasksAhead(most, &forced, &words);
    EXPECT_EQ(forced, ids);
    constraint.FillMasks(ids, &expected);
    EXPECT_EQ(words, expected);
  };
  expect(8, {});  // a text that begins
  constraint.Take(std::vector<int32_t>{'_'});
  expect(0, {});
  expect(2, {'a', 'b'});
  expect(8, {'a', 'b', 'c'});
  constraint.Take(std::vector<int32_t>{'a', 'b', 'c'});
  expect(8, {});
  constraint.Take(std::vector<int32_t>{'x'});
  expect(8, {'d', 'e', text::kEndOfAnswer});  // behind which nothing is asked
  constraint.Take(std::vector<int32_t>{'q'});
  expect(8, {});  // what does not fit was drawn
  EXPECT_TRUE(constraint.stuck());
}

TEST(Constraint, AForcedTextIsCutAsTheTokenizerCutsItButForItsLastToken) {
  // By the longest tokens first it would be "ab", "cd".
  const auto tokenizer =
      text::ByteTokenizer({"ab", "bc", "cd", "d!"}, false, {{"b", "c"}, {"a", "b"}, {"c", "d"}});
  const Constraints model(tokenizer, 261, {text::kEndOfAnswer});
  const std::vector<std::string> texts = {"_abcd!", "_abcd?", "z"};
  auto walks = model.WalkChoices(texts, /*starts_text=*/false, 1);
  ASSERT_TRUE(walks.ok()) << walks.status().message();
  Constraint constraint(model, std::move((*walks)[0]), 0);
  std::vector<uint32_t> words;
  constraint.Take(std::vector<int32_t>{'_'});
  constraint.FillMasks({}, &words);
  EXPECT_EQ(Allowed(words), (std::vector<int32_t>{'a'}));
  constraint.Take(std::vector<int32_t>{'a'});
  constraint.FillMasks({}, &words);
  EXPECT_EQ(Allowed(words), (std::vector<int32_t>{258}));
  constraint.Take(std::vector<int32_t>{258});
  constraint.FillMasks({}, &words);
  EXPECT_EQ(Allowed(words), (std::vector<int32_t>{'d', 260}));  // "d" and "d!"
  std::vector<int32_t> forced;
  constraint.FillMasksAhead(8, &forced, &words);
  EXPECT_EQ(forced, (std::vector<int32_t>{'d'}));  // likely, not certain
}

// Where the vocabulary has no token for one of two ways, these are told apart by their bytes.
TEST(Constraint, AWayWithoutATokenOfItsOwnIsNotTakenForNone) {
  const auto tokenizer = text::ByteTokenizer({"abc"});
  const Constraints model(tokenizer, 258, {text::kEndOfAnswer});
  auto walks = model.WalkChoices({"_abcx", "_abdy"}, /*starts_text=*/false, 1);
  ASSERT_TRUE(walks.ok()) << walks.status().message();
  Constraint constraint(model, std::move((*walks)[0]), 0);
  std::vector<uint32_t> words;
  std::vector<int32_t> forced;
  constraint.Take(std::vector<int32_t>{'_'});
  constraint.FillMasksAhead(8, &forced, &words);
  EXPECT_EQ(forced, (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(Allowed(std::span(words).first(words.size() / 3)), (std::vector<int32_t>{'a', 257}));
}

TEST(Choice, EveryAnswerIsOneOfTheTexts) {
  const auto engine = OpenTiny(TinyOptions());
  std::set<std::string> seen;
  for (int seed = 0; seed < 60; ++seed) {
    Request request = Choosing(kColours, seed % 4 == 0 ? 0 : 2.0);
    request.sampling.seed = seed;
    request.n = 1 + seed % 3;
    if (seed % 5 > 1) request.logprobs = seed % 3;
    if (seed % 5 == 2) request.sampling.repetition_penalty = 1.5;
    if (seed % 5 == 3) request.sampling.frequency_penalty = 1.0;
    request.ignore_eos = seed % 2 == 0;
    const auto answer = Ask(*engine, request);
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    ASSERT_EQ(answer->choices.size(), static_cast<size_t>(request.n));
    for (const auto& [index, choice] : answer->choices) {
      EXPECT_TRUE(IsOneOf(choice.text, kColours)) << choice.text;
      EXPECT_EQ(choice.finish, FinishReason::kStop);
      EXPECT_EQ(choice.logprobs.size(), request.logprobs ? choice.ids.size() : 0u);
      seen.insert(choice.text);
    }
  }
  EXPECT_EQ(seen.size(), kColours.size());  // one that another continues may end and may go on
  ExpectNothingLeft(*engine);
}

TEST(Choice, TheMostLikelyTextIsThatOfAFreeAnswerWhereItIsAmongThem) {
  const auto engine = OpenTiny(TinyOptions());
  Request free = TinyRequest(kPrompt, 60);
  free.sampling.logit_bias = {{2, -100.0}};
  for (int id = 3; id < 320; ++id) {  // letters alone, so that the text is UTF-8
    if (id < 68 || id > 93) free.sampling.logit_bias.push_back({id, -100.0});
  }
  free.max_tokens = 9;
  const auto expected = Ask(*engine, free)->choices[0];
  ASSERT_EQ(expected.ids.size(), 9u);
  // Single bytes alone spell these, so nothing but the free answer's own ids is likelier.
  Request request = Choosing({expected.text, "zz" + expected.text, expected.text + "~"});
  request.sampling.logit_bias = free.sampling.logit_bias;
  request.logprobs = 0;
  request.sampling.logit_bias[0].second = 0;  // the end
  const auto answer = Ask(*engine, request)->choices[0];
  ASSERT_GE(answer.ids.size(), 9u);
  EXPECT_EQ(std::vector<int32_t>(answer.ids.begin(), answer.ids.begin() + 9), expected.ids);
}

TEST(Choice, ItWinsOverWhatWouldLeaveNothingOrNeverEnd) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = Choosing({"aaaaaaaa"});
  request.sampling.no_repeat_ngram = 1;
  request.min_tokens = 40;
  request.ignore_eos = true;
  request.sampling.logit_bias = {{2, -100.0}, {68, -100.0}};
  const auto answer = Ask(*engine, request);
  EXPECT_EQ(answer->choices[0].text, "aaaaaaaa");
  EXPECT_EQ(answer->choices[0].finish, FinishReason::kStop);
  // What another text continues goes on for so long.
  request = Choosing({"a", "ab", "abcdefghij"});
  request.sampling.logit_bias = {{2, 100.0}};
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "a");
  request.min_tokens = 2;
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "ab");
  request.min_tokens = 20;
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "abcdefghij");
}

TEST(Choice, LengthsAndStopsStillEndAnAnswer) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = Choosing({"to the sea"});
  request.stop = {"sea"};
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "to the ");
  request = Choosing({"qqqqqq"});
  request.max_tokens = 3;
  const auto cut = Ask(*engine, request);
  EXPECT_EQ(cut->choices[0].text, "qqq");
  EXPECT_EQ(cut->choices[0].finish, FinishReason::kLength);
  request.max_tokens = 0;  // the prompt alone
  EXPECT_TRUE(Ask(*engine, request)->choices[0].ids.empty());
}

TEST(Choice, AFreeNeighbourAnswersAsIfAlone) {
  const auto engine = OpenTiny(TinyOptions());
  const Request free = TinyRequest(kPrompt, 40);
  const auto alone = Ask(*engine, free)->choices[0];
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine->Submit(free, sink).ok());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(IsOneOf(Ask(*engine, Choosing(kColours, 1.0))->choices[0].text, kColours));
  }
  answer->Wait();
  EXPECT_EQ(answer->choices[0], alone);
}

TEST(Choice, TextsThatNoTokensSpellEndWithOneEvent) {
  const auto engine = OpenTiny(TinyOptions());
  // As bytes, not as the token.
  EXPECT_EQ(Ask(*engine, Choosing({"</s>"}))->choices[0].text, "</s>");
  const Constraints none(nullptr, 320, {2});
  EXPECT_EQ(none.WalkChoices({"a"}, {}, 1).status().field(), "choice");
}

// The worker of a request is held up in the middle of its answer: its rows draw nothing meanwhile,
// and another request's go on.
TEST(Choice, AMaskThatDoesNotComeHoldsUpItsOwnAnswerAlone) {
  EngineOptions options = TinyOptions();
  options.text_workers = 2;
  const auto engine = OpenTiny(options);
  const std::string text = "one two three four five";
  const auto expected = Ask(*engine, Choosing({text}))->choices[0];
  const Request free = TinyRequest(kPrompt, 40);
  const auto alone = Ask(*engine, free)->choices[0];
  std::mutex mutex;
  std::condition_variable opened;
  bool held = false, open = false;
  auto [answer, sink] = Answer::Make();
  ASSERT_TRUE(engine
                  ->Submit(Choosing({text}),
                           [&, sink = sink](TextDelta&& delta) {
                             sink(std::move(delta));
                             std::unique_lock lock(mutex);
                             held = true;
                             opened.notify_all();
                             opened.wait(lock, [&] { return open; });
                           })
                  .ok());
  {
    std::unique_lock lock(mutex);
    opened.wait(lock, [&] { return held; });
  }
  // The requests before it and this one took worker 1, 0 and 1 of the two.
  EXPECT_EQ(Ask(*engine, free)->choices[0], alone);
  while (Metric(*engine, "sluice_late_masks_total") < 3) std::this_thread::yield();
  EXPECT_FALSE(answer->ended());
  {
    std::lock_guard lock(mutex);
    open = true;
  }
  opened.notify_all();
  answer->Wait();
  EXPECT_EQ(answer->choices[0], expected);
  ExpectNothingLeft(*engine);
}

}  // namespace
}  // namespace sluice::engine
