// FairShare: how much each client has had, in tokens by its weight, so that those who wait are
// served in turns: the virtual token counters of Sheng et al., "Fairness in Serving Large Language
// Models" (OSDI 2024). Step thread only.
//
// A client that comes back is lifted to the least of those that are there: nobody saves up. What it
// was ahead in time is forgotten as that passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sluice::schedule {

class FairShare {
 public:
  struct Client {
    uint64_t id = 0;
    double weight = 1.0;
    double served = 0.0;    // tokens by weight
    int32_t sequences = 0;  // waiting and running
    int32_t running = 0;
    // By how much it is behind what its share of the device alone would have given it; below 0:
    // ahead. Kept by Scheduler::Took.
    double behind_us = 0.0;
    double left_us = 0.0;  // the time that had passed when its last sequence left
    // What its steps would have taken alone since its first sequence came.
    double visit_us = 0.0;
    // Scratch of Took, and of plans.
    bool sits_out = false, contends = false;
    int32_t step_tokens = 0;  // of the step that was computed
    bool step_has_prompt = false;
  };
  // A drawn token counts as so many of a prompt, since it takes a step of its own.
  static constexpr double kDrawnTokenCost = 2.0;

  // A sequence of the client has come. The client stays where it is until its last one leaves.
  // REQUIRES: weight > 0
  Client* Join(uint64_t id, int32_t weight);
  void Leave(Client* client);
  // The visits of clients that have left are over: their last step has been booked.
  void EndVisits();
  // Null: unknown, or forgotten.
  Client* Find(uint64_t id);
  // So much time has passed in steps.
  void Pass(double microseconds) {
    passed_us_ += microseconds;
    alone_us_ = 0.0;
  }
  // The step that passed was of this client, and no other was there: who comes now has waited for
  // its end, and goes first for as long.
  void StepOfOne(double microseconds, Client* client) {
    alone_us_ = microseconds;
    client->behind_us = -microseconds;
    client->visit_us += microseconds;
  }
  static void Charge(double tokens, Client* client) { client->served += tokens / client->weight; }

  // Whether `a` is served before `b`: it had less, or as much and has fewer that run.
  static bool Before(const Client& a, const Client& b) {
    return a.served != b.served ? a.served < b.served : a.running < b.running;
  }

  // Two clients or more wanted the step that passed.
  void NoteContention() { contended_us_ = passed_us_; }
  // Of steps, since then.
  double QuietMinutes() const { return (passed_us_ - contended_us_) / 60e6; }
  // What the steps of the shortest visits of late, from a client's first sequence until it has
  // none, would have taken alone, in microseconds; 0: there was none.
  double ShortVisit() const { return short_visit_us_; }

  // That have sequences.
  size_t clients() const { return present_; }

 private:
  // By so much the shortest visit grows at the end of one that is longer.
  static constexpr double kVisitGrowth = 1.25;
  // What is remembered of clients that are gone.
  static constexpr size_t kGoneMax = 4096;
  // The least that a client which is there has had; of none, the most that was left behind.
  double Level() const;

  std::unordered_map<uint64_t, Client> by_id_;
  size_t present_ = 0;
  std::vector<uint64_t> left_;  // since the last EndVisits
  double left_at_ = 0.0;        // the level when the last client left
  double passed_us_ = 0.0;
  double contended_us_ = -1e18;  // the time that had passed at the last contention
  double alone_us_ = 0.0;        // the last step, if it was of one client alone
  double short_visit_us_ = 0.0;
};

}  // namespace sluice::schedule
