// The engine inside another program: opens a model, asks one question, prints the answer as it
// comes. Usage: embed_example MODEL QUESTION
#include <future>
#include <iostream>

#include "sluice/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: embed_example MODEL QUESTION\n";
    return 2;
  }
  sluice::EngineOptions options;
  options.model = argv[1];
  auto engine = sluice::Engine::Open(options, {});
  if (!engine.ok()) {
    std::cerr << engine.status().message() << "\n";
    return 3;
  }
  sluice::Request request;
  request.prompt = std::string(argv[2]);
  request.max_tokens = 64;
  request.sampling = sluice::Greedy(sluice::Sampling{});

  std::promise<sluice::Status> done;
  auto id = (*engine)->Submit(std::move(request), [&done](sluice::TextDelta&& delta) {
    std::cout << delta.text << std::flush;
    if (delta.last) done.set_value(delta.error);
  });
  const sluice::Status status = id.ok() ? done.get_future().get() : id.status();
  std::cout << "\n";
  if (status.ok()) return 0;
  std::cerr << status.message() << "\n";
  return 1;
}
