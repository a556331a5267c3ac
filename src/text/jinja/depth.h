// The bound on how deep an Interpreter recurses, whatever the template does: nested statements,
// expressions and macro calls together. Used by the interpreter's files alone.
#pragma once

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"

namespace sluice::text::jinja {

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter* interpreter) : interpreter_(interpreter) {
    // Each macro call of a deep recursion goes through a few statements and expressions.
    constexpr int kLevelsPerCall = 16;
    if (interpreter->depth_ >= interpreter->runtime_.limits().depth_max * kLevelsPerCall) {
      Fail("the template nests deeper than ",
           interpreter->runtime_.limits().depth_max * kLevelsPerCall, " levels");
    }
    ++interpreter->depth_;
  }
  ~Depth() { --interpreter_->depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter* interpreter_;
};

}  // namespace sluice::text::jinja
