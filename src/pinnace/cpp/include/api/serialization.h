// Loading of model files for `Model::Build`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "include/api/graph.h"
#include "include/api/model.h"
#include "include/api/status.h"
#include "include/api/types.h"

namespace mindspore {
class MS_API Serialization {
 public:
  // Keeps a path, or a copy of the bytes; Model::Build reads them and reports what is wrong.
  static Status Load(const void *model_data, size_t data_size, ModelType model_type, Graph *graph,
                     const Key &dec_key = {}, const std::string &dec_mode = kDecModeAesGcm);
  static Status Load(const std::string &file, ModelType model_type, Graph *graph, const Key &dec_key = {},
                     const std::string &dec_mode = kDecModeAesGcm);
  static Status Load(const std::vector<std::string> &files, ModelType model_type, std::vector<Graph> *graphs,
                     const Key &dec_key = {}, const std::string &dec_mode = kDecModeAesGcm);

  static Status SetParameters(const std::map<std::string, Buffer> &, Model *) {
    return Status(kLiteNotSupport, "Pinnace changes weights by Model::UpdateWeights");
  }
  static Status ExportModel(const Model &, ModelType, Buffer *, QuantizationType = kNoQuant, bool = true,
                            const std::vector<std::string> & = {}) {
    return Unwritten();
  }
  static Status ExportModel(const Model &, ModelType, const std::string &, QuantizationType = kNoQuant, bool = true,
                            std::vector<std::string> = {}) {
    return Unwritten();
  }

 private:
  static Status Unwritten() { return Status(kLiteNotSupport, "Pinnace writes model files by `pinnace convert`"); }
};
}  // namespace mindspore
