#include "include/api/status.h"

#include <map>

namespace mindspore {
struct Status::Data {
  enum StatusCode code = kSuccess;
  int line = -1;
  std::string file;
  std::string message;
};

Status::Status(enum StatusCode status_code, const std::string &status_msg) : Status(status_code, -1, "", status_msg) {}

Status::Status(enum StatusCode code, int line_of_code, const char *file_name, const std::string &extra) {
  if (code == kSuccess && extra.empty()) return;
  data_ = std::make_shared<Data>();
  *data_ = {code, line_of_code, file_name == nullptr ? "" : file_name, extra};
}

enum StatusCode Status::StatusCode() const { return data_ ? data_->code : kSuccess; }

std::string Status::ToString() const {
  std::string text = CodeAsString(StatusCode());
  if (data_ == nullptr || data_->message.empty()) return text;
  return (StatusCode() == kSuccess ? "" : text + ": ") + data_->message;
}

int Status::GetLineOfCode() const { return data_ ? data_->line : -1; }
std::string Status::GetFileName() const { return data_ ? data_->file : ""; }
std::string Status::GetErrDescription() const { return data_ ? data_->message : ""; }

std::string Status::SetErrDescription(const std::string &err_description) {
  Changed().message = err_description;
  return ToString();
}

void Status::SetStatusMsg(const std::string &status_msg) { Changed().message = status_msg; }

Status::Data &Status::Changed() {
  if (data_ == nullptr) data_ = std::make_shared<Data>();
  return *data_;
}

std::ostream &operator<<(std::ostream &os, const Status &s) { return os << s.ToString(); }

std::string Status::CodeAsString(enum StatusCode c) {
  static const std::map<enum StatusCode, const char *> names = {
      {kSuccess, "OK"},
      {kMCDeviceError, "no such device"},
      {kMDPythonInterpreterFailure, "Python did not start"},
      {kMDTimeOut, "timeout"},
      {kLiteError, "error"},
      {kLiteNullptr, "null pointer"},
      {kLiteParamInvalid, "invalid parameter"},
      {kLiteNoChange, "no change"},
      {kLiteMemoryFailed, "memory is full"},
      {kLiteNotSupport, "not supported"},
      {kLiteUninitializedObj, "not initialized"},
      {kLiteFileError, "file error"},
      {kLiteServiceDeny, "service denied"},
      {kLiteInputTensorError, "invalid tensor"},
      {kLiteGraphFileError, "invalid model file"},
      {kLiteNotFindOp, "unsupported operator"},
      {kLiteOpExecuteFailure, "failure in an operator"},
      {kLiteInputParamInvalid, "invalid configuration"},
  };
  auto found = names.find(c);
  return found == names.end() ? "code " + std::to_string(static_cast<int>(c)) : found->second;
}
}  // namespace mindspore
