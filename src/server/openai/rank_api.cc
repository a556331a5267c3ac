#include "server/openai/rank_api.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/str_cat.h"
#include "base/visible.h"
#include "server/openai/embedding_api.h"

namespace sluice::server {
namespace {

constexpr size_t kRankedTextBytesMax = 16u << 20;
constexpr size_t kPairBytesMax = 32u << 20;  // of all pairs, each of which has both its texts

// What Cohere counts as one search.
constexpr size_t kDocumentsOfSearch = 100;
constexpr int kCohereTokensMax = 4096;  // of a document, where a call does not say
constexpr size_t kDocumentIdBytesMax = 4096;

// A text, as a string or as {"text": ...}, which may have an id, too.
std::string ReadText(Fields* fields, std::string_view name, const OrderedJson& value) {
  const OrderedJson* text = &value;
  if (value.is_object() && value.contains("text")) {
    text = &value["text"];
    Fields item(value, StrCat(name, "."));
    item.Any("text");
    item.String("id", kDocumentIdBytesMax);
    fields->Take(item.Finish());
  }
  if (!text->is_string()) {
    fields->Fail(name, StrCat(name, " has an item that is ", ShownValue(value),
                              "; each must be a text, or an object with a text"));
    return {};
  }
  if (text->get_ref<const std::string&>().empty())
    fields->Fail(name, StrCat(name, " has an empty text; it must have at least one character"));
  return text->get<std::string>();
}

// A text or a list of texts.
std::vector<std::string> ReadTexts(Fields* fields, std::string_view name) {
  const OrderedJson* value = fields->Any(name);
  std::vector<std::string> texts;
  if (value == nullptr || (value->is_array() && value->empty())) {
    fields->Missing(name, "a text or a list of texts");
  } else if (!value->is_array()) {
    texts.push_back(ReadText(fields, name, *value));
  } else if (value->size() > kDocumentsMax) {
    fields->Fail(name, StrCat(name, " has ", value->size(), " texts; the limit is ", kDocumentsMax,
                              "; send the rest in another request"));
  } else {
    for (const OrderedJson& item : *value) texts.push_back(ReadText(fields, name, item));
  }
  return texts;
}

OrderedJson UsageOf(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens}, {"total_tokens", usage.prompt_tokens}};
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// Labels of a model that says whether a document meets a query; the second is the score.
const std::vector<std::string> kAnswers = {"no", "yes"};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Shares of 1; of one label alone its sigmoid, as it is either there or not.
std::vector<double> ProbabilitiesOf(const std::vector<float>& vector) {
  if (vector.size() == 1) return {Sigmoid(vector.front())};
  const double largest = *std::max_element(vector.begin(), vector.end());
  std::vector<double> shares;
  double sum = 0;
  for (const double x : vector) sum += shares.emplace_back(std::exp(x - largest));
  for (double& share : shares) share /= sum;
  return shares;
}

// What rerank and score need of the model.
void ReadScorer(Fields* fields, const ModelFacts& model, RankCall* call) {
  call->model = model.name;
  call->reads_pairs = !model.labels.empty();
  if (model.labels.size() < 2 || model.labels == kAnswers) return;
  fields->Fail("model", StrCat("the model ", Quote(model.name), " has ", model.labels.size(),
                               " labels, and pairs are ", "scored by one; ask /v1/classify"));
}

Result<RankCall> WithPairsBounded(RankCall call, std::string_view field) {
  size_t bytes = 0;
  for (const auto& [a, b] : call.pairs) bytes += call.texts[a].size() + call.texts[b].size();
  if (!call.reads_pairs || bytes <= kPairBytesMax) return call;
  return InvalidArgument(StrCat("the pairs of texts have ", bytes, " bytes; the limit is ",
                                kPairBytesMax, "; send fewer or shorter ones"),
                         std::string(field));
}

// One query beside each document.
Result<RankCall> Beside(std::string query, RankCall call) {
  const size_t documents = call.texts.size();
  for (size_t i = 0; i < documents; ++i) call.pairs.emplace_back(documents, i);
  call.texts.push_back(std::move(query));
  return WithPairsBounded(std::move(call), "documents");
}

size_t ReadTopN(Fields* fields) {
  return static_cast<size_t>(fields->Int("top_n", 1, 1 << 30).value_or(1 << 30));
}

// The documents, the best first, as many as are wanted.
std::vector<size_t> BestFirst(const RankCall& call, const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), call.top_n));
  return order;
}

}  // namespace

Result<RankCall> ParseRerankCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  RankCall call;
  ReadScorer(&fields, model, &call);
  const OrderedJson* query = fields.Any("query");
  if (query == nullptr || *query == "") fields.Missing("query", "the text to search for");
  std::string asked;
  if (fields.ok()) asked = ReadText(&fields, "query", *query);
  call.texts = ReadTexts(&fields, "documents");
  fields.OnlyValue("return_embeddings", false);
  call.truncate = ReadTruncate(&fields);
  call.return_documents = fields.Bool("return_documents").value_or(true);
  call.top_n = ReadTopN(&fields);
  ReadUser(&fields);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  return Beside(std::move(asked), std::move(call));
}

Result<RankCall> ParseCohereRerank(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  RankCall call;
  ReadScorer(&fields, model, &call);
  std::optional<std::string> query = fields.String("query", kRankedTextBytesMax);
  if (!query || query->empty()) fields.Missing("query", "the text to search for");
  const OrderedJson* documents = fields.Any("documents");
  if (documents != nullptr && !documents->is_array())
    fields.WrongType("documents", *documents, "a list of texts");
  for (size_t i = 0; documents != nullptr && i < documents->size() && fields.ok(); ++i) {
    if ((*documents)[i].is_string()) continue;
    fields.Fail("documents", StrCat("documents has an item that is ", ShownValue((*documents)[i]),
                                    "; each must be a text"));
  }
  if (fields.ok()) call.texts = ReadTexts(&fields, "documents");
  call.top_n = ReadTopN(&fields);
  call.truncate = true;
  call.document_tokens_max =
      fields.Int("max_tokens_per_doc", 1, 1 << 30).value_or(kCohereTokensMax);
  fields.Int("priority", 0, 999);  // no request waits for another one's answer
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  return Beside(*std::move(query), std::move(call));
}

Result<RankCall> ParseScoreCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  RankCall call;
  ReadScorer(&fields, model, &call);
  call.texts = ReadTexts(&fields, "text_1");
  const std::vector<std::string> others = ReadTexts(&fields, "text_2");
  call.truncate = ReadTruncate(&fields);
  ReadUser(&fields);
  const size_t first = call.texts.size(), second = others.size();
  if (fields.ok() && first != 1 && first != second) {
    fields.Fail("text_1", StrCat("text_1 has ", first, " texts and text_2 has ", second,
                                 "; text_1 must have one, or as many as text_2"));
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  for (size_t i = 0; i < second; ++i) call.pairs.emplace_back(first == 1 ? 0 : i, first + i);
  call.texts.insert(call.texts.end(), others.begin(), others.end());
  return WithPairsBounded(std::move(call), "text_2");
}

Result<RankCall> ParseClassifyCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  if (model.labels.empty())
    fields.Fail("model", StrCat("the model ", Quote(model.name),
                                " has no labels; serve one that classifies"));
  RankCall call;
  call.model = model.name;
  call.texts = ReadTexts(&fields, "input");
  call.truncate = ReadTruncate(&fields);
  ReadUser(&fields);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  return call;
}

std::vector<Request> RequestsOf(const RankCall& call) {
  Request request;
  request.embed = true;
  request.truncate = call.truncate;
  std::vector<Request> requests(call.reads_pairs ? call.pairs.size() : call.texts.size(), request);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = call.texts[call.reads_pairs ? call.pairs[i].first : i];
    if (call.reads_pairs) requests[i].second_text = call.texts[call.pairs[i].second];
    const bool query = !call.reads_pairs && !call.pairs.empty() && i == call.pairs[0].first;
    if (!query) requests[i].text_tokens_max = call.document_tokens_max;
  }
  return requests;
}

std::vector<double> ScoresOf(const RankCall& call, const std::vector<std::vector<float>>& vectors) {
  std::vector<double> scores;
  for (size_t i = 0; i < call.pairs.size(); ++i) {
    const auto& [a, b] = call.pairs[i];
    scores.push_back(call.reads_pairs ? ProbabilitiesOf(vectors[i]).back()
                                      : Cosine(vectors[a], vectors[b]));
  }
  return scores;
}

std::string RerankAnswer(const RankCall& call, const std::vector<double>& scores,
                         const Usage& usage, const std::string& id) {
  OrderedJson results = OrderedJson::array();
  for (const size_t i : BestFirst(call, scores)) {
    OrderedJson result{{"index", i}};
    if (call.return_documents) result["document"] = {{"text", call.texts[call.pairs[i].second]}};
    result["relevance_score"] = scores[i];
    results.push_back(std::move(result));
  }
  return DumpJson(OrderedJson{{"id", StrCat("rerank-", id)},
                              {"object", "list"},
                              {"model", call.model},
                              {"usage", UsageOf(usage)},
                              {"results", std::move(results)}});
}

std::string CohereAnswer(const RankCall& call, const std::vector<double>& scores,
                         const Usage& usage, const std::string& id) {
  OrderedJson results = OrderedJson::array();
  for (const size_t i : BestFirst(call, scores)) {
    results.push_back(OrderedJson{{"index", i}, {"relevance_score", scores[i]}});
  }
  const size_t searches = (scores.size() + kDocumentsOfSearch - 1) / kDocumentsOfSearch;
  OrderedJson meta{{"api_version", {{"version", "2"}}}};
  meta["billed_units"] = {{"search_units", searches}};
  meta["tokens"] = {{"input_tokens", usage.prompt_tokens}};
  return DumpJson(
      OrderedJson{{"id", id}, {"results", std::move(results)}, {"meta", std::move(meta)}});
}

std::string ScoreAnswer(const RankCall& call, const std::vector<double>& scores, const Usage& usage,
                        const std::string& id, int64_t created) {
  OrderedJson data = OrderedJson::array();
  for (size_t i = 0; i < scores.size(); ++i)
    data.push_back(OrderedJson{{"index", i}, {"object", "score"}, {"score", scores[i]}});
  return DumpJson(OrderedJson{{"id", StrCat("score-", id)},
                              {"object", "list"},
                              {"created", created},
                              {"model", call.model},
                              {"data", std::move(data)},
                              {"usage", UsageOf(usage)}});
}

std::string ClassifyAnswer(const RankCall& call, const ModelFacts& model,
                           const std::vector<std::vector<float>>& vectors, const Usage& usage,
                           const std::string& id, int64_t created) {
  OrderedJson data = OrderedJson::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    const std::vector<double> probabilities = ProbabilitiesOf(vectors[i]);
    const auto best = std::max_element(probabilities.begin(), probabilities.end());
    data.push_back(OrderedJson{{"index", i},
                               {"label", model.labels[best - probabilities.begin()]},
                               {"probs", probabilities},
                               {"num_classes", probabilities.size()}});
  }
  return DumpJson(OrderedJson{{"id", StrCat("classify-", id)},
                              {"object", "list"},
                              {"created", created},
                              {"model", call.model},
                              {"data", std::move(data)},
                              {"usage", UsageOf(usage)}});
}

}  // namespace sluice::server
