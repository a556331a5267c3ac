#include "server/openai/rank_api.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/json.h"
#include "server/fake_engine.h"

namespace sluice::server {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const ModelFacts kRankModel = {"tiny", 100, {}};

Usage Tokens(int prompt) {
  Usage usage;
  usage.prompt_tokens = prompt;
  return usage;
}

TEST(RankApi, ADocumentIsATextOrAnObjectThatHasOne) {
  const RankCall call =
      ParseRerankCall(R"({"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1})",
                      kRankModel)
          .value();
  EXPECT_THAT(call.texts, ElementsAre("a", "b", "q"));
  EXPECT_THAT(call.pairs, ElementsAre(Pair(2, 0), Pair(2, 1)));
  EXPECT_EQ(call.top_n, 1u);
  for (const Request& request : RequestsOf(call)) EXPECT_TRUE(request.embed);
}

TEST(RankApi, AQueryIsATextOrAnObject) {
  const RankCall call = ParseRerankCall(
                            R"({"query": {"text": "q"}, "documents": [{"text": "a", "id": "7"}],
                                "return_embeddings": false})",
                            kRankModel)
                            .value();
  EXPECT_THAT(call.texts, ElementsAre("a", "q"));
}

TEST(RankApi, CoheresForm) {
  const RankCall call =
      ParseCohereRerank(R"({"model": "tiny", "query": "q", "documents": ["a", "b"], "top_n": 1,
                            "max_tokens_per_doc": 7, "priority": 3})",
                        kRankModel)
          .value();
  EXPECT_THAT(call.pairs, ElementsAre(Pair(2, 0), Pair(2, 1)));
  EXPECT_TRUE(call.truncate);
  EXPECT_EQ(call.document_tokens_max, 7u);
  const Json answer = Json::parse(CohereAnswer(call, {0.25, 0.5}, Tokens(9), "the-id"));
  EXPECT_EQ(answer, Json::parse(R"({"id": "the-id",
      "results": [{"index": 1, "relevance_score": 0.5}],
      "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1},
               "tokens": {"input_tokens": 9}}})"));
  RankCall many = call;
  many.top_n = 0;
  EXPECT_EQ(Json::parse(CohereAnswer(many, std::vector<double>(101), {},
                                     "x"))["meta"]["billed_units"]["search_units"],
            2);
  const std::pair<std::string, std::string> cases[] = {
      {R"({"documents": ["a"]})", "query is missing"},
      {R"({"query": "q"})", "documents is missing"},
      {R"({"query": "q", "documents": "a"})", "documents is a string"},
      {R"({"query": "q", "documents": [{"text": "a"}]})", "an item that is an object"},
      {R"({"query": "q", "documents": ["a"], "max_tokens_per_doc": 0})", "max_tokens_per_doc"},
      {R"({"query": "q", "documents": ["a"], "priority": 1000})", "priority"},
      {R"({"query": "q", "documents": ["a"], "return_documents": true})", "return_documents"}};
  for (const auto& [body, message] : cases)
    EXPECT_THAT(ParseCohereRerank(body, kRankModel).status().message(), HasSubstr(message)) << body;
}

TEST(RankApi, LongDocumentsAreCutAndTheQueryIsNot) {
  RankCall call =
      ParseCohereRerank(R"({"query": "a query", "documents": ["abcdef"], "max_tokens_per_doc": 3})",
                        kRankModel)
          .value();
  std::vector<Request> requests = RequestsOf(call);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].text_tokens_max, 3);
  EXPECT_EQ(requests[1].text_tokens_max, std::nullopt);
  call.reads_pairs = true;
  requests = RequestsOf(call);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].second_text, "abcdef");
  EXPECT_EQ(requests[0].text_tokens_max, 3);
}

TEST(RankApi, OneTextIsScoredBesideAllOrEachBesideItsOwn) {
  EXPECT_THAT(ParseScoreCall(R"({"text_1": "q", "text_2": ["a", "b"]})", kRankModel)->pairs,
              ElementsAre(Pair(0, 1), Pair(0, 2)));
  EXPECT_THAT(ParseScoreCall(R"({"text_1": ["p", "q"], "text_2": ["a", "b"]})", kRankModel)->pairs,
              ElementsAre(Pair(0, 2), Pair(1, 3)));
  EXPECT_THAT(
      ParseScoreCall(R"({"text_1": ["p", "q"], "text_2": "a"})", kRankModel).status().message(),
      HasSubstr("text_1 has 2 texts and text_2 has 1"));
}

TEST(RankApi, WhatIsWrongIsNamed) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"documents": ["a"]})", "query is missing"},
      {R"({"query": "q"})", "documents is missing"},
      {R"({"query": "q", "documents": []})", "documents is empty"},
      {R"({"query": "q", "documents": [1]})", "an item that is 1; each"},
      {R"({"query": "q", "documents": [{"title": "a"}]})", "an object with a text"},
      {R"({"query": "q", "documents": [""]})", "documents has an empty text"},
      {R"({"query": "q", "documents": ["a"], "top_n": 0})", "top_n"},
      {R"({"query": "q", "documents": ["a"], "rank_fields": []})", "rank_fields"}};
  for (const auto& [body, message] : cases)
    EXPECT_THAT(ParseRerankCall(body, kRankModel).status().message(), HasSubstr(message)) << body;
}

TEST(RankApi, OfAnswersNoAndYesTheShareOfYesIsTheScore) {
  const ModelFacts judge = {"judge", 100, {"no", "yes"}};
  const RankCall call =
      ParseRerankCall(R"({"query": "q", "documents": ["a", "b"]})", judge).value();
  EXPECT_TRUE(call.reads_pairs);
  EXPECT_THAT(ScoresOf(call, {{1.0f, 1.0f}, {0.0f, 3.0f}}),
              ElementsAre(DoubleNear(0.5, 1e-9), DoubleNear(1 / (1 + std::exp(-3.0)), 1e-9)));
  const ModelFacts other = {"moods", 100, {"calm", "cold"}};
  EXPECT_THAT(ParseScoreCall(R"({"text_1": "q", "text_2": "a"})", other).status().message(),
              HasSubstr("2 labels"));
}

TEST(RankApi, TheBestComeFirst) {
  RankCall call =
      ParseRerankCall(R"({"query": "q", "documents": ["a", "b", "c"], "top_n": 2})", kRankModel)
          .value();
  const std::vector<double> scores = ScoresOf(call, {{0, 5}, {3, 4}, {2, 0}, {1, 0}});
  EXPECT_THAT(scores, ElementsAre(0, DoubleNear(0.6, 1e-12), 1));
  Json answer = Json::parse(RerankAnswer(call, scores, Tokens(7), "x"));
  ASSERT_EQ(answer["results"].size(), 2u);
  EXPECT_EQ(answer["results"][0]["index"], 2);
  EXPECT_EQ(answer["results"][0]["relevance_score"], 1.0);
  EXPECT_EQ(answer["results"][0]["document"]["text"], "c");
  EXPECT_EQ(answer["results"][1]["index"], 1);
  EXPECT_EQ(answer["usage"]["total_tokens"], 7);
  EXPECT_EQ(answer["model"], "tiny");
  call.return_documents = false;
  answer = Json::parse(RerankAnswer(call, scores, Tokens(7), "x"));
  EXPECT_FALSE(answer["results"][0].contains("document"));
  answer = Json::parse(ScoreAnswer(call, scores, Tokens(7), "x", 5));
  EXPECT_EQ(answer["data"][2]["score"], 1.0);
  EXPECT_EQ(answer["data"][1]["index"], 1);
  EXPECT_EQ(answer["created"], 5);
}

const ModelFacts kRanker = {"ranker", 100, {"LABEL_0"}};
const ModelFacts kClassifier = {"classifier", 100, {"calm", "cold", "old"}};

TEST(RankApi, AModelWithALabelReadsPairs) {
  const RankCall call =
      ParseRerankCall(R"({"query": "q", "documents": ["a", "b"]})", kRanker).value();
  const std::vector<Request> requests = RequestsOf(call);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(std::get<std::string>(requests[1].prompt), "q");
  EXPECT_EQ(requests[1].second_text, "b");
  EXPECT_THAT(ScoresOf(call, {{0.0f}, {std::log(3.0f)}}), ElementsAre(0.5, DoubleNear(0.75, 1e-6)));
  EXPECT_THAT(ParseScoreCall(R"({"text_1": "q", "text_2": "a"})", kClassifier).status().message(),
              HasSubstr("3 labels"));
  const std::string query(40000, 'x');
  std::string body = "{\"query\": \"" + query + "\", \"documents\": [\"a\"";
  for (int i = 0; i < 1000; ++i) body += ",\"a\"";
  EXPECT_THAT(ParseRerankCall(body + "]}", kRanker).status().message(), HasSubstr("the limit is"));
}

TEST(RankApi, ATextGetsTheLabelOfTheLargestShare) {
  const RankCall call = ParseClassifyCall(R"({"input": ["a", "b"]})", kClassifier).value();
  const Json answer = Json::parse(ClassifyAnswer(
      call, kClassifier, {{0, std::log(2.0f), 0}, {100, -100, 100.5}}, Tokens(3), "x", 5));
  EXPECT_EQ(answer["data"][0]["label"], "cold");
  EXPECT_NEAR(answer["data"][0]["probs"][1].get<double>(), 0.5, 1e-6);
  EXPECT_EQ(answer["data"][0]["num_classes"], 3);
  EXPECT_EQ(answer["data"][1]["label"], "old");
  EXPECT_THAT(ParseClassifyCall(R"({"input": "a"})", kRankModel).status().message(),
              HasSubstr("no labels"));
}

}  // namespace
}  // namespace sluice::server
