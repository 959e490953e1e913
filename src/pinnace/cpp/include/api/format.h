// Layouts of tensors.
#pragma once

#include <cstdint>
#include <string>

namespace mindspore {
enum Format : int64_t {
  DEFAULT_FORMAT = -1,
  NCHW = 0,
  NHWC = 1,
  NHWC4 = 2,
  HWKC = 3,
  HWCK = 4,
  KCHW = 5,
  CKHW = 6,
  KHWC = 7,
  CHWK = 8,
  HW = 9,
  HW4 = 10,
  NC = 11,
  NC4 = 12,
  NC4HW4 = 13,
  NUM_OF_FORMAT = 14,
  NCDHW = 15,
  NWC = 16,
  NCW = 17,
  NDHWC = 18,
  NC8HW8 = 19
};

// Returns the name of a layout, "" for a number that is none.
inline std::string FormatEnumToString(Format format) {
  static const char *const names[] = {"DefaultFormat", "NCHW", "NHWC",   "NHWC4",         "HWKC",  "HWCK", "KCHW",
                                      "CKHW",          "KHWC", "CHWK",   "HW",            "HW4",   "NC",   "NC4",
                                      "NC4HW4",        "NUM_OF_FORMAT",  "NCDHW",         "NWC",   "NCW",  "NDHWC",
                                      "NC8HW8"};
  return format < DEFAULT_FORMAT || format > NC8HW8 ? "" : names[format + 1];
}
}  // namespace mindspore
