// Delegates, which run parts of a model in the program's own code. Pinnace runs none: a context with one answers
// kLiteNotSupport when a model is built.
#pragma once

#include <memory>
#include <vector>

#include "include/api/status.h"
#include "include/api/types.h"

namespace mindspore {
class AbstractDelegate {
 public:
  AbstractDelegate() = default;
  AbstractDelegate(const std::vector<MSTensor> &inputs, const std::vector<MSTensor> &outputs)
      : inputs_(inputs), outputs_(outputs) {}
  virtual ~AbstractDelegate() = default;
  const std::vector<MSTensor> &inputs() { return inputs_; }
  const std::vector<MSTensor> &outputs() { return outputs_; }

 protected:
  std::vector<MSTensor> inputs_;
  std::vector<MSTensor> outputs_;
};

template <typename Graph, typename Node, typename Kernel>
class IDelegate : public AbstractDelegate {
 public:
  using AbstractDelegate::AbstractDelegate;
  virtual void ReplaceNodes(const std::shared_ptr<Graph> &graph) = 0;
  virtual bool IsDelegateNode(const std::shared_ptr<Node> &node) = 0;
  virtual std::shared_ptr<Kernel> CreateKernel(const std::shared_ptr<Node> &node) = 0;
};
}  // namespace mindspore
