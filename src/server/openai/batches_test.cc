// Files and batches of a client, from the form to the file of answers, and files of lines without a
// server.
#include "server/openai/batches_api.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <thread>

#include "base/str_cat.h"
#include "server/routes_fixture.h"
#include "sluice/batch.h"

namespace sluice::server {
namespace {

std::string Line(const std::string& id, const std::string& prompt = "a") {
  return StrCat(R"({"custom_id":")", id, R"(","method":"POST","url":"/v1/completions","body":)",
                R"({"prompt":")", prompt, R"("}})", "\n");
}

class BatchesTest : public RoutesTest {
 protected:
  BatchesTest() {
    engine_.on_submit = [this](size_t index) {
      if (!held_) engine_.Emit(index, "yes", FinishReason::kStop, true);
    };
  }
  std::shared_ptr<FakeExchange> Upload(const std::string& content, const std::string& key = "",
                                       const std::string& purpose = "batch") {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/files";
    request.authorization = key;
    request.content_type = "multipart/form-data; boundary=B";
    request.body =
        StrCat("--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n", purpose,
               "\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; "
               "filename=\"in.jsonl\"\r\n\r\n",
               content, "\r\n--B--\r\n");
    auto exchange = std::make_shared<FakeExchange>();
    EXPECT_FALSE(routes_->Admit(&request).has_value());
    routes_->Handle(std::move(request), exchange);
    return exchange;
  }
  std::string FileOf(const std::string& content, const std::string& key = "") {
    return Upload(content, key)->body()["id"].get<std::string>();
  }
  Json Create(const std::string& file, const std::string& key = "") {
    return Send("POST", "/v1/batches",
                StrCat(R"({"input_file_id":")", file,
                       R"(","endpoint":"/v1/completions","completion_window":"24h",)"
                       R"("metadata":{"a":"b"}})"),
                key)
        ->body();
  }
  Json Get(const std::string& path, const std::string& key = "") {
    return Send("GET", path, "", key)->body();
  }
  Json WaitForEnd(const std::string& id) {
    for (;;) {
      Json batch = Get(StrCat("/v1/batches/", id));
      const std::string status = batch["status"];
      if (status == "completed" || status == "failed" || status == "cancelled") return batch;
      std::this_thread::yield();
    }
  }
  std::string Content(const Json& id) {
    return Send("GET", StrCat("/v1/files/", id.get<std::string>(), "/content"))->reply.body;
  }

  std::atomic<bool> held_ = false;  // the engine does not answer
};

TEST_F(BatchesTest, FilesComeBackAsTheyWere) {
  const std::string id = FileOf("{}\n");
  EXPECT_EQ(id.size(), 5 + 32u);
  const Json file = Get(StrCat("/v1/files/", id));
  EXPECT_EQ(file["filename"], "in.jsonl");
  EXPECT_EQ(file["bytes"], 3);
  EXPECT_EQ(Content(id), "{}\n");
  EXPECT_EQ(Get("/v1/files")["data"].size(), 1u);
  EXPECT_EQ(Send("DELETE", StrCat("/v1/files/", id))->body()["deleted"], true);
  EXPECT_EQ(Send("GET", StrCat("/v1/files/", id))->reply.status, 404);
  EXPECT_EQ(Upload("x", "", "fine-tune")->param(), "purpose");
  EXPECT_EQ(Upload("")->param(), "file");
}

TEST_F(BatchesTest, ListsComeInPages) {
  std::vector<std::string> ids;  // newest first
  for (int i = 0; i < 3; ++i) ids.insert(ids.begin(), FileOf("{}\n"));
  const auto shown = [](const Json& page) {
    std::vector<std::string> list;
    for (const Json& item : page["data"]) list.push_back(item["id"].get<std::string>());
    return list;
  };
  const Json all = Get("/v1/files");
  EXPECT_EQ(shown(all), ids);
  EXPECT_EQ(all["has_more"], false);
  EXPECT_EQ(all["first_id"], ids[0]);
  EXPECT_EQ(all["last_id"], ids[2]);
  const Json first = Get("/v1/files?limit=2");
  EXPECT_EQ(shown(first), (std::vector<std::string>{ids[0], ids[1]}));
  EXPECT_EQ(first["has_more"], true);
  const Json second = Get(StrCat("/v1/files?limit=2&after=", ids[1]));
  EXPECT_EQ(shown(second), (std::vector<std::string>{ids[2]}));
  EXPECT_EQ(second["has_more"], false);
  const Json end = Get(StrCat("/v1/files?after=", ids[2]));
  EXPECT_TRUE(end["data"].empty());
  EXPECT_TRUE(end["last_id"].is_null());
  EXPECT_EQ(shown(Get("/v1/files?order=asc&limit=1")), (std::vector<std::string>{ids[2]}));
  for (const char* limit : {"0", "10001", "-1", "1x", "99999999999999999999999"}) {
    EXPECT_EQ(Send("GET", StrCat("/v1/files?limit=", limit))->param(), "limit") << limit;
  }
  EXPECT_EQ(Send("GET", "/v1/files?order=up")->param(), "order");
  EXPECT_EQ(Send("GET", "/v1/files?after=file-none")->reply.status, 404);
}

TEST_F(BatchesTest, ListsOfBatchesAndOfOnePurpose) {
  std::string last;
  for (int i = 0; i < 21; ++i) {
    last = Create(FileOf(Line("one")))["id"].get<std::string>();
    WaitForEnd(last);
  }
  EXPECT_EQ(Get("/v1/files?purpose=batch")["data"].size(), 21u);
  EXPECT_EQ(Get("/v1/files?purpose=batch_output")["data"].size(), 21u);
  EXPECT_EQ(Get("/v1/files?purpose=vision")["data"].size(), 0u);
  const Json page = Get("/v1/batches");
  EXPECT_EQ(page["data"].size(), 20u);
  EXPECT_EQ(page["first_id"], last);
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(Get(StrCat("/v1/batches?after=", page["last_id"].get<std::string>()))["data"].size(),
            1u);
  EXPECT_EQ(Get("/v1/batches?limit=100")["has_more"], false);
  EXPECT_EQ(Send("GET", "/v1/batches?limit=101")->param(), "limit");
}

TEST_F(BatchesTest, EachLineIsAnswered) {
  const Json made = Create(FileOf(Line("one") + "\r\n" + Line("two")));
  EXPECT_EQ(made["object"], "batch");
  const Json batch = WaitForEnd(made["id"]);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_EQ(batch["request_counts"], (Json{{"total", 2}, {"completed", 2}, {"failed", 0}}));
  EXPECT_EQ(batch["metadata"], (Json{{"a", "b"}}));
  EXPECT_TRUE(batch["error_file_id"].is_null());
  std::istringstream answers(Content(batch["output_file_id"]));
  std::set<std::string> ids;
  for (std::string text; std::getline(answers, text);) {
    const Json answer = Json::parse(text);
    ids.insert(answer["custom_id"]);
    EXPECT_EQ(answer["response"]["status_code"], 200);
    EXPECT_EQ(answer["response"]["body"]["choices"][0]["text"], "yes");
    EXPECT_TRUE(answer["error"].is_null());
  }
  EXPECT_EQ(ids, (std::set<std::string>{"one", "two"}));
  // Behind other requests of the key.
  EXPECT_EQ(engine_.submitted[0].request.priority, 100);
  EXPECT_EQ(Get("/v1/batches")["data"].size(), 1u);
}

TEST_F(BatchesTest, ALineThatFailsStandsInAFileOfItsOwn) {
  const std::string wrong =
      R"({"custom_id":"two","method":"POST","url":"/v1/completions","body":{"prompt":1}})";
  const Json batch = WaitForEnd(Create(FileOf(Line("one") + wrong))["id"]);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_EQ(batch["request_counts"]["failed"], 1);
  const Json failure = Json::parse(Content(batch["error_file_id"]));
  EXPECT_EQ(failure["custom_id"], "two");
  EXPECT_EQ(failure["response"]["status_code"], 400);
}

TEST_F(BatchesTest, ALineThatNeverFitsTheQueueFails) {
  engine_.max_queue = 2;
  const std::string line =
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":["a","b","c"]}})";
  const Json batch = WaitForEnd(Create(FileOf(line))["id"]);
  EXPECT_EQ(batch["request_counts"]["failed"], 1);
  const Json failure = Json::parse(Content(batch["error_file_id"]));
  EXPECT_EQ(failure["response"]["status_code"], 400);
  EXPECT_EQ(failure["response"]["body"]["error"]["message"],
            "prompt has 3 prompts, and the queue of this server takes 2 (--max-queue); send the "
            "rest in another request");
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(BatchesTest, AKeysBatchesLeavePlacesToOthers) {
  UseKeys("one\ntwo\n");
  held_ = true;
  const std::string ones = FileOf(Line("a"), "Bearer one"), twos = FileOf(Line("a"), "Bearer two");
  while (Create(ones, "Bearer one").contains("id")) continue;
  EXPECT_TRUE(Create(twos, "Bearer two").contains("id"));
}

TEST_F(BatchesTest, AFileThatIsNoBatchFailsWithEachLine) {
  const std::string other =
      R"({"custom_id":"x","method":"POST","url":"/v1/embeddings","body":{"input":"a"}})";
  const Json batch = WaitForEnd(
      Create(FileOf(StrCat(Line("one"), "nothing\n", Line("one"), other, "\n", "{}\n")))["id"]);
  EXPECT_EQ(batch["status"], "failed");
  ASSERT_EQ(batch["errors"]["data"].size(), 4u);
  EXPECT_EQ(batch["errors"]["data"][0]["line"], 2);
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(BatchesTest, WhatRunsIsCancelled) {
  held_ = true;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += Line(StrCat("line", i));
  const std::string id = Create(FileOf(lines))["id"];
  while (Get(StrCat("/v1/batches/", id))["status"] != "in_progress") std::this_thread::yield();
  EXPECT_EQ(Send("POST", StrCat("/v1/batches/", id, "/cancel"))->body()["status"], "cancelling");
  EXPECT_EQ(WaitForEnd(id)["status"], "cancelled");
  EXPECT_EQ(engine_.cancelled.size(), engine_.submitted.size());
  EXPECT_EQ(Send("POST", StrCat("/v1/batches/", id, "/cancel"))->reply.status, 409);
}

TEST_F(BatchesTest, AFileThatIsDeletedBeforeItsTurnIsSaid) {
  held_ = true;
  const std::string first = Create(FileOf(Line("one")))["id"];
  while (Get(StrCat("/v1/batches/", first))["status"] != "in_progress") std::this_thread::yield();
  const std::string file = FileOf(Line("two"));
  const std::string second = Create(file)["id"];
  EXPECT_EQ(Send("DELETE", StrCat("/v1/files/", file))->body()["deleted"], true);
  Send("POST", StrCat("/v1/batches/", first, "/cancel"));
  const Json batch = WaitForEnd(second);
  EXPECT_EQ(batch["status"], "failed");
  EXPECT_EQ(batch["errors"]["data"][0]["param"], "input_file_id");
  EXPECT_EQ(batch["errors"]["data"][0]["line"], 0);
}

TEST_F(BatchesTest, AFullQueueIsWaitedFor) {
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  engine_.submits_before_failure = 1;
  const std::string id = Create(FileOf(Line("one") + Line("two")))["id"];
  while (Get(StrCat("/v1/batches/", id))["request_counts"]["completed"] != 1)
    std::this_thread::yield();
  EXPECT_EQ(Get(StrCat("/v1/batches/", id))["status"], "in_progress");
  engine_.submits_before_failure = 1'000'000;
  EXPECT_EQ(WaitForEnd(id)["request_counts"]["completed"], 2);
}

TEST_F(BatchesTest, AnotherKeyKnowsOfNothing) {
  UseKeys("one\ntwo\n");
  const std::string one = "Bearer one", two = "Bearer two";
  const std::string file = FileOf(Line("a"), one);
  const std::string id = Create(file, one)["id"];
  for (const std::string& path :
       {StrCat("/v1/files/", file), StrCat("/v1/files/", file, "/content"),
        StrCat("/v1/batches/", id)}) {
    EXPECT_EQ(Send("GET", path, "", two)->reply.status, 404) << path;
    EXPECT_EQ(Send("GET", path, "", one)->reply.status, 200) << path;
  }
  EXPECT_EQ(Send("DELETE", StrCat("/v1/files/", file), "", two)->reply.status, 404);
  EXPECT_EQ(Send("POST", StrCat("/v1/batches/", id, "/cancel"), "", two)->reply.status, 404);
  EXPECT_EQ(Get("/v1/files", two)["data"].size(), 0u);
  EXPECT_EQ(Get("/v1/batches", two)["data"].size(), 0u);
  EXPECT_EQ(Create(file, two)["error"]["param"], "input_file_id");
}

TEST_F(BatchesTest, AFileOfLinesGoesOnWhereItStopped) {
  const std::filesystem::path folder = ::testing::TempDir();
  const std::string in = folder / "sluice_batches_test_in",
                    out = folder / "sluice_batches_test_out";
  std::filesystem::remove(out);
  std::ofstream(in) << Line("one") << Line("two") << "nothing\n" << Line("three");
  const auto run = [&](int answers_max) {
    int answers = 0;
    const auto progress = RunBatch(
        engine_, in, out, [&](const BatchProgress&) { ++answers; },
        [&] { return answers >= answers_max; });
    EXPECT_TRUE(progress.ok()) << progress.status().message();
    return progress.ok() ? *progress : BatchProgress();
  };
  const BatchProgress first = run(100);
  EXPECT_EQ(first.completed, 3);
  EXPECT_EQ(first.failed, 1);
  // Cut within the last line, which is asked again.
  std::filesystem::resize_file(out, std::filesystem::file_size(out) - 5);
  const size_t asked = engine_.submitted.size();
  const BatchProgress second = run(100);
  EXPECT_EQ(second.before, 2);
  EXPECT_EQ(second.completed, 1);
  // The line that is none was told of once.
  EXPECT_EQ(second.failed, 0);
  EXPECT_EQ(second.failed_before, 1);
  EXPECT_EQ(engine_.submitted.size(), asked + 1);
  std::ofstream(out) << "something else\n";
  EXPECT_FALSE(RunBatch(
                   engine_, in, out, [](const BatchProgress&) {}, [] { return false; })
                   .ok());
}

TEST_F(BatchesTest, LinesOfAFileWithOneCustomIdAreRefusedBeforeAnyIsAsked) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string in = folder / "sluice_batches_test_twice_in",
                    out = folder / "sluice_batches_test_twice_out";
  std::filesystem::remove(out);
  std::ofstream(in) << Line("one") << "nothing\n" << Line("two") << Line("one");
  const size_t asked = engine_.submitted.size();
  const auto progress = RunBatch(
      engine_, in, out, [](const BatchProgress&) {}, [] { return false; });
  ASSERT_FALSE(progress.ok());
  EXPECT_EQ(progress.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(progress.status().message().find("line 4: custom_id is \"one\", as in line 1;"),
            std::string::npos)
      << progress.status().message();
  EXPECT_EQ(engine_.submitted.size(), asked);
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace sluice::server
