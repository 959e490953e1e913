// A graph as `Model::Build` takes it.
#pragma once

#include <memory>
#include <utility>

#include "include/api/graph.h"

namespace mindspore {
class MS_API GraphCell final {
 public:
  GraphCell() = default;
  explicit GraphCell(const Graph &graph) : graph_(std::make_shared<Graph>(graph)) {}
  explicit GraphCell(const std::shared_ptr<Graph> &graph) : graph_(graph) {}
  const std::shared_ptr<Graph> &GetGraph() const { return graph_; }

 private:
  std::shared_ptr<Graph> graph_;
};
}  // namespace mindspore
