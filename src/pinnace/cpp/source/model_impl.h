// What a Model and a ModelParallelRunner share: the model of Python under them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "include/api/context.h"
#include "tensor.h"

namespace mindspore {
using python::Call;
using python::Held;
using python::Method;
using python::Number;
using python::Py;
using python::Ref;
using python::Text;
using python::Tried;
using python::Try;

using Clock = std::chrono::steady_clock;

// Returns what the bridge knows as a context: None, or its options and those of its devices.
inline Ref Described(const std::shared_ptr<Context> &context) {
  if (context == nullptr) return Ref::Of(Py_None);
  std::vector<std::pair<int64_t, Ref>> devices;
  for (const auto &device : context->MutableDeviceInfo()) {
    if (device == nullptr) throw Status(kLiteNullptr, "a device of the context is nullptr");
    devices.emplace_back(device->GetDeviceType(), Py(device->data().values));
  }
  return Py(std::make_pair(Py(context->data().values), Py(devices)));
}

inline Ref Bytes(const void *data, size_t size) {
  if (data == nullptr || size == 0) throw Status(kLiteNullptr, "the model has no bytes");
  return python::Bytes(data, size);
}

// Turns of threads at a small model. Threads hand Python's lock over in tens of microseconds, each time that the engine
// gives it up; a model that takes less runs faster one request at a time. Turns end when they have taken longer for a
// while.
class Turns {
 public:
  // Waits for a turn. Two do not wait: a thread with Python's lock, which the one whose turn it is needs, and a forked
  // child, which lacks that thread.
  std::unique_lock<std::mutex> Wait() {
    bool waits = small_.load(std::memory_order_relaxed) && forks_ == python::Forks() &&
                 (!python::Alive() || !PyGILState_Check());
    return waits ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  // Notes how long a turn took.
  void Took(std::chrono::duration<double> time) {
    excess_ = std::max(0.0, excess_ + (time.count() - kHandOver));
    if (excess_ > kWhile) small_ = false;
  }

 private:
  static constexpr double kHandOver = 100e-6, kWhile = 20e-3;  // seconds
  const int forks_ = python::Forks();
  std::mutex mutex_;
  std::atomic<bool> small_{true};
  double excess_ = 0;
};

// A model of Python, and the tensors that C++ has of it. Python's lock guards the members.
class ModelImpl {
 public:
  ~ModelImpl() { Close(); }

  // Throws kLiteModelRebuild for a second model, also if several threads build one at the same time.
  void Use(const Ref &built) {
    CheckIsNew();
    model_ = Held(built);
    predict_ = Held(python::Attribute(built, "predict"));
    device_is_host_ = Number(Call("shares_memory", built).get()) != 0;
    inputs_ = Made("get_inputs");
    outputs_ = kinds_ = Made("get_outputs");
  }

  void CheckIsNew() const {
    if (built()) throw Status(kLiteModelRebuild, "it is built already: use another one");
  }

  bool built() const { return static_cast<bool>(model_); }
  const Ref &model() const {
    if (!built()) throw Status(kLiteUninitializedObj, "the model is not built");
    return model_.ref();
  }

  void Close() {
    if (!built()) return;
    Held model, predict;
    std::swap(model, model_);
    std::swap(predict, predict_);
    Try([&] { Method(model.ref(), "close"); });
  }

  // Returns new tensors for what the method `get_inputs` or `get_outputs` of the model returns.
  std::vector<MSTensor> Made(const char *method) const {
    std::vector<MSTensor> tensors;
    Each(Call("ports", Method(model(), method)), [&](PyObject *port) {
      std::vector<int64_t> shape;
      Each(Ref::Of(PyTuple_GetItem(port, 2)), [&](PyObject *size) { shape.push_back(Number(size)); });
      tensors.emplace_back(std::make_shared<MSTensor::Impl>(
          Text(PyTuple_GetItem(port, 0)), static_cast<DataType>(Number(PyTuple_GetItem(port, 1))), shape,
          static_cast<Format>(Number(PyTuple_GetItem(port, 3)))));
    });
    return tensors;
  }

  // Computes `outputs`, which become the model's own if `keeps`; see Model::Predict for what is in them.
  Status Predict(const std::vector<MSTensor> &inputs, std::vector<MSTensor> *outputs, bool keeps, bool in_place,
                 const MSKernelCallBack &before, const MSKernelCallBack &after) {
    if (outputs == nullptr) return Status(kLiteNullptr, "Predict was given nullptr for the outputs");
    std::vector<MSCallBackParam> steps;
    auto turn = turns_.Wait();
    Status status = Try([&] {
      Ref arrays = Arrays(inputs);
      if (!outputs->empty() && outputs->size() != kinds_.size()) {
        throw Status(kLiteInputTensorError, "the model has " + std::to_string(kinds_.size()) +
                                                " outputs, but Predict was given " + std::to_string(outputs->size()) +
                                                ": pass no tensors, or those of GetOutputs");
      }
      auto start = Clock::now();
      Ref results = Computed(arrays);
      if (turn) turns_.Took(Clock::now() - start);
      Take(results, outputs, in_place);
      if (keeps) outputs_ = *outputs;
      if (before || after) steps = Steps(arrays);
    });
    if (turn) turn.unlock();
    for (const auto &step : steps) {
      if ((before && !before({}, {}, step)) || (after && !after({}, {}, step))) {
        return Status(kLiteError, "a callback ended the prediction at operator " + step.node_name);
      }
    }
    return status;
  }

  Status PredictInPlace(const MSKernelCallBack &before, const MSKernelCallBack &after) {
    std::vector<MSTensor> outputs = Tried([&] { return outputs_; });
    return Predict(inputs_, &outputs, true, true, before, after);
  }

  void Resize(const std::vector<MSTensor> &inputs, const std::vector<std::vector<int64_t>> &dims) {
    Call("resize", model(), static_cast<int64_t>(inputs.size()), dims);
    std::vector<MSTensor> resized = Made("get_inputs");
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].SetShape(resized[i].Shape());
    outputs_ = kinds_ = Made("get_outputs");
  }

  std::vector<MSTensor> inputs() const { return inputs_; }
  std::vector<MSTensor> outputs() const { return outputs_; }

  std::string config_path;
  std::map<std::string, std::map<std::string, std::string>> config;

 private:
  Ref Arrays(const std::vector<MSTensor> &tensors) const {
    auto list = Ref::New(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
    Py_ssize_t place = 0;
    for (const auto &tensor : tensors) {
      if (tensor == nullptr) throw Status(kLiteNullptr, "input " + std::to_string(place) + " is a null tensor");
      Ref array = tensor.impl()->Array(device_is_host_);
      Py_INCREF(array.get());
      PyList_SET_ITEM(list.get(), place++, array.get());
    }
    return list;
  }

  // Returns the list of tensors that Model.predict returns.
  Ref Computed(const Ref &arrays) const {
    model();
    Ref predict = predict_.ref();  // another thread may close the model
    PyObject *given[] = {arrays.get()};
    return Ref::New(PyObject_Vectorcall(predict.get(), given, 1, nullptr));
  }

  void Take(const Ref &results, std::vector<MSTensor> *outputs, bool in_place) const {
    static PyObject *const data_of = PyUnicode_InternFromString("get_data_to_numpy");
    bool fresh = outputs->empty();
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const auto &kind = *kinds_[i].impl();
      if (fresh) outputs->emplace_back(nullptr);
      MSTensor &output = (*outputs)[i];
      if (output == nullptr || (output.impl()->computed && !in_place)) {
        output = MSTensor(std::make_shared<MSTensor::Impl>(kind.name, kind.type, kind.shape, kind.format));
      }
      if (output.DataType() != kind.type) {
        throw Status(kLiteInputTensorError, "output '" + kind.name + "' has another element type than its tensor");
      }
      PyObject *result = PyList_GetItem(results.get(), static_cast<Py_ssize_t>(i));
      if (result == nullptr) throw python::Raised();
      output.impl()->Take(Ref::New(PyObject_CallMethodNoArgs(result, data_of)), device_is_host_);
    }
  }

  std::vector<MSCallBackParam> Steps(const Ref &arrays) const {
    std::vector<MSCallBackParam> steps;
    Each(Call("steps", model(), arrays), [&](PyObject *step) {
      steps.push_back({Text(PyTuple_GetItem(step, 0)), Text(PyTuple_GetItem(step, 1)),
                       PyFloat_AsDouble(PyTuple_GetItem(step, 2))});
    });
    return steps;
  }

  Held model_, predict_;
  Turns turns_;
  bool device_is_host_ = false;
  std::vector<MSTensor> inputs_, outputs_;
  std::vector<MSTensor> kinds_;  // the outputs without data
};
}  // namespace mindspore
