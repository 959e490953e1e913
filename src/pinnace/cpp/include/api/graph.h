// A model file that `Serialization::Load` has found, to be built by `Model::Build`.
#pragma once

#include <memory>

#include "include/api/status.h"
#include "include/api/types.h"

namespace mindspore {
class Net;

class MS_API Graph {
 public:
  struct GraphData;
  enum Type : uint32_t { kExpressionGraph = 0, kExecutableGraph = 1, kUnknownTypeGraph = 0xffffffff };

  Graph() = default;
  explicit Graph(const std::shared_ptr<GraphData> &graph_data) : graph_data_(graph_data) {}
  explicit Graph(std::nullptr_t) {}

  // Returns kUnknownType if nothing was loaded.
  enum ModelType ModelType() const;
  bool operator==(std::nullptr_t) const { return graph_data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return graph_data_ != nullptr; }
  bool IsExecutable() { return true; }

 private:
  friend class Model;
  friend class Serialization;
  std::shared_ptr<GraphData> graph_data_;
};
}  // namespace mindspore
