// Python, embedded: references, the lock, calls of pinnace.cpp.bridge.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "include/api/status.h"

namespace mindspore::python {
// Thrown where Python has an exception set. It never leaves the library.
struct Raised {};

// An owned reference. It is made and dropped with Python's lock held.
class Ref {
 public:
  Ref() = default;
  // Takes a new reference; throws Raised for null, which Python's functions return with an exception.
  static Ref New(PyObject *made) {
    if (made == nullptr) throw Raised();
    return Ref(made);
  }
  static Ref Of(PyObject *borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  Ref(const Ref &other) : Ref(Of(other.object_)) {}
  Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject *get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(PyObject *object) : object_(object) {}
  PyObject *object_ = nullptr;
};

// Starts Python, once, and imports the bridge. Afterwards no thread holds the lock.
Status Start();

// Returns true while Python runs: a program that embeds it may have ended it.
bool Alive();

// Returns the number of forks between the first process and this one.
int Forks();

// Holds Python's lock. A thread keeps its Python state until it ends, because making one takes microseconds.
class Lock {
 public:
  Lock();
  ~Lock() { PyGILState_Release(state_); }
  Lock(const Lock &) = delete;
  void operator=(const Lock &) = delete;

 private:
  PyGILState_STATE state_;
};

// Returns the exception that is set as a Status, and clears it.
Status Failure();

// Runs a function with Python's lock. What it throws becomes the Status.
template <class F>
Status Try(F &&body) {
  Status started = Start();
  if (started.IsError()) return started;
  Lock lock;
  try {
    body();
    return kSuccess;
  } catch (const Raised &) {
    return Failure();
  } catch (const Status &status) {
    return status;
  } catch (const std::exception &error) {
    return Status(kLiteMemoryFailed, error.what());
  }
}

// Returns what a function does with Python's lock, or nothing if it fails.
template <class F>
auto Tried(F &&body) {
  decltype(body()) result{};
  Try([&] { result = body(); });
  return result;
}

// A reference that is dropped without Python's lock, and forgotten once Python has ended.
class Held {
 public:
  Held() = default;
  explicit Held(Ref ref) : ref_(std::move(ref)) {}
  Held(Held &&) = default;
  Held &operator=(Held &&other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~Held() {
    if (!ref_) return;
    if (!Alive()) {
      new Ref(std::move(ref_));
      return;
    }
    Lock lock;
    ref_ = Ref();
  }
  const Ref &ref() const { return ref_; }
  explicit operator bool() const { return static_cast<bool>(ref_); }

 private:
  Ref ref_;
};

inline Ref Py(const Ref &value) { return value; }
inline Ref Py(bool value) { return Ref::Of(value ? Py_True : Py_False); }
inline Ref Py(int64_t value) { return Ref::New(PyLong_FromLongLong(value)); }
inline Ref Py(const std::string &value) {
  return Ref::New(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape"));
}
inline Ref Py(const char *value) { return Py(std::string(value)); }
template <class A, class B>
Ref Py(const std::pair<A, B> &pair);
template <class T>
Ref Py(const std::vector<T> &values);
template <class K, class V>
Ref Py(const std::map<K, V> &values);
template <class... T>
Ref Py(const std::variant<T...> &value) {
  return std::visit([](const auto &held) { return Py(held); }, value);
}
template <class A, class B>
Ref Py(const std::pair<A, B> &pair) {
  Ref first = Py(pair.first), second = Py(pair.second);
  return Ref::New(PyTuple_Pack(2, first.get(), second.get()));
}
template <class T>
Ref Py(const std::vector<T> &values) {
  Ref list = Ref::New(PyList_New(0));
  for (const T &value : values) {
    if (PyList_Append(list.get(), Py(value).get()) < 0) throw Raised();
  }
  return list;
}
template <class K, class V>
Ref Py(const std::map<K, V> &values) {
  Ref dict = Ref::New(PyDict_New());
  for (const auto &[key, value] : values) {
    if (PyDict_SetItem(dict.get(), Py(key).get(), Py(value).get()) < 0) throw Raised();
  }
  return dict;
}

int64_t Number(PyObject *value);
std::string Text(PyObject *value);
Ref Bytes(const void *data, size_t size);

// Calls a callable.
template <class... A>
Ref Apply(const Ref &callable, const A &...arguments) {
  Ref given[sizeof...(A) + 1] = {Py(arguments)...};
  PyObject *raw[sizeof...(A) + 1];
  for (size_t i = 0; i < sizeof...(A); ++i) raw[i] = given[i].get();
  return Ref::New(PyObject_Vectorcall(callable.get(), raw, sizeof...(A), nullptr));
}

// Returns the module of the bridge, which has functions and the names that it imports.
const Ref &Bridge();

inline Ref Attribute(const Ref &object, const char *name) {
  return Ref::New(PyObject_GetAttrString(object.get(), name));
}

template <class... A>
Ref Method(const Ref &object, const char *name, const A &...arguments) {
  return Apply(Attribute(object, name), arguments...);
}

// Calls a function of the bridge.
template <class... A>
Ref Call(const char *function, const A &...arguments) {
  return Method(Bridge(), function, arguments...);
}

// Calls a function for each element of a list or tuple.
template <class F>
void Each(const Ref &sequence, F &&body) {
  Ref all = Ref::New(PySequence_Fast(sequence.get(), "not a sequence"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.get()); ++i) body(PySequence_Fast_GET_ITEM(all.get(), i));
}
}  // namespace mindspore::python
