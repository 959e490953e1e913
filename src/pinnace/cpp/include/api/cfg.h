// The configuration of training, which Pinnace does not do: building with one answers kLiteNotSupport.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "include/api/types.h"

namespace mindspore {
constexpr int iter_th = 1000;

class MS_API MixPrecisionCfg {
 public:
  bool dynamic_loss_scale_ = false;
  float loss_scale_ = 128.0f;
  bool keep_batchnorm_fp32_ = true;
  uint32_t num_of_not_nan_iter_th_ = iter_th;
  bool is_raw_mix_precision_ = false;
};

class MS_API TrainCfg {
 public:
  std::vector<std::string> GetLossName() const { return loss_name_; }
  void SetLossName(const std::vector<std::string> &loss_name) { loss_name_ = loss_name; }
  OptimizationLevel optimization_level_ = kO0;
  MixPrecisionCfg mix_precision_cfg_;
  bool accumulate_gradients_ = false;

 private:
  std::vector<std::string> loss_name_ = {"loss_fct", "_loss_fn", "SigmoidCrossEntropy"};
};
}  // namespace mindspore
