// Routes over several models: which of them a request reaches, and what is told of them.
#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;

// Says which model it is, and answers what it is asked with that.
class NamedEngine : public FakeEngine {
 public:
  explicit NamedEngine(std::string name) : name_(std::move(name)) {
    on_submit = [this](size_t index) {
      if (!submitted[index].request.embed) return Emit(index, name_, FinishReason::kStop, true);
      TextDelta delta;
      delta.embedding = {name_ == "a" ? 1.0f : 2.0f};
      delta.finish = FinishReason::kStop;
      delta.last = true;
      EmitDelta(index, std::move(delta));
    };
  }
  EngineInfo Info() const override {
    EngineInfo info = FakeEngine::Info();
    info.model_name = name_;
    return info;
  }
  std::string Metrics() const override {
    return "# HELP x What x is\n# TYPE x gauge\nx{model_name=\"" + name_ + "\"} 1\n";
  }

 private:
  const std::string name_;
};

class SeveralModelsTest : public ::testing::Test {
 protected:
  SeveralModelsTest() {
    std::vector<ModelToServe> list;
    for (const char* name : {"a", "b", "c"}) {
      ModelToServe model;
      model.name = name;
      model.open = [name]() -> Result<std::unique_ptr<Engine>> {
        if (name == std::string("c")) return Status(StatusCode::kBadModel, "the file is broken");
        return std::unique_ptr<Engine>(std::make_unique<NamedEngine>(name));
      };
      if (name == std::string("a")) model.loaded = std::make_unique<NamedEngine>("a");
      list.push_back(std::move(model));
    }
    models_ = std::make_unique<Models>(std::move(list), Models::Options());
    routes_ = std::make_unique<Routes>(*models_, ApiKeys(), [] { return HttpState(); });
  }
  ~SeveralModelsTest() override { models_->Close(); }

  // Waits for the answer.
  std::shared_ptr<FakeExchange> Send(const std::string& method, const std::string& path,
                                     const std::string& body = "", bool local = true,
                                     const std::string& key = "") {
    auto exchange = std::make_shared<FakeExchange>();
    HttpRequest request;
    request.method = method;
    request.path = path.substr(0, path.find('?'));
    request.query = path.find('?') == std::string::npos ? "" : path.substr(path.find('?') + 1);
    request.body = body;
    request.local = local;
    request.authorization = key;
    request.client = "somebody";
    if (auto refusal = routes_->Admit(&request)) {
      exchange->Reply(std::move(*refusal));
    } else {
      routes_->Handle(std::move(request), exchange);
    }
    while (!exchange->replied) std::this_thread::yield();
    return exchange;
  }
  std::map<std::string, std::string> States() {
    std::map<std::string, std::string> states;
    const Json list = Send("GET", "/v1/models")->body();
    for (const Json& model : list["data"]) {
      states[model["id"]] = model["status"]["value"];
    }
    return states;
  }

  std::unique_ptr<Models> models_;
  std::unique_ptr<Routes> routes_;
};

constexpr const char* kLoaded = "loaded";
constexpr const char* kUnloaded = "unloaded";

TEST_F(SeveralModelsTest, EveryApiReachesTheModelThatItsBodyNames) {
  const std::pair<const char*, std::string> calls[] = {
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"x"}]})"},
      {"/v1/completions", R"("prompt":"x"})"},
      {"/v1/responses", R"("input":"x"})"},
      {"/v1/messages", R"("max_tokens":4,"messages":[{"role":"user","content":"x"}]})"},
      {"/completion", R"("prompt":"x"})"},
      {"/api/chat", R"("stream":false,"messages":[{"role":"user","content":"x"}]})"},
      {"/api/generate", R"("stream":false,"prompt":"x"})"},
  };
  for (const auto& [path, rest] : calls) {
    for (const std::string name : {"b", "a"}) {
      const auto exchange = Send("POST", path, "{\"model\":\"" + name + "\"," + rest);
      EXPECT_EQ(exchange->reply.status, 200) << exchange->reply.body;
      EXPECT_THAT(exchange->reply.body, HasSubstr("\"" + name + "\"")) << path;
      const Json answer = exchange->body();
      EXPECT_EQ(answer["model"], name) << path;
      // The text, wherever an API has it.
      const std::string other = name == "a" ? "\"b\"" : "\"a\"";
      EXPECT_EQ(exchange->reply.body.find(other), std::string::npos) << path;
    }
  }
  const auto vectors = Send("POST", "/v1/embeddings", R"({"model":"b","input":"x"})");
  EXPECT_EQ(vectors->body()["data"][0]["embedding"], Json({2.0}));
  EXPECT_EQ(Send("POST", "/tokenize", R"({"model":"b","content":"x"})")->reply.status, 200);
}

TEST_F(SeveralModelsTest, NoNameMeansTheFirstAndAnUnknownOneIsTold) {
  EXPECT_EQ(Send("POST", "/v1/completions", R"({"prompt":"x"})")->body()["model"], "a");
  const auto exchange = Send("POST", "/v1/completions", R"({"model":"d","prompt":"x"})");
  EXPECT_EQ(exchange->reply.status, 404);
  EXPECT_EQ(exchange->body()["error"]["code"], "model_not_found");
  EXPECT_THAT(exchange->reply.body, HasSubstr(R"(this server has \"a\", \"b\", \"c\")"));
  EXPECT_THAT(Send("GET", "/nowhere")->reply.body, HasSubstr(R"(the models \"a\", \"b\", \"c\")"));
  EXPECT_EQ(Send("POST", "/v1/completions", "{")->reply.status, 400);
}

TEST_F(SeveralModelsTest, ARequestLoadsItsModelOrIsToldWhyNot) {
  EXPECT_EQ(States(), (std::map<std::string, std::string>{
                          {"a", kLoaded}, {"b", kUnloaded}, {"c", kUnloaded}}));
  EXPECT_EQ(Send("POST", "/v1/completions", R"({"model":"b","prompt":"x"})")->body()["model"], "b");
  EXPECT_EQ(States()["b"], kLoaded);
  const auto exchange = Send("POST", "/v1/completions", R"({"model":"c","prompt":"x"})");
  EXPECT_EQ(exchange->reply.status, 500);
  EXPECT_THAT(exchange->reply.body, HasSubstr("the file is broken"));
  EXPECT_EQ(Send("GET", "/v1/models/c")->body()["status"]["error"], "the file is broken");
}

TEST_F(SeveralModelsTest, ModelsAreLoadedAndUnloadedByOrder) {
  const auto loaded = Send("POST", "/v1/models/b/load");
  EXPECT_EQ(loaded->reply.status, 200) << loaded->reply.body;
  EXPECT_EQ(loaded->body()["success"], true);
  EXPECT_EQ(loaded->body()["status"]["value"], kLoaded);
  const auto unloaded = Send("POST", "/models/unload", R"({"model":"a"})");
  EXPECT_EQ(unloaded->body()["status"]["value"], kUnloaded);
  EXPECT_EQ(States(), (std::map<std::string, std::string>{
                          {"a", kUnloaded}, {"b", kLoaded}, {"c", kUnloaded}}));
  EXPECT_EQ(Send("POST", "/models/load", R"({"model":"a"})")->reply.status, 200);
  EXPECT_EQ(Send("POST", "/v1/models/b/unload")->reply.status, 200);
  EXPECT_EQ(States()["b"], kUnloaded);
  EXPECT_EQ(Send("POST", "/v1/models/d/load")->reply.status, 404);
  EXPECT_EQ(Send("POST", "/v1/models/a/stop")->reply.status, 404);
  EXPECT_EQ(Send("POST", "/v1/models/c/load")->reply.status, 500);
}

TEST_F(SeveralModelsTest, OnlyAdministratorsLoadAndUnload) {
  EXPECT_EQ(Send("POST", "/v1/models/b/load", "", false)->reply.status, 403);
  const std::string path = ::testing::TempDir() + "/sluice_several_models_keys";
  std::ofstream(path) << "one\ntwo admin weight=2\n";
  routes_->ReplaceKeys(*ApiKeys::Load(path));
  EXPECT_EQ(Send("POST", "/v1/models/b/load", "", true)->reply.status, 401);
  EXPECT_EQ(Send("POST", "/v1/models/b/load", "", true, "Bearer one")->reply.status, 403);
  EXPECT_EQ(Send("POST", "/v1/models/b/load", "", false, "Bearer two")->reply.status, 200);
  const auto keep = [this](const std::string& key) {
    return Send("POST", "/api/generate", R"({"model":"b","keep_alive":0})", true, key)
        ->body()["done_reason"];
  };
  EXPECT_EQ(keep("Bearer one"), "load");
  EXPECT_EQ(keep("Bearer two"), "unload");
}

TEST_F(SeveralModelsTest, OllamaListsThemAndKeepsThemAsAsked) {
  std::vector<std::string> names;
  const Json tags = Send("GET", "/api/tags")->body();
  for (const Json& model : tags["models"]) names.push_back(model["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
  const auto running = [this] { return Send("GET", "/api/ps")->body()["models"]; };
  ASSERT_EQ(running().size(), 1u);
  EXPECT_EQ(running()[0]["expires_at"], "2318-03-06T00:00:00Z");
  EXPECT_EQ(Send("POST", "/api/show", R"({"model":"b:latest"})")->reply.status, 200);
  EXPECT_EQ(States()["b"], kUnloaded);  // to tell of one loads none
  Send("POST", "/api/generate", R"({"model":"b:latest","keep_alive":"5m"})");
  ASSERT_EQ(running().size(), 2u);
  EXPECT_NE(running()[1]["expires_at"], "2318-03-06T00:00:00Z");
  EXPECT_EQ(Send("POST", "/api/generate", R"({"model":"b","keep_alive":0})")->body()["done_reason"],
            "unload");
  while (States()["b"] != kUnloaded) std::this_thread::yield();
  // What is not loaded is not loaded to be unloaded.
  EXPECT_EQ(Send("POST", "/api/generate", R"({"model":"b","keep_alive":0})")->body()["done_reason"],
            "unload");
  EXPECT_EQ(States()["b"], kUnloaded);
  EXPECT_EQ(Send("POST", "/api/generate", R"({"model":"b","keep_alive":"soon"})")->reply.status,
            400);
}

TEST_F(SeveralModelsTest, FactsAreOfTheModelThatTheQueryNames) {
  EXPECT_EQ(Send("GET", "/props")->body()["model_alias"], "a");
  EXPECT_EQ(Send("GET", "/props?model=b")->body()["model_alias"], "b");
  EXPECT_EQ(Send("GET", "/slots?model=d")->reply.status, 404);
  EXPECT_EQ(Send("GET", "/tokenizer_info?model=b")->reply.status, 503);
  EXPECT_EQ(Send("GET", "/models")->body()["data"].size(), 3u);
}

TEST_F(SeveralModelsTest, MetricsNameTheirModel) {
  Send("POST", "/v1/models/b/load");
  const std::string text = Send("GET", "/metrics")->reply.body;
  EXPECT_THAT(text, HasSubstr("# TYPE x gauge\nx{model_name=\"a\"} 1\nx{model_name=\"b\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sluice_model_loaded{model_name=\"c\"} 0\n"));
}

}  // namespace
}  // namespace sluice::server
