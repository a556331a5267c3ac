// Bodies of the endpoints that write no answer of a model: whatever they hold, they are read or
// refused. The first character of an input says whose body the rest is, and of those that work on
// texts at once the engine is one that takes each byte for a token.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "server/experts_api.h"
#include "server/fake_engine.h"
#include "server/http/errors.h"
#include "server/http/multipart.h"
#include "server/models_api.h"
#include "server/ollama/ollama_api.h"
#include "server/openai/batch_lines.h"
#include "server/openai/decisions_api.h"
#include "server/openai/embedding_api.h"
#include "server/openai/rank_api.h"
#include "server/openai/text_api.h"
#include "server/profiles.h"
#include "server/running_answers.h"

namespace sluice::server {
namespace {

const ModelFacts& Model() {
  static const ModelFacts model{"tiny", 1000, {}};
  return model;
}

Status ReadRanking(const Result<RankCall>& call) {
  if (!call.ok()) return call.status();
  for (const auto& [first, second] : call->pairs) {
    CHECK(std::max(first, second) < call->texts.size(), "a pair of texts that are not there");
  }
  const std::vector<Request> requests = RequestsOf(*call);
  CHECK(!requests.empty(), "nothing is asked for");
  return OkStatus();
}

Status ReadDecisions(std::string_view body) {
  static const FakeEngine engine{};
  auto questions = ParseDecisions(body, Model());
  if (!questions.ok()) return questions.status();
  return ScoreOptions(engine, Model(), false, &*questions).status();
}

template <Result<std::string> (*Answer)(const Engine&, const ModelFacts&, std::string_view,
                                        const std::atomic<bool>&)>
Status ReadText(std::string_view body) {
  static const FakeEngine engine{};
  const Result<std::string> answer = Answer(engine, Model(), body, false);
  if (answer.ok()) CHECK(ParseJson(*answer, "an answer").ok(), *answer);
  return answer.status();
}

// A field's name on the first line, and the body behind it.
Status ReadName(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  (void)ModelNamedIn(input.substr(std::min(end + 1, input.size())), input.substr(0, end));
  return OkStatus();
}

// As the header Content-Type has it, up to the end of the first line.
Status ReadForm(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  return ParseForm(input.substr(0, end), input.substr(std::min(end + 1, input.size()))).status();
}

constexpr Status (*kReaders[])(std::string_view) = {
    [](std::string_view body) { return ParseEmbeddingCall(body, Model()).status(); },
    [](std::string_view body) { return ParseOllamaEmbed(body, Model()).status(); },
    [](std::string_view body) { return ReadRanking(ParseRerankCall(body, Model())); },
    [](std::string_view body) { return ReadRanking(ParseScoreCall(body, Model())); },
    [](std::string_view body) { return ReadRanking(ParseClassifyCall(body, Model())); },
    ReadDecisions,
    ReadText<Tokenize>,
    ReadText<Detokenize>,
    ReadText<ApplyTemplate>,
    ReadText<CountMessageTokens>,
    [](std::string_view body) { return RunningAnswers().Control("key", body).status(); },
    [](std::string_view body) { return OllamaShow(FakeEngine().Info(), "", 0, body).status(); },
    [](std::string_view body) { return ReadModelOrder("/models/load", body).status(); },
    [](std::string_view body) { return ReadEngineOrder("/admin/pause", body).status(); },
    [](std::string_view body) { return ReadExpertsOrder(body).status(); },
    [](std::string_view query) { return ReadExpertsQuery(query).status(); },
    [](std::string_view body) { return ReadProfileCommand(body, Model()).status(); },
    [](std::string_view line) { return ReadBatchLine(line, "/v1/completions").status(); },
    ReadName,
    ReadForm,
    [](std::string_view body) { return ReadRanking(ParseCohereRerank(body, Model())); },
    [](std::string_view body) { return ParseCohereEmbed(body, Model()).status(); },
    [](std::string_view body) { return ParseOllamaEmbedOne(body, Model()).status(); },
};

}  // namespace
}  // namespace sluice::server

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::server;
  if (input.empty()) return;
  const auto letter = static_cast<size_t>(static_cast<unsigned char>(input.front() - 'a'));
  const Status status = kReaders[letter % std::size(kReaders)](input.substr(1));
  if (status.ok()) return;
  const int http = HttpStatusOf(status.code());
  CHECK(http / 100 == 4 || status.code() == StatusCode::kUnimplemented, status.message());
  CHECK(!status.message().empty(), "an error without a sentence");
  CHECK(ParseJson(ErrorBody(status), "an error").ok(), "not JSON");
}
