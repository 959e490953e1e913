#include "python.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace mindspore::python {
namespace {
std::atomic<const Ref *> bridge = nullptr;  // never dropped: threads may use it until the process ends
bool owner = false;  // this library started Python
int forks = 0;

Status AsStatus(const PyStatus &status) {
  return Status(kMDPythonInterpreterFailure, status.err_msg ? status.err_msg : "unknown failure");
}

std::string Executable() {
  const char *chosen = std::getenv("PINNACE_PYTHON");
  return chosen != nullptr && *chosen ? chosen : PINNACE_BUILT_FOR;
}

// Python's own extension modules look for its symbols globally, also where a program loads this library by dlopen.
void Export() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&Py_InitializeFromConfig), &info) != 0) {
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  }
}

Status Initialize() {
  Export();
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;  // signals belong to the program
  config.parse_argv = 0;
  std::string executable = Executable();
  PyStatus status = PyConfig_SetBytesString(&config, &config.executable, executable.c_str());
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return PyStatus_Exception(status) ? AsStatus(status) : kSuccess;
}

// A fork by the program does for Python what os.fork does. A fork by Python itself is made with the lock held.
thread_local bool forking = false;
thread_local PyGILState_STATE before_fork;

void BeforeFork() {
  forking = Alive() && !PyGILState_Check();
  if (!forking) return;
  before_fork = PyGILState_Ensure();
  PyOS_BeforeFork();
}
void InParent() {
  if (!std::exchange(forking, false)) return;
  PyOS_AfterFork_Parent();
  PyGILState_Release(before_fork);
}
void InChild() {
  ++forks;
  if (!std::exchange(forking, false)) return;
  PyOS_AfterFork_Child();
  PyGILState_Release(before_fork);
}

// What Python does at its end, before the libraries that it has loaded are torn down. The interpreter itself is never
// ended, because other threads may still be in it.
void AtExit() {
  if (!Alive()) return;
  Lock lock;
  try {
    Call("leave");
  } catch (const Raised &) {
    PyErr_Print();
  }
}

// Returns the exception that is set, and clears it.
Ref Caught() {
#if PY_VERSION_HEX >= 0x030C0000
  return Ref::New(PyErr_GetRaisedException());
#else
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return Ref::New(value);
#endif
}

std::string Described(const Status &why) {
  return "Python of " + Executable() + " cannot run Pinnace: " + why.GetErrDescription() +
         ". This library was built for Python " PY_VERSION " by `pinnace cpp`; PINNACE_PYTHON names the python of "
         "another environment with the same version of Python, and Pinnace in it";
}

Status Import() {
  PyObject *module = PyImport_ImportModule("pinnace.cpp.bridge");
  if (module == nullptr) {
    return Status(kMDPythonInterpreterFailure, Text(Ref::New(PyObject_Str(Caught().get())).get()));
  }
  bridge = new Ref(Ref::New(module));
  pthread_atfork(BeforeFork, InParent, InChild);
  if (!owner) return kSuccess;
  std::atexit(AtExit);
  try {
    Call("enter");
    return kSuccess;
  } catch (const Raised &) {
    return Failure();
  }
}

Status StartOnce() {
  if (!Py_IsInitialized()) {
    Status initialized = Initialize();
    if (initialized.IsError()) return Status(kMDPythonInterpreterFailure, Described(initialized));
    owner = true;
    Status imported = Import();
    PyEval_SaveThread();  // from now on any thread may take the lock
    return imported.IsOk() ? imported : Status(kMDPythonInterpreterFailure, Described(imported));
  }
  PyGILState_STATE state = PyGILState_Ensure();
  Status imported = Import();
  PyGILState_Release(state);
  return imported;
}

// The Python state of a thread that Python did not start.
struct Thread {
  PyGILState_STATE state = PyGILState_Ensure();
  PyThreadState *saved = PyEval_SaveThread();
  ~Thread() {
    if (!Alive()) return;
    PyEval_RestoreThread(saved);
    PyGILState_Release(state);
  }
};
}  // namespace

int Forks() { return forks; }

bool Alive() { return bridge != nullptr && Py_IsInitialized(); }

Status Start() {
  static std::once_flag once;
  static Status *started = new Status;  // never freed, like what it tells of
  if (bridge == nullptr) {
    // A thread that waits here with the lock would stop the one that starts.
    PyThreadState *held = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
    std::call_once(once, [] { *started = StartOnce(); });
    if (held != nullptr) PyEval_RestoreThread(held);
  }
  if (started->IsOk() && !Py_IsInitialized()) {
    return Status(kMDPythonInterpreterFailure, "the program has ended the Python that it embeds");
  }
  return *started;
}

Lock::Lock() {
  if (PyGILState_GetThisThreadState() == nullptr) thread_local Thread kept;
  state_ = PyGILState_Ensure();
}

Status Failure() {
  try {
    Ref status = Call("status_of", Caught());
    return Status(static_cast<StatusCode>(Number(PyTuple_GetItem(status.get(), 0))),
                  Text(PyTuple_GetItem(status.get(), 1)));
  } catch (const Raised &) {
    PyErr_Clear();
    return Status(kLiteError, "an error that cannot be described");
  }
}

int64_t Number(PyObject *value) {
  long long number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred()) throw Raised();
  return number;
}

std::string Text(PyObject *value) {
  Ref bytes = Ref::New(PyUnicode_AsEncodedString(value, "utf-8", "surrogateescape"));
  return std::string(PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())));
}

Ref Bytes(const void *data, size_t size) {
  return Ref::New(PyBytes_FromStringAndSize(static_cast<const char *>(data), static_cast<Py_ssize_t>(size)));
}

const Ref &Bridge() { return *bridge; }
}  // namespace mindspore::python
