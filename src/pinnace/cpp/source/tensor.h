// The data of a tensor, and the array of Python over it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "include/api/allocator.h"
#include "include/api/types.h"
#include "python.h"

namespace mindspore {
class MSTensor::Impl {
 public:
  Impl() = default;
  Impl(std::string name, enum DataType type, std::vector<int64_t> shape, mindspore::Format format = NHWC)
      : name(std::move(name)), type(type), shape(std::move(shape)), format(format) {}

  int64_t ElementNum() const;
  size_t DataSize() const;

  // Makes sure of DataSize() bytes: zeros where there were none. Returns nullptr if a dimension is free.
  void *Allocated();
  void Refer(void *given, bool own);
  bool Copy(const void *from, size_t size);

  // The array for a prediction, over the data where it lies; kept while data, type and shape stay.
  python::Ref Array(bool device_is_host);
  // Takes the results of an array: into the memory of the caller's if there is any, else as its own data. Throws
  // Status if they do not fit.
  void Take(const python::Ref &results, bool device_is_host);

  std::string name;
  enum DataType type = DataType::kTypeUnknown;
  std::vector<int64_t> shape;
  mindspore::Format format = NHWC;
  std::shared_ptr<void> data;
  size_t capacity = 0;      // bytes of data that is not the caller's
  bool given = false;       // the data is the caller's
  bool computed = false;    // the data is a result
  void *device_data = nullptr;
  std::shared_ptr<Allocator> allocator;
  std::vector<QuantParam> quant_params;

 private:
  python::Held array_;  // and what it was made of
  const void *of_ = nullptr;
  std::vector<int64_t> shaped_;
  enum DataType typed_ = DataType::kTypeUnknown;
};
}  // namespace mindspore
