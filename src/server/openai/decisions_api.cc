#include "server/openai/decisions_api.h"

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "server/openai/responses_api.h"
#include "server/shared/accepted_fields.h"

namespace sluice::server {
namespace {

constexpr size_t kDecisionTextBytesMax = 64u << 10;
// Of one token of a prompt with its log-prob, while it waits for the others.
constexpr int64_t kTokenBytes = 100;

// The options of a choice or of a score, and how the question lists them.
std::string ReadOptions(Fields* fields, const char* list_name, const char* value_name,
                        const std::string& path, Question* question) {
  const OrderedJson* list = fields->Array(list_name, kAnswersMax);
  if (list == nullptr || list->size() < 2) {
    fields->Fail(list_name,
                 StrCat(path, list_name, list == nullptr ? " is missing" : " is too short",
                        "; it must be a list of 2 to ", kAnswersMax, " entries"));
    return "";
  }
  std::string shown;
  for (size_t i = 0; i < list->size() && fields->ok(); ++i) {
    Fields entry((*list)[i], StrCat(path, list_name, "[", i, "]."));
    const OrderedJson* value = entry.Any(value_name);
    const bool flag =
        value != nullptr && value->is_boolean() && question->kind == Question::Kind::kChoice;
    if (!flag) {
      const auto text = entry.String(value_name, kDecisionTextBytesMax);
      if (!text || text->empty()) {
        entry.Missing(value_name, "what the answer may be");
      }
    }
    const auto description = entry.String("description", kDecisionTextBytesMax);
    fields->Take(entry.Finish());
    if (!fields->ok()) break;
    const std::string text = flag ? value->dump() : value->get<std::string>();
    for (const Question::Option& other : question->options) {
      if (other.value == *value) {
        fields->Fail(list_name, StrCat(path, list_name, " has ", ShownValue(*value),
                                       " twice; leave one of them out"));
      }
    }
    question->options.push_back({*value, text, 0});
    shown += StrCat("\n- ", text, description ? ": " : "", description.value_or(""));
  }
  return shown;
}

// What is asked behind the input.
std::string ReadQuestion(Fields* fields, const OrderedJson& value, size_t index,
                         Question* question) {
  const std::string path = StrCat("questions[", index, "].");
  Fields entry(value, path);
  const std::string type = entry.String("type", kNameBytesMax).value_or("");
  const auto name = entry.String("name", kNameBytesMax);
  question->name = name ? OrderedJson(*name) : OrderedJson(nullptr);
  const auto instructions = ReadResponsesText(&entry, "instructions", path);
  if (!instructions || instructions->empty()) {
    entry.Missing("instructions", "the question");
  }
  std::string text = instructions.value_or("");
  if (type == "predicate") {
    question->kind = Question::Kind::kPredicate;
    question->options = {{true, "Yes", 0}, {false, "No", 0}};
    text += "\n\nIs this true? Answer with one word, Yes or No.";
  } else if (type == "choice") {
    question->kind = Question::Kind::kChoice;
    text += StrCat("\n\nAnswer with one of these and nothing else:",
                   ReadOptions(&entry, "choices", "value", path, question));
  } else if (type == "score") {
    question->kind = Question::Kind::kScore;
    text += StrCat("\n\nAnswer with one of these levels, which ascend, and nothing else:",
                   ReadOptions(&entry, "levels", "label", path, question));
  } else {
    entry.WrongValue("type", "predicate, choice or score");
  }
  fields->Take(entry.Finish());
  return text;
}

// Each option's share of what the model gives to all of them.
std::vector<double> Shares(const std::vector<double>& logprobs) {
  const double most = *std::max_element(logprobs.begin(), logprobs.end());
  std::vector<double> shares;
  double sum = 0;
  for (const double logprob : logprobs) sum += shares.emplace_back(std::exp(logprob - most));
  for (double& share : shares) share /= sum;
  return shares;
}

// 1 where one option has it all, 0 where all have the same: by the entropy.
double ConfidenceOf(const std::vector<double>& shares) {
  double entropy = 0;
  for (const double share : shares) {
    if (share > 0) entropy -= share * std::log(share);
  }
  return std::clamp(1 - entropy / std::log(static_cast<double>(shares.size())), 0.0, 1.0);
}

OrderedJson AnswerTo(const Question& question, const std::vector<double>& shares) {
  OrderedJson json;
  if (question.kind == Question::Kind::kPredicate) {
    json["type"] = "predicate";
    json["name"] = question.name;
    json["probability"] = shares[0];
    return json;
  }
  const bool score = question.kind == Question::Kind::kScore;
  OrderedJson probabilities = OrderedJson::array();
  double mean = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const OrderedJson& value = question.options[i].value;
    OrderedJson entry{{"probability", shares[i]}};
    entry[score ? "label" : "value"] = value;
    if (score) entry["value"] = i;
    probabilities.push_back(std::move(entry));
    mean += shares[i] * static_cast<double>(i);
  }
  const auto best = std::max_element(shares.begin(), shares.end()) - shares.begin();
  json["type"] = score ? "score" : "choice";
  json["name"] = question.name;
  if (score) {
    json["score"] = mean;
  } else {
    json["choice"] = question.options[static_cast<size_t>(best)].value;
  }
  json["confidence"] = ConfidenceOf(shares);
  json["probabilities"] = std::move(probabilities);
  return json;
}

// The log-prob of a prompt's last tokens.
double LogprobOf(const Choice& choice, int tokens) {
  if (choice.prompt_tokens == nullptr) return 0;
  double sum = 0;
  const std::vector<TokenInfo>& all = *choice.prompt_tokens;
  for (size_t i = all.size() - std::min<size_t>(all.size(), tokens); i < all.size(); ++i) {
    sum += all[i].logprob.value_or(0);
  }
  return sum;
}

}  // namespace

Result<std::vector<Question>> ParseDecisions(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  const OrderedJson messages = ReadResponsesInput(&fields, OrderedJson::array());
  std::vector<Question> questions;
  const OrderedJson* list = fields.Array("questions", kQuestionsMax);
  if (list == nullptr || list->empty()) {
    fields.Missing("questions", StrCat("a list of 1 to ", kQuestionsMax, " questions"));
  }
  size_t options = 0;
  for (size_t i = 0; list != nullptr && i < list->size() && fields.ok(); ++i) {
    Question& question = questions.emplace_back();
    const std::string text = ReadQuestion(&fields, (*list)[i], i, &question);
    OrderedJson asked = messages;
    asked.push_back(OrderedJson{{"role", "user"}, {"content", text}});
    question.prompt.messages_json = DumpJson(asked);
    question.prompt.adapt_history = true;
    // The answer is to come at once.
    question.prompt.template_kwargs_json = R"({"enable_thinking":false,"thinking":false})";
    options += question.options.size();
  }
  if (options > kAnswersMax) {
    fields.Fail("questions", StrCat("the questions have ", options,
                                    " possible answers in all; the limit is ", kAnswersMax));
  }
  ReadAccepted(&fields, FieldPlace::kDecisionsRequest);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  return questions;
}

Result<ApiCall> ScoreOptions(const Engine& engine, const ModelFacts& model,
                             const std::atomic<bool>& gone, std::vector<Question>* questions) {
  ApiCall call;
  call.model = model.name;
  Request request;
  request.max_tokens = 0;
  request.prompt_logprobs = 0;
  const auto room = static_cast<size_t>(engine.Info().max_model_len);
  int64_t tokens = 0;
  for (Question& question : *questions) {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, engine.RenderChat(question.prompt, "", &gone));
    if (text.size() > limits::kTokenizeBytesMax) {
      return Status(StatusCode::kTooLarge,
                    StrCat("the input and a question have ", text.size(), " bytes; the limit is ",
                           limits::kTokenizeBytesMax),
                    "input");
    }
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> asked,
                            engine.Tokenize(text, false, true, &gone));
    for (Question::Option& option : question.options) {
      SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> answer,
                              engine.Tokenize(option.text, false, false, &gone));
      option.tokens = static_cast<int>(answer.size());
      std::vector<int32_t> ids = asked;
      ids.insert(ids.end(), answer.begin(), answer.end());
      tokens += static_cast<int64_t>(ids.size());
      if (ids.size() > room || tokens * kTokenBytes > limits::kPromptLogprobsBytesMax) {
        return Status(StatusCode::kTooLarge,
                      StrCat("the input and a question have ", ids.size(), " tokens, and all of ",
                             "them with each answer at least ", tokens, "; the limits are ", room,
                             " and ", limits::kPromptLogprobsBytesMax / kTokenBytes,
                             "; shorten the input or ask fewer questions"),
                      "input");
      }
      request.prompt = std::move(ids);
      call.requests.push_back(request);
    }
  }
  return call;
}

std::string DecisionsAnswer::Whole(const std::vector<Choice>& choices, const Usage& usage) {
  OrderedJson answers = OrderedJson::array();
  size_t next = 0;
  for (const Question& question : questions_) {
    std::vector<double> logprobs;
    for (const Question::Option& option : question.options) {
      logprobs.push_back(LogprobOf(choices.at(next++), option.tokens));
    }
    answers.push_back(AnswerTo(question, Shares(logprobs)));
  }
  OrderedJson json;
  json["model"] = call_.model;
  json["answers"] = std::move(answers);
  json["usage"] = ResponseUsage(usage);
  return DumpJson(json);
}

}  // namespace sluice::server
