// Groups of models that share memory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "include/api/context.h"
#include "include/api/model.h"
#include "include/api/status.h"
#include "include/api/types.h"

namespace mindspore {
class ModelGroupImpl;

enum class ModelGroupFlag : int {
  kUnknown = 0,
  kShareWeight = 1,
  kShareWorkspace = 2,
  kShareWeightAndWorkspace = 3,
};

class MS_API ModelGroup {
 public:
  explicit ModelGroup(ModelGroupFlag flags = ModelGroupFlag::kShareWorkspace);
  ModelGroup(const ModelGroup &) = delete;
  ModelGroup &operator=(const ModelGroup &) = delete;

  // Adds model files before they are built; models from bytes cannot be told apart and answer kLiteNotSupport.
  Status AddModel(const std::vector<std::string> &model_path_list);
  Status AddModel(const std::vector<std::pair<const void *, size_t>> &model_buff_list);
  // Builds the models once, to report their errors here.
  Status CalMaxSizeOfWorkspace(ModelType model_type, const std::shared_ptr<Context> &ms_context);

 private:
  std::shared_ptr<ModelGroupImpl> impl_;
};
}  // namespace mindspore
