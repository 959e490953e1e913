// Callbacks of training, which Pinnace does not do: they are never called.
#pragma once

#include <utility>

#include "include/api/types.h"

namespace mindspore {
class Model;
using GraphPoint = std::pair<int, float>;

struct MS_API TrainCallBackData {
  TrainCallBackData(bool train_mode, int epoch, int step, Model *model)
      : train_mode_(train_mode), epoch_(epoch), step_(step), model_(model) {}
  bool train_mode_;
  unsigned int epoch_;
  unsigned int step_ = 0;
  Model *model_;
};

enum CallbackRetValue : uint32_t { kContinue = 0, kStopTraining = 1, kExit = 2, kUnknownRetValue = 0xFFFFFFFF };

class MS_API TrainCallBack {
 public:
  virtual ~TrainCallBack() = default;
  virtual void Begin(const TrainCallBackData &) {}
  virtual void End(const TrainCallBackData &) {}
  virtual void EpochBegin(const TrainCallBackData &) {}
  virtual CallbackRetValue EpochEnd(const TrainCallBackData &) { return kContinue; }
  virtual void StepBegin(const TrainCallBackData &) {}
  virtual void StepEnd(const TrainCallBackData &) {}
};
}  // namespace mindspore
