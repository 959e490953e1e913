// The class that `Context::SetDelegate` names; see delegate_api.h.
#pragma once

#include "include/api/delegate_api.h"

namespace mindspore {
class Delegate : public AbstractDelegate {
 public:
  using AbstractDelegate::AbstractDelegate;
  virtual Status Init() = 0;
};
}  // namespace mindspore
