// Memory of tensors from a place of the program's own.
#pragma once

#include <memory>

#include "include/api/types.h"

namespace mindspore {
class MS_API Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void *Malloc(size_t size) = 0;
  virtual void *Malloc(size_t, size_t, DataType) { return nullptr; }
  virtual void Free(void *ptr) = 0;
  virtual int RefCount(void *ptr) = 0;
  virtual int SetRefCount(void *ptr, int ref_count) = 0;
  virtual int DecRefCount(void *ptr, int ref_count) = 0;
  virtual int IncRefCount(void *ptr, int ref_count) = 0;
  // Returns an allocator of the C library's memory.
  static std::shared_ptr<Allocator> Create();
  virtual void *Prepare(void *ptr) { return ptr; }

 protected:
  size_t aligned_size_ = 32;
};
}  // namespace mindspore
