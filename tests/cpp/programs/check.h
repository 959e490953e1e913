// What test programs share: checks that print what failed, and arguments.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "include/api/model.h"

inline int failures = 0;
#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      ++failures;                                                            \
      std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
    }                                                                        \
  } while (false)

// Checks the code of a status, and that its text contains some words.
#define CHECK_STATUS(call, expected, words)                                                                \
  do {                                                                                                     \
    mindspore::Status got = (call);                                                                        \
    if (got != (expected) || got.ToString().find(words) == std::string::npos) {                            \
      ++failures;                                                                                          \
      std::printf("%s:%d: %s is %d %s\n", __FILE__, __LINE__, #call, int(got), got.ToString().c_str());    \
    }                                                                                                      \
  } while (false)

#define CHECK_OK(call) CHECK_STATUS(call, mindspore::kSuccess, "OK")

inline std::vector<char> Read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline const float *Floats(const mindspore::MSTensor &tensor) {
  return static_cast<const float *>(tensor.Data().get());
}
