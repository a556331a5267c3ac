// A model that embeds, from a folder of sentence-transformers to vectors: against what
// sentence-transformers gives (tools/golden/encoders.py), and whatever is computed beside a text.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/source_dir_fixture.h"
#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

std::string EncoderFolder(const std::string& model) {
  return SourceDir() + "/tests/golden/encoders/" + model;
}
// The same checkpoint as llama.cpp's converter writes it.
std::string Gguf(const std::string& model) {
  return SourceDir() + "/tests/golden/encoders_gguf/" + model + "-F32.gguf";
}

// Of a number of a vector.
constexpr double kTolerance = 1e-4;

EngineOptions EncoderOptions(const std::string& model) {
  EngineOptions options = TinyOptions();
  options.model = EncoderFolder(model);
  options.max_model_len = 0;
  options.max_batch_tokens = 256;
  options.kv_dtype = "auto";
  return options;
}

Request EmbedRequest(const std::string& text) {
  Request request;
  request.prompt = text;
  request.embed = request.truncate = true;
  return request;
}

double Cosine(const std::vector<float>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return ab / std::sqrt(aa * bb);
}

double Length(const std::vector<float>& vector) {
  double sum = 0;
  for (const double x : vector) sum += x * x;
  return std::sqrt(sum);
}

struct ExpectedVectors {
  explicit ExpectedVectors(const std::string& model) {
    std::ifstream file(EncoderFolder(model) + "/expected.json");
    std::stringstream text;
    text << file.rdbuf();
    const Json json = ParseJson(text.str(), "expected.json").value();
    texts = json["texts"].get<std::vector<std::string>>();
    tokens = json["tokens"].get<std::vector<int>>();
    vectors = json["vectors"].get<std::vector<std::vector<double>>>();
    if (!json.contains("second_texts")) return;
    second_texts = json["second_texts"].get<std::vector<std::string>>();
    pair_tokens = json["pair_tokens"].get<std::vector<int>>();
    pair_vectors = json["pair_vectors"].get<std::vector<std::vector<double>>>();
  }
  std::vector<std::string> texts, second_texts;
  std::vector<int> tokens, pair_tokens;
  std::vector<std::vector<double>> vectors, pair_vectors;
};

class EmbeddingGolden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, EmbeddingGolden,
                         ::testing::Values("bert", "bert_cls", "bert_dense", "xlm_roberta", "mpnet",
                                           "nomic_bert", "modernbert", "qwen3_embedding"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(EmbeddingGolden, VectorsAreThoseOfSentenceTransformers) {
  const ExpectedVectors expected(GetParam());
  const auto engine = OpenTiny(EncoderOptions(GetParam()));
  ASSERT_NE(engine, nullptr);
  ASSERT_EQ(engine->Info().embedding_size, static_cast<int>(expected.vectors[0].size()));
  ASSERT_GT(expected.texts.size(), 10u);
  for (size_t i = 0; i < expected.texts.size(); ++i) {
    const auto answer = Ask(*engine, EmbedRequest(expected.texts[i]));
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    EXPECT_EQ(answer->usage.prompt_tokens, expected.tokens[i]) << expected.texts[i];
    ASSERT_EQ(answer->embedding.size(), expected.vectors[i].size());
    EXPECT_GT(Cosine(answer->embedding, expected.vectors[i]), 0.999999) << expected.texts[i];
    for (size_t j = 0; j < answer->embedding.size(); ++j)
      EXPECT_NEAR(answer->embedding[j], expected.vectors[i][j], kTolerance) << expected.texts[i];
  }
}

TEST_P(EmbeddingGolden, BitsDoNotDependOnTheTextsBesideIt) {
  const ExpectedVectors expected(GetParam());
  std::vector<std::vector<float>> alone;
  {
    const auto engine = OpenTiny(EncoderOptions(GetParam()));
    for (const std::string& text : expected.texts)
      alone.push_back(Ask(*engine, EmbedRequest(text))->embedding);
  }
  // All are there before the first step is planned.
  const auto engine = OpenTiny(EncoderOptions(GetParam()));
  ASSERT_TRUE(Pause(*engine).ok());
  std::vector<std::shared_ptr<Answer>> answers;
  for (const std::string& text : expected.texts) {
    auto [answer, sink] = Answer::Make();
    ASSERT_TRUE(engine->Submit(EmbedRequest(text), sink).ok());
    answers.push_back(std::move(answer));
  }
  ASSERT_TRUE(Resume(*engine).ok());
  for (size_t i = 0; i < answers.size(); ++i) {
    answers[i]->Wait();
    EXPECT_EQ(answers[i]->embedding, alone[i]) << expected.texts[i];
  }
}

class EmbeddingGguf : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, EmbeddingGguf, ::testing::Values("bert", "bert_cls", "nomic_bert"),
                         [](const auto& test) { return std::string(test.param); });

// As llama.cpp's server gives them, of length 1. The file does not say how long texts may be where
// sentence-transformers' files do.
TEST_P(EmbeddingGguf, VectorsAreThoseOfSentenceTransformersNormalized) {
  const ExpectedVectors expected(GetParam());
  EngineOptions options = EncoderOptions(GetParam());
  options.model = Gguf(GetParam());
  const auto engine = OpenTiny(options);
  ASSERT_NE(engine, nullptr);
  const int longest = *std::max_element(expected.tokens.begin(), expected.tokens.end());
  for (size_t i = 0; i < expected.texts.size(); ++i) {
    if (expected.tokens[i] == longest) continue;
    const auto answer = Ask(*engine, EmbedRequest(expected.texts[i]));
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    EXPECT_EQ(answer->usage.prompt_tokens, expected.tokens[i]) << expected.texts[i];
    const double length = Length({expected.vectors[i].begin(), expected.vectors[i].end()});
    ASSERT_EQ(answer->embedding.size(), expected.vectors[i].size());
    for (size_t j = 0; j < answer->embedding.size(); ++j)
      EXPECT_NEAR(answer->embedding[j], expected.vectors[i][j] / length, kTolerance)
          << expected.texts[i];
  }
}

class ClassifierGolden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ClassifierGolden,
                         ::testing::Values("bert_rank", "xlm_roberta_classes", "modernbert_rank",
                                           "mpnet_classes"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ClassifierGolden, TextsAndPairsHaveTheLogitsOfTransformers) {
  const ExpectedVectors expected(GetParam());
  const auto engine = OpenTiny(EncoderOptions(GetParam()));
  ASSERT_NE(engine, nullptr);
  ASSERT_EQ(engine->Info().labels.size(), expected.vectors[0].size());
  ASSERT_GT(expected.texts.size(), 8u);
  for (size_t i = 0; i < expected.texts.size(); ++i) {
    Request request = EmbedRequest(expected.texts[i]);
    const auto alone = Ask(*engine, request);
    EXPECT_EQ(alone->usage.prompt_tokens, expected.tokens[i]);
    request.second_text = expected.second_texts[i];
    const auto pair = Ask(*engine, request);
    EXPECT_EQ(pair->usage.prompt_tokens, expected.pair_tokens[i]);
    ASSERT_EQ(pair->embedding.size(), expected.pair_vectors[i].size());
    for (size_t j = 0; j < pair->embedding.size(); ++j) {
      EXPECT_NEAR(alone->embedding[j], expected.vectors[i][j], kTolerance) << expected.texts[i];
      EXPECT_NEAR(pair->embedding[j], expected.pair_vectors[i][j], kTolerance) << expected.texts[i];
    }
  }
}

// A decoder that is asked whether a document meets a query, as Qwen3-Reranker is.
TEST(JudgeGolden, PairsHaveTheLogitsOfNoAndYes) {
  const ExpectedVectors expected("qwen3_reranker");
  for (const std::string& path : {EncoderFolder("qwen3_reranker"), Gguf("qwen3_reranker")}) {
    EngineOptions options = EncoderOptions("qwen3_reranker");
    options.model = path;
    const auto engine = OpenTiny(options);
    ASSERT_NE(engine, nullptr);
    ASSERT_THAT(engine->Info().labels, ::testing::ElementsAre("no", "yes"));
    for (size_t i = 0; i < expected.texts.size(); ++i) {
      Request request = EmbedRequest(expected.texts[i]);
      request.second_text = expected.second_texts[i];
      const auto pair = Ask(*engine, request);
      ASSERT_TRUE(pair->error.ok()) << pair->error.message();
      EXPECT_EQ(pair->usage.prompt_tokens, expected.pair_tokens[i]);
      ASSERT_EQ(pair->embedding.size(), 2u);
      for (size_t j = 0; j < 2; ++j) {
        EXPECT_NEAR(pair->embedding[j], expected.pair_vectors[i][j], kTolerance)
            << path << ": " << expected.texts[i];
      }
    }
  }
}

TEST(Judge, ADocumentThatIsTooLongLosesItsEndAndTheQuestionStays) {
  EngineOptions options = EncoderOptions("qwen3_reranker");
  options.max_model_len = 210;
  const auto engine = OpenTiny(options);
  std::string words;
  for (int i = 0; i < 300; ++i) words += "stone ";
  Request request = EmbedRequest("the river");
  request.second_text = words;
  const auto cut = Ask(*engine, request);
  EXPECT_TRUE(cut->error.ok()) << cut->error.message();
  EXPECT_EQ(cut->usage.prompt_tokens, 210);
  request.second_text = words + "river";
  EXPECT_EQ(Ask(*engine, request)->embedding, cut->embedding);
  request.truncate = false;
  EXPECT_THAT(Ask(*engine, request)->error.message(), HasSubstr("the model takes 210"));
}

TEST(Classifier, APairThatIsTooLongLosesTheEndOfItsSecondText) {
  const auto engine = OpenTiny(EncoderOptions("bert_rank"));
  std::string words;
  for (int i = 0; i < 70; ++i) words += "stone ";
  Request request = EmbedRequest("the river");
  request.second_text = words;
  const auto cut = Ask(*engine, request);
  EXPECT_TRUE(cut->error.ok()) << cut->error.message();
  EXPECT_EQ(cut->usage.prompt_tokens, 64);
  request.truncate = false;
  EXPECT_THAT(Ask(*engine, request)->error.message(), HasSubstr("the model takes 64"));
  request = EmbedRequest("the river");
  request.dimensions = 1;
  EXPECT_THAT(Ask(*engine, request)->error.message(), HasSubstr("the model classifies"));
  request = EmbedRequest("the river");
  request.second_text = "a";
  EXPECT_THAT(Ask(*OpenTiny(EncoderOptions("bert")), request)->error.message(),
              HasSubstr("one text at a time"));
}

TEST(Embedding, ATextWithALimitOfItsOwnIsItsBeginning) {
  const auto of_text = [](Engine& engine, const std::string& text, std::optional<int> most) {
    Request request = EmbedRequest(text);
    request.text_tokens_max = most;
    return Ask(engine, std::move(request));
  };
  const auto embeds = OpenTiny(EncoderOptions("bert"));
  const auto cut = of_text(*embeds, "the old bridge the river", 3);
  EXPECT_TRUE(cut->error.ok()) << cut->error.message();
  EXPECT_EQ(cut->embedding, of_text(*embeds, "the old bridge", {})->embedding);
  EXPECT_NE(cut->embedding, of_text(*embeds, "the old bridge the river", {})->embedding);
  EXPECT_EQ(of_text(*embeds, "the old bridge", 100)->embedding, cut->embedding);
  EXPECT_THAT(of_text(*embeds, "the old", 0)->error.message(), HasSubstr("text_tokens_max is 0"));

  const auto of_pair = [](Engine& engine, const std::string& document, std::optional<int> most) {
    Request request = EmbedRequest("the river");
    request.second_text = document;
    request.text_tokens_max = most;
    return Ask(engine, std::move(request))->embedding;
  };
  for (const char* model : {"bert_rank", "qwen3_reranker"}) {
    const auto reads_pairs = OpenTiny(EncoderOptions(model));
    EXPECT_EQ(of_pair(*reads_pairs, "stone stone stone river", 3),
              of_pair(*reads_pairs, "stone stone stone", {}))
        << model;
    EXPECT_NE(of_pair(*reads_pairs, "stone stone stone river", {}),
              of_pair(*reads_pairs, "stone stone stone", {}))
        << model;
  }
}

// They are unknown, and a text made of their tokens would spell that out.
TEST(Embedding, TokensThatHaveNoTextOfTheirOwnAreCutLikeOthers) {
  const std::string unknown = "\xE6\x97\xA5", spaced = unknown + " ";
  const auto tokens = [](Engine& engine, Request request, std::optional<int> most) {
    request.text_tokens_max = most;
    const auto asked = Ask(engine, std::move(request));
    EXPECT_TRUE(asked->error.ok()) << asked->error.message();
    return asked->usage.prompt_tokens;
  };
  std::string many;
  for (int i = 0; i < 40; ++i) many += spaced;
  for (const char* model : {"bert", "bert_rank", "qwen3_reranker"}) {
    const auto engine = OpenTiny(EncoderOptions(model));
    const auto of = [&](const std::string& document) {
      Request request = EmbedRequest(document);
      if (std::string_view(model) != "bert") {
        request = EmbedRequest("the river");
        request.second_text = document;
      }
      return request;
    };
    const int one = tokens(*engine, of(many), 1);
    for (const int most : {2, 3, 10})
      EXPECT_EQ(tokens(*engine, of(many), most), one + most - 1) << model << " " << most;
  }
}

TEST(Embedding, APartOfAVectorHasItsLengthAgain) {
  const auto engine = OpenTiny(EncoderOptions("bert"));
  const auto whole = Ask(*engine, EmbedRequest("the old bridge"));
  EXPECT_NEAR(Length(whole->embedding), 1.0, 1e-6);
  Request request = EmbedRequest("the old bridge");
  request.dimensions = 10;
  const auto part = Ask(*engine, std::move(request));
  ASSERT_EQ(part->embedding.size(), 10u);
  EXPECT_NEAR(Length(part->embedding), 1.0, 1e-6);
  EXPECT_NEAR(part->embedding[3] / part->embedding[7], whole->embedding[3] / whole->embedding[7],
              1e-5);
}

TEST(Embedding, TokenIdsAreTakenAsTheyAre) {
  const auto engine = OpenTiny(EncoderOptions("bert"));
  const std::vector<int32_t> ids = engine->Tokenize("a cold river", true, true).value();
  Request request = EmbedRequest("");
  request.prompt = ids;
  EXPECT_EQ(Ask(*engine, std::move(request))->embedding,
            Ask(*engine, EmbedRequest("a cold river"))->embedding);
}

TEST(Embedding, WhatDoesNotFitTheModelIsRefused) {
  const auto encoder = OpenTiny(EncoderOptions("bert"));
  Request request = EmbedRequest("a");
  request.dimensions = 65;
  EXPECT_THAT(Ask(*encoder, std::move(request))->error.message(),
              HasSubstr("dimensions is 65; it must be between 1 and 64"));
  request = EmbedRequest("a");
  request.embed = false;
  EXPECT_THAT(Ask(*encoder, std::move(request))->error.message(), HasSubstr("embeds texts"));
  std::string words;
  for (int i = 0; i < 60; ++i) words += "stone ";
  request = EmbedRequest(words);
  request.truncate = false;
  EXPECT_THAT(Ask(*encoder, std::move(request))->error.message(),
              HasSubstr("the text has 62 tokens; the model takes 48"));
  const auto llama = OpenTiny(TinyOptions());
  EXPECT_THAT(Ask(*llama, EmbedRequest("a"))->error.message(), HasSubstr("embeds none"));
}

TEST(Embedding, OptionsThatATextPassesAreTold) {
  EngineOptions options = EncoderOptions("bert");
  options.speculate = "ngram";
  EXPECT_THAT(Engine::Open(options, {}).status().message(), HasSubstr("--speculate ngram"));
  options = EncoderOptions("bert");
  options.max_batch_tokens = 16;
  options.max_model_len = 17;
  EXPECT_THAT(Engine::Open(options, {}).status().message(),
              HasSubstr("--max-model-len 17 is above --max-batch-tokens 16"));
  options.max_batch_tokens = 128;
  options.max_model_len = 65;
  EXPECT_THAT(Engine::Open(options, {}).status().message(),
              HasSubstr("--max-model-len 65 is above the 64 positions"));
  options.max_batch_tokens = 16;
  options.max_model_len = 0;
  const auto engine = OpenTiny(options);
  EXPECT_EQ(engine->Info().max_model_len, 16);
}

}  // namespace
}  // namespace sluice::engine
